/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel modules of the GPU driver and those that are built against it: a row each, with all
 * that differs between them. What is true of nvidia-peermem alone is in entrypoint/rdma/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "entrypoint/options.h"

enum gpu_module_kind {
	GPU_MODULE_BASE,    /* loaded by every start */
	GPU_MODULE_OPTION,  /* loaded if its flag is set, or if there is a .conf for it */
	GPU_MODULE_PEERMEM, /* comes and goes with OFED (entrypoint/rdma/peermem.h) */
	GPU_MODULE_ADDON,   /* loaded if its flag is set, from the image or by a side container */
	GPU_MODULE_HOST,    /* of the driver of a vGPU host: never loaded from here */
};

/* Up to 545 one driver of this name stood before nvidia and nvidia-modeset. */
#define NVIDIA_FRONTEND "nvidia-frontend"

struct gpu_module_node {
	const char *driver;   /* whose major /proc/devices has */
	const char *frontend; /* has the major where @driver has none, or NULL */
	unsigned minor;
	const char *path; /* below the driver root */
	bool is_optional; /* CUDA does without it */
};

#define GPU_MODULE_NODES 2

struct gpu_module {
	const char *name; /* as the kernel knows it */
	enum gpu_module_kind kind;
	size_t flag;      /* where struct options has it: of an option or addon */
	const char *word; /* what a fingerprint calls the flag; an addon's side container, too */
	/* Addons only: */
	const char *variable;     /* sets the flag */
	const char *build_option; /* of slipway build: puts the module into an image */
	const char *feature;      /* what containers get by the device nodes */
	/* Device nodes that are made for it; behind the last one path is NULL. */
	struct gpu_module_node nodes[GPU_MODULE_NODES];
	const char *device_class; /* folder of sysfs with more of its devices, or NULL */
	/* fnmatch(3): a process with such a device open uses the module. NULL behind the last. */
	const char *devices[6];
	const char *drm_driver; /* PCI driver for whose devices it makes DRM nodes, or NULL */
};

#define GPU_MODULE_COUNT 8

/* In load order; name NULL behind the last. */
extern const struct gpu_module gpu_modules[GPU_MODULE_COUNT + 1];

/* The row of the module @name, or NULL: it is none of these. */
const struct gpu_module *gpu_module_find(const char *name);

/* The addon that the side container with the role @word loads, or NULL: there is none. */
const struct gpu_module *gpu_module_of_sidecar(const char *word);

/* Is the flag of an option or addon set? False for all others. */
bool gpu_module_is_asked(const struct gpu_module *module, const struct options *options);

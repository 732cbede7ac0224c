/* SPDX-License-Identifier: Apache-2.0 */
/* What the container was told to do: its environment and arguments, read once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct options {
	const char *verb;     /* set by the caller: whose arguments these are; NULL: "init" */
	bool rdma;            /* GPU_DIRECT_RDMA_ENABLED */
	bool host_ofed;       /* USE_HOST_MOFED: no NIC container, no ready flag */
	bool restore_inbox;   /* RESTORE_DRIVER_ON_POD_TERMINATION */
	bool gds;             /* GDS_ENABLED */
	bool gdrcopy;         /* GDRCOPY_ENABLED */
	bool vgpu;            /* DRIVER_TYPE=vgpu */
	bool vgpu_token;      /* VGPU_LICENSE_SERVER_TYPE is NLS, as it is unless said otherwise */
	bool vgpu_unchecked;  /* DISABLE_VGPU_VERSION_CHECK */
	bool toolkit_missing; /* RHCOS_IMAGE_MISSING: there is no driver toolkit of this node's
				 release */
	bool drm;             /* SLIPWAY_NVIDIA_DRM: load nvidia_drm too */
	const char *digest;   /* DRIVER_CONFIG_DIGEST, or "" */
	const char *node_cache; /* SLIPWAY_NODE_CACHE: where a build on the node is kept, as a path
				   of this container, or NULL */
	bool host_headers;      /* SLIPWAY_NODE_HEADERS=host: headers are not fetched for a build
				   on the node */
	uint32_t ofed_ms;       /* SLIPWAY_OFED_DEADLINE_SECONDS: how long to wait for OFED */
	uint32_t unload_ms; /* SLIPWAY_UNLOAD_DEADLINE_SECONDS: how long to wait for users to end */
	/* Arguments of "nvidia-driver init". Those of the stock image that we need not are NULL
	 * unless given. */
	uint32_t max_threads; /* -m: jobs of a build on the node; 0: as many as fit */
	bool accept_license;
	const char *kernel; /* -k */
	const char *tag;    /* -t */
	const char *sign;   /* -s */
};

/*
 * Reads the environment and, unless they are NULL, a GPU driver's arguments: what follows the verb,
 * NULL at the end. Strings are borrowed from both. -EINVAL for a value that is none, naming
 * variable or argument and value.
 */
int options_read(struct options *options, char *const *arguments, struct error *error);

/*
 * One variable of the environment: false unless it says yes; -EINVAL for a word that is neither yes
 * nor no, naming both.
 */
int options_flag(const char *name, bool *ret, struct error *error);
/* Whole seconds from @least to a week, in milliseconds; @otherwise where it is not set. */
int options_seconds(
	const char *name, long least, long otherwise, uint32_t *ret_ms, struct error *error);

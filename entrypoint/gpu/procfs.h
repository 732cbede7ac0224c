/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small text files of the NVIDIA driver and of the kernel's devices under /proc. Sources:
 * NVIDIA open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c, nv-caps.c; Linux
 * fs/proc/devices.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "entrypoint/role/gpu_modules.h"

#define PROCFS_NVIDIA "proc/driver/nvidia"

/*
 * Copies the value of the line "@key: value" of the file @path to @value, without the white space
 * around it. "" when file or line is not there.
 */
void procfs_value(int root_fd, const char *path, const char *key, char *value, size_t size);
/* The same of a file's text. */
void procfs_text_value(const char *text, const char *key, char *value, size_t size);

/* The same of /proc/driver/nvidia/params, as a number; -1 when it is not known. */
long procfs_nvidia_parameter(int root_fd, const char *name);

/* The major number of the character device driver @name in /proc/devices, or -1. */
int procfs_major(int root_fd, const char *name);

/* The minor that a capability file of the driver names (DeviceFileMinor), or -1. */
long procfs_capability_minor(int root_fd, const char *path);

#define PROCFS_GPUS_MAX 128
#define PROCFS_GPUS_MS  10000 /* the timeout for it */
#define PROCFS_SENTENCE 256

struct procfs_gpus {
	size_t count;
	int error; /* a negative errno: none could be asked */
	struct procfs_gpu {
		char address[32];
		bool has_answered;
		char text[1024]; /* of /proc/driver/nvidia/gpus/<address>/information; or "" */
	} items[PROCFS_GPUS_MAX];
};

/*
 * Asks the driver about each GPU, which takes its locks and may ask the GPU's firmware
 * (nv-procfs.c: nv_procfs_read_gpu_info()). One that hangs has not answered when @timeout_ms have
 * passed.
 */
void procfs_gpus_ask(int root_fd, int timeout_ms, struct procfs_gpus *ret);

/*
 * Writes the sentence for the next GPU, from *@i on, that has not answered in PROCFS_GPUS_MS, or
 * for all at once where none could be asked, and moves *@i behind it. False: there is no more.
 */
bool procfs_gpus_next_silent(
	const struct procfs_gpus *gpus, size_t *i, char sentence[PROCFS_SENTENCE]);

struct module_node {
	const struct gpu_module *module;
	char path[80]; /* below the root or the driver root: "dev/nvidiactl", "dev/nvidia-fs0" */
	dev_t device;
	bool is_optional; /* CUDA does without it */
	bool is_gpu;      /* one of several: a container may be given others */
};

#define DRIVER_NODES_MAX (4 + PROCFS_GPUS_MAX)

/*
 * The device nodes of the driver's own modules, as far as /proc/devices lists their devices now:
 * the control device, unified memory, modesetting, and those of @gpus that have answered. Returns
 * how many.
 */
size_t procfs_driver_nodes(
	int root_fd, const struct procfs_gpus *gpus, struct module_node nodes[DRIVER_NODES_MAX]);

#define ADDON_NODES_MAX (1 + 16)

/*
 * The device nodes, of mode 0666, of the addon @module (NULL: of all addons) as far as they are
 * loaded; returns how many. Whether a container is given GDRCopy or GPUDirect Storage goes by
 * them (nvidia-container-toolkit internal/discover/gdrcopy.go and gds.go). A container's /dev has
 * what the host's had when the container started, and gdrdrv registers a number and no device
 * (github.com/NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c, insmod.sh); nvidia-fs has up to 16 devices
 * (github.com/NVIDIA/gds-nvidia-fs src/nvfs-core.c).
 */
size_t procfs_addon_nodes(
	int root_fd, const struct gpu_module *module, struct module_node nodes[ADDON_NODES_MAX]);

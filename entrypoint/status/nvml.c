/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations after NVIDIA's nvml.h (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h): names, numbers
 * and layouts of what is asked here, nothing else. The library is never linked: a node may have
 * none, and its version has to be that of the driver that runs.
 */
#include "entrypoint/status/status_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "entrypoint/contract.h"

/* ---- in a child: the library opens the GPUs, and one that is not in use has to be started for
 * that */

#define LIBRARY "libnvidia-ml.so.1"

#define NVML_SUCCESS        0
#define NVML_NOT_SUPPORTED  3
#define NVML_FUNCTION_NONE  13
#define FABRIC_INFO_VERSION (sizeof(struct fabric_info_v2) | (2u << 24))

struct fabric_info {
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
};

struct fabric_info_v2 {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
};

typedef struct nvml_device *device;

struct nvml_answer {
	int count; /* -1: why */
	char why[256];
	struct nvml_gpu gpus[NVML_GPUS];
};

struct nvml {
	void *library;
	int (*init)(unsigned flags);
	int (*shutdown)(void);
	const char *(*error)(int code);
	int (*count)(unsigned *count);
	int (*handle)(unsigned index, device *handle);
	int (*uuid)(device handle, char *uuid, unsigned size);
	/* Newer libraries have the first, older ones the second alone. */
	int (*fabric_v)(device handle, struct fabric_info_v2 *info);
	int (*fabric)(device handle, struct fabric_info *info);
};

/* POSIX has dlsym() return functions as object pointers; ISO C has no cast for that. */
#define FIND(nvml, member, name) (*(void **) &(nvml)->member = dlsym((nvml)->library, name))

static bool has_functions(struct nvml *nvml)
{
	FIND(nvml, init, "nvmlInitWithFlags");
	FIND(nvml, shutdown, "nvmlShutdown");
	FIND(nvml, error, "nvmlErrorString");
	FIND(nvml, count, "nvmlDeviceGetCount_v2");
	FIND(nvml, handle, "nvmlDeviceGetHandleByIndex_v2");
	FIND(nvml, uuid, "nvmlDeviceGetUUID");
	FIND(nvml, fabric_v, "nvmlDeviceGetGpuFabricInfoV");
	FIND(nvml, fabric, "nvmlDeviceGetGpuFabricInfo");
	return nvml->init && nvml->shutdown && nvml->error && nvml->count && nvml->handle &&
	       nvml->uuid;
}

/* 0: the library is open and at work. */
static int open_library(struct nvml *nvml, const char *path, char why[256])
{
	int r;

	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return -ENOENT;
	if (!has_functions(nvml)) {
		(void) snprintf(why, 256, "this %s lacks what is asked", LIBRARY);
		return -ENOSYS;
	}
	/* Without attaching to GPUs (flag 2) the library counts none: seen with 580.159.04. */
	r = nvml->init(0);
	if (r == NVML_SUCCESS)
		return 0;
	(void) snprintf(why, 256, "%s: %.200s", LIBRARY, nvml->error(r));
	return -EIO;
}

static int open_any(int root_fd, struct nvml *nvml, char why[256])
{
	static const char *const folders[] = { CONTRACT_DRIVER_ROOT "/usr/lib64",
		CONTRACT_DRIVER_ROOT "/usr/lib/x86_64-linux-gnu",
		CONTRACT_DRIVER_ROOT "/usr/lib/aarch64-linux-gnu" };

	(void) snprintf(why, 256, "there is no %s here", LIBRARY);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[PATH_MAX];

		(void) snprintf(
			path, sizeof(path), "/proc/self/fd/%d/%s/%s", root_fd, folders[i], LIBRARY);
		if (open_library(nvml, path, why) == 0)
			return 0;
	}
	return open_library(nvml, LIBRARY, why);
}

static void put_cluster(const unsigned char bytes[16], char text[37])
{
	size_t used = 0;

	for (size_t i = 0; i < 16; i++)
		used += (size_t) snprintf(text + used, 37 - used, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static int ask_fabric(const struct nvml *nvml, device handle, struct fabric_info *info)
{
	struct fabric_info_v2 newer = { .version = FABRIC_INFO_VERSION };
	int r = nvml->fabric_v ? nvml->fabric_v(handle, &newer) : NVML_FUNCTION_NONE;

	if (r == NVML_SUCCESS) {
		memcpy(info->cluster, newer.cluster, sizeof(info->cluster));
		info->status = newer.status;
		info->clique = newer.clique;
		info->state = newer.state;
		return r;
	}
	return nvml->fabric ? nvml->fabric(handle, info) : r;
}

static void ask_gpu(const struct nvml *nvml, unsigned index, struct nvml_gpu *gpu)
{
	struct fabric_info info = { .status = 0 };
	device handle;
	int r = nvml->handle(index, &handle);

	if (r == NVML_SUCCESS)
		r = nvml->uuid(handle, gpu->uuid, sizeof(gpu->uuid));
	if (r == NVML_SUCCESS)
		r = ask_fabric(nvml, handle, &info);
	if (r == NVML_NOT_SUPPORTED)
		return; /* which is a state, too, and the first of them */
	if (r != NVML_SUCCESS) {
		(void) snprintf(gpu->error, sizeof(gpu->error), "%s", nvml->error(r));
		return;
	}
	gpu->state = info.state;
	gpu->status = info.status;
	gpu->clique = info.clique;
	put_cluster(info.cluster, gpu->cluster);
}

static void ask_nvml(int root_fd, void *context)
{
	struct nvml_answer *answer = context;
	struct nvml nvml = { .library = NULL };
	unsigned count = 0;
	int r;

	answer->count = -1;
	if (open_any(root_fd, &nvml, answer->why) < 0)
		return;
	r = nvml.count(&count);
	if (r != NVML_SUCCESS) {
		(void) snprintf(answer->why, sizeof(answer->why), "%.200s", nvml.error(r));
		return;
	}
	for (unsigned i = 0; i < count && i < NVML_GPUS; i++)
		ask_gpu(&nvml, i, &answer->gpus[i]);
	answer->count = (int) (count < NVML_GPUS ? count : NVML_GPUS);
	(void) nvml.shutdown();
}

/* ---- in the program */

const char *nvml_fabric_state_name(unsigned state)
{
	static const char *const names[NVML_FABRIC_STATES] = {
		[NVML_FABRIC_NOT_SUPPORTED] = "not supported",
		[NVML_FABRIC_NOT_STARTED] = "not started",
		[NVML_FABRIC_IN_PROGRESS] = "in progress",
		[NVML_FABRIC_COMPLETED] = "completed",
	};

	return state < NVML_FABRIC_STATES ? names[state] : "of an unknown kind";
}

int nvml_fabric(int root_fd, struct nvml_gpu gpus[NVML_GPUS], char why[256])
{
	_cleanup_free_ struct nvml_answer *answer = calloc(1, sizeof(*answer));
	struct driver_version version;

	driver_version(root_fd, &version);
	if (!version.loaded || !fs_exists(root_fd, "dev/nvidiactl")) {
		(void) snprintf(why, 256, "%s",
			version.loaded ? "there is no /dev/nvidiactl here" : "no driver is loaded");
		return -1;
	}
	if (!answer || !status_ask_child(ask_nvml, root_fd, answer, sizeof(*answer))) {
		(void) snprintf(why, 256, "libnvidia-ml gave no answer within 5 s");
		return -1;
	}
	memcpy(gpus, answer->gpus, sizeof(answer->gpus));
	memcpy(why, answer->why, sizeof(answer->why));
	return answer->count;
}

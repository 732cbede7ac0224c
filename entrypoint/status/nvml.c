/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations after NVIDIA's nvml.h (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h): names, numbers
 * and layouts of what is asked here, nothing else. The library is never linked: a node may have
 * none, and its version has to be that of the driver that runs.
 */
#include "entrypoint/status/status_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/library.h"
#include "entrypoint/engine/ask.h"
#include "module/running.h"

#define LIBRARY "libnvidia-ml.so.1"

#define NVML_SUCCESS       0
#define NVML_NOT_SUPPORTED 3
#define NVML_FUNCTION_NONE 13

#define FABRIC_INFO_VERSION (sizeof(struct fabric_info) | (2u << 24))

/* From "cluster" to "state" it is what drivers before 545 fill, whose function has no version. */
struct fabric_info {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
};

typedef struct nvml_device *device;

struct nvml {
	int (*init)(unsigned flags);
	int (*shutdown)(void);
	const char *(*error)(int code);
	int (*count)(unsigned *count);
	int (*handle)(unsigned index, device *handle);
	int (*uuid)(device handle, char *uuid, unsigned size);
	/* One of them is NULL in most libraries. */
	int (*fabric_v)(device handle, struct fabric_info *info);
	int (*fabric)(device handle, void *cluster);
};

/* ---- in a child: the library opens the GPUs, and one that is not in use has to be started for
 * that */

/* Is it there and at work? If not, @why says so; of one that is not there, *ret_cause. */
static bool try_library(const char *path, struct nvml *nvml, char why[256], const char **ret_cause)
{
	const struct status_symbol wanted[] = {
		{ "nvmlInitWithFlags", &nvml->init },
		{ "nvmlShutdown", &nvml->shutdown },
		{ "nvmlErrorString", &nvml->error },
		{ "nvmlDeviceGetCount_v2", &nvml->count },
		{ "nvmlDeviceGetHandleByIndex_v2", &nvml->handle },
		{ "nvmlDeviceGetUUID", &nvml->uuid },
	};
	void *library = library_open(path, RTLD_NOW, ret_cause);
	int r;

	if (!library)
		return false;
	if (!status_find_symbols(library, wanted, ARRAY_SIZE(wanted))) {
		(void) snprintf(why, 256, "this " LIBRARY " lacks a function that is needed");
		return false;
	}
	*(void **) &nvml->fabric_v = dlsym(library, "nvmlDeviceGetGpuFabricInfoV");
	*(void **) &nvml->fabric = dlsym(library, "nvmlDeviceGetGpuFabricInfo");
	/* Without attaching to GPUs (flag 2) the library counts none: seen with 580.159.04. */
	r = nvml->init(0);
	if (r != NVML_SUCCESS)
		(void) snprintf(why, 256, LIBRARY ": %.200s", nvml->error(r));
	return r == NVML_SUCCESS;
}

/*
 * The driver root's own comes first. While an image starts, that may still be the root of the one
 * before, whose library does not fit the modules.
 */
static bool open_nvml(int root_fd, struct nvml *nvml, char why[256])
{
	const char *cause;
	char folder[96];

	for (size_t i = 0; driver_library_folder(i, folder); i++) {
		char path[PATH_MAX];

		(void) snprintf(
			path, sizeof(path), "/proc/self/fd/%d/%s/" LIBRARY, root_fd, folder);
		if (try_library(path, nvml, why, &cause))
			return true;
	}
	if (try_library(LIBRARY, nvml, why, &cause))
		return true;
	if (!*why)
		(void) snprintf(why, 256, "%s", cause);
	return false;
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
	int r = nvml->fabric_v ? nvml->fabric_v(handle, info) : NVML_FUNCTION_NONE;

	return r == NVML_SUCCESS || !nvml->fabric ? r : nvml->fabric(handle, info->cluster);
}

static void ask_gpu(const struct nvml *nvml, unsigned index, struct nvml_gpu *gpu)
{
	struct fabric_info info = { .version = FABRIC_INFO_VERSION };
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
	unsigned count = 0;
	struct nvml nvml;
	int r;

	if (!open_nvml(root_fd, &nvml, answer->why))
		return;
	r = nvml.count(&count);
	if (r != NVML_SUCCESS) {
		(void) snprintf(answer->why, sizeof(answer->why), "%.200s", nvml.error(r));
		return;
	}
	answer->count = (int) (count < NVML_GPUS ? count : NVML_GPUS);
	for (int i = 0; i < answer->count; i++)
		ask_gpu(&nvml, (unsigned) i, &answer->gpus[i]);
	(void) nvml.shutdown();
}

/* ---- in the program */

const char *nvml_fabric_state_name(unsigned state)
{
	static const char *const names[] = { "not supported", "not started",
		"in progress", [NVML_FABRIC_COMPLETED] = "completed" };

	return state < ARRAY_SIZE(names) ? names[state] : "of an unknown kind";
}

void nvml_fabric(int root_fd, struct nvml_answer *answer)
{
	const char *why = NULL;
	int r;

	*answer = (struct nvml_answer){ .count = -1 };
	if (!sysmodule_is_live(root_fd, "nvidia"))
		why = "no driver is loaded";
	else if (!fs_exists(root_fd, "dev/nvidiactl"))
		why = "there is no /dev/nvidiactl here";
	if (why) {
		(void) snprintf(answer->why, sizeof(answer->why), "%s", why);
		return;
	}
	r = ask_in_child(ask_nvml, root_fd, answer, sizeof(*answer), STATUS_LIBRARY_MS);
	if (r < 0)
		answer->count = -1;
	if (r == -ETIMEDOUT)
		(void) snprintf(answer->why, sizeof(answer->why),
			"libnvidia-ml gave no answer within %d s", STATUS_LIBRARY_MS / 1000);
	else if (r == -EPIPE)
		(void) snprintf(answer->why, sizeof(answer->why),
			"libnvidia-ml ended the process that asked it");
	else if (r < 0)
		(void) snprintf(answer->why, sizeof(answer->why),
			"libnvidia-ml could not be asked: %s", strerror(-r));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libnvidia-ml.so.1, which needs a GPU: three GPUs, one in a fabric, one that knows
 * none, one that is broken. NVML_DOUBLE makes it "refuse" to start, "hang", or
 * "end" the process that asked, as a crash in it would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct info {
	unsigned version;
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
};

int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle);
int nvmlDeviceGetUUID(const void *handle, char *uuid, unsigned size);
int nvmlDeviceGetGpuFabricInfoV(const void *handle, struct info *info);

static char gpus[3];

int nvmlInitWithFlags(unsigned flags)
{
	const char *wish = getenv("NVML_DOUBLE");

	(void) flags;
	if (wish && strcmp(wish, "hang") == 0)
		(void) sleep(1000);
	if (wish && strcmp(wish, "end") == 0)
		_exit(1);
	return wish && strcmp(wish, "refuse") == 0 ? 18 : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int code)
{
	return code == 18 ? "Driver/library version mismatch" : "GPU is lost";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 3;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
	*handle = &gpus[index];
	return 0;
}

int nvmlDeviceGetUUID(const void *handle, char *uuid, unsigned size)
{
	(void) snprintf(uuid, size, "GPU-%d", (int) ((const char *) handle - gpus));
	return 0;
}

int nvmlDeviceGetGpuFabricInfoV(const void *handle, struct info *info)
{
	if (info->version != (sizeof(*info) | (2u << 24)))
		return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
	if (handle == &gpus[1])
		return 3; /* NVML_ERROR_NOT_SUPPORTED */
	if (handle == &gpus[2])
		return 15; /* NVML_ERROR_GPU_IS_LOST */
	memset(info->cluster, 0xab, sizeof(info->cluster));
	info->status = 0;
	info->clique = 7;
	info->state = 3; /* NVML_GPU_FABRIC_STATE_COMPLETED */
	return 0;
}

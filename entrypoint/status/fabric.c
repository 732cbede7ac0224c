/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink's fabric: the switches, what the driver made of them, whether NVLink is switched off,
 * whether somebody manages it, and what the GPUs say of it (nvml.h). Where the switches
 * are in trays of their own (NVL72) or on the other side of a hypervisor, only the GPUs know.
 * Sources: open-gpu-kernel-modules
 * kernel-open/nvidia/{linux_nvswitch.c,nvlink_linux.c}.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/gpu/fabric.h"
#include "entrypoint/status/driver_version.h"
#include "entrypoint/status/nvml.h"
#include "entrypoint/status/part.h"
#include "entrypoint/status/processes.h"
#include "entrypoint/gpu/procfs.h"

#define SWITCH_DEVICES        "proc/driver/nvidia-nvswitch/devices"
#define MANAGEMENT_CAPABILITY "proc/driver/nvidia-nvlink/capabilities/fabric-mgmt"
#define MANAGER_SOCKET        "run/nvidia-fabricmanager/socket"

enum management {
	MANAGEMENT_UNKNOWN,   /* no driver is loaded */
	MANAGEMENT_OFF,       /* NVLink is switched off */
	MANAGEMENT_NONE,      /* no switch to manage on this node */
	MANAGEMENT_ELSEWHERE, /* the rack's own */
	MANAGEMENT_RUNNING,   /* a fabric manager */
	MANAGEMENT_MISSING,   /* switches, and nobody who manages them */
};

struct facts {
	struct fabric fabric; /* by PCI alone */
	bool driver_loaded;
	size_t driven;         /* NVSwitches that the driver has */
	long nvlink_disabled;  /* NvLinkDisable: 1, 0, or -1: not told */
	long management_minor; /* of the capability that a fabric manager opens; -1: none */
	struct process_seen manager, subnet_manager; /* pid 0: does not run */
	bool socket;                                 /* the fabric manager's */
	/* What the GPUs say themselves; -1: nobody could ask them, and why. */
	int gpu_count;
	char unasked[256];
	struct nvml_gpu gpus[NVML_GPUS];
};

static void look(int root_fd, struct facts *facts)
{
	_cleanup_strv_ struct strv devices = { 0 };
	struct driver_version version;

	fabric_find(root_fd, &facts->fabric);
	driver_version(root_fd, &version);
	facts->driver_loaded = version.loaded;
	if (fs_list(root_fd, SWITCH_DEVICES, &devices) == 0)
		facts->driven = devices.count;
	facts->nvlink_disabled = procfs_nvidia_parameter(root_fd, "NvLinkDisable");
	facts->management_minor = procfs_capability_minor(root_fd, MANAGEMENT_CAPABILITY);
	facts->socket = fs_exists(root_fd, MANAGER_SOCKET);
	(void) processes_of_program(root_fd, "nv-fabricmanager", &facts->manager, 1);
	(void) processes_of_program(root_fd, "nvlsm", &facts->subnet_manager, 1);
	facts->gpu_count = nvml_fabric(root_fd, facts->gpus, facts->unasked);
}

static enum management management_of(const struct facts *facts)
{
	if (!facts->driver_loaded)
		return MANAGEMENT_UNKNOWN;
	if (facts->nvlink_disabled > 0)
		return MANAGEMENT_OFF;
	if (facts->manager.pid)
		return MANAGEMENT_RUNNING;
	if (facts->fabric.kind == FABRIC_ELSEWHERE)
		return MANAGEMENT_ELSEWHERE;
	return facts->fabric.kind == FABRIC_NONE ? MANAGEMENT_NONE : MANAGEMENT_MISSING;
}

static const char *const management_names[] = {
	[MANAGEMENT_UNKNOWN] = "unknown",
	[MANAGEMENT_OFF] = "off",
	[MANAGEMENT_NONE] = "none",
	[MANAGEMENT_ELSEWHERE] = "elsewhere",
	[MANAGEMENT_RUNNING] = "running",
	[MANAGEMENT_MISSING] = "missing",
};

static const char *const management_words[] = {
	[MANAGEMENT_UNKNOWN] = "no driver is loaded",
	[MANAGEMENT_OFF] = "NVLink is switched off (NvLinkDisable=1): nothing to manage",
	[MANAGEMENT_NONE] = "no NVSwitch on this node: nothing to manage",
	[MANAGEMENT_ELSEWHERE] = "the rack's switch trays manage NVLink",
	[MANAGEMENT_RUNNING] = "a fabric manager runs",
	[MANAGEMENT_MISSING] = "NO FABRIC MANAGER runs: CUDA will fail with error 802",
};

static const char *const kind_names[] = {
	[FABRIC_NONE] = "none",
	[FABRIC_NVSWITCH] = "nvswitch",
	[FABRIC_NVLINK5] = "nvlink5",
	[FABRIC_ELSEWHERE] = "elsewhere",
};

static void print_gpus_json(struct json *json, const struct facts *facts)
{
	json_open(json, "gpus", '[');
	for (int i = 0; i < facts->gpu_count; i++) {
		const struct nvml_gpu *gpu = &facts->gpus[i];

		json_open(json, NULL, '{');
		json_text_or_null(json, "uuid", gpu->uuid);
		json_text_or_null(
			json, "state", *gpu->error ? "" : nvml_fabric_state_name(gpu->state));
		json_number(json, "status", gpu->status);
		json_number(json, "clique", gpu->clique);
		json_text_or_null(json, "cluster", gpu->cluster);
		json_text_or_null(json, "error", gpu->error);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_text_or_null(json, "gpus_unknown", facts->gpu_count < 0 ? facts->unasked : "");
}

static void print_json(struct json *json, const struct facts *facts)
{
	json_open(json, "fabric", '{');
	json_text(json, "kind", kind_names[facts->fabric.kind]);
	json_text(json, "management", management_names[management_of(facts)]);
	json_number(json, "switches", facts->fabric.switches);
	json_number(json, "switches_driven", (long long) facts->driven);
	if (facts->nvlink_disabled < 0)
		json_null(json, "nvlink_disabled");
	else
		json_bool(json, "nvlink_disabled", facts->nvlink_disabled > 0);
	json_number_or_null(json, "management_minor", facts->management_minor);
	json_number_or_null(
		json, "fabric_manager_pid", facts->manager.pid ? facts->manager.pid : -1);
	json_bool(json, "fabric_manager_socket", facts->socket);
	json_number_or_null(json, "subnet_manager_pid",
		facts->subnet_manager.pid ? facts->subnet_manager.pid : -1);
	print_gpus_json(json, facts);
	json_close(json, '}');
}

static void print_gpu(const struct nvml_gpu *gpu)
{
	(void) printf(STATUS_INDENT "%s: ", *gpu->uuid ? gpu->uuid : "a GPU");
	if (*gpu->error)
		(void) printf("fabric state not known: %s\n", gpu->error);
	else if (gpu->state != NVML_FABRIC_COMPLETED)
		(void) printf("fabric state %s\n", nvml_fabric_state_name(gpu->state));
	else
		(void) printf("fabric state %s, status %d%s, clique %u, cluster %s\n",
			nvml_fabric_state_name(gpu->state), gpu->status,
			gpu->status ? " (FAILED)" : "", gpu->clique, gpu->cluster);
}

static void print_gpus(const struct facts *facts)
{
	if (facts->gpu_count < 0)
		(void) printf(
			STATUS_INDENT "fabric state of the GPUs not known: %s\n", facts->unasked);
	for (int i = 0; i < facts->gpu_count; i++)
		print_gpu(&facts->gpus[i]);
}

static void print(const struct facts *facts)
{
	(void) printf("fabric   %s", management_words[management_of(facts)]);
	if (facts->fabric.kind == FABRIC_NVSWITCH)
		(void) printf("; %u NVSwitches, %zu of them driven", facts->fabric.switches,
			facts->driven);
	else if (facts->fabric.kind == FABRIC_NVLINK5)
		(void) printf("; NVLink 5 through the bridge %s", facts->fabric.bridge);
	if (facts->manager.pid)
		(void) printf("; nv-fabricmanager is process %d, its socket is %s",
			(int) facts->manager.pid, facts->socket ? "there" : "not there yet");
	if (facts->subnet_manager.pid)
		(void) printf("; nvlsm is process %d", (int) facts->subnet_manager.pid);
	(void) putchar('\n');
	if (facts->driver_loaded)
		print_gpus(facts);
}

void status_fabric(int root_fd, struct json *json)
{
	struct facts facts = { .driver_loaded = false };

	look(root_fd, &facts);
	if (json)
		print_json(json, &facts);
	else
		print(&facts);
}

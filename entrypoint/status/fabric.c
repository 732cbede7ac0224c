/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status_internal.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/procfs.h"

/* ---- NVLink */

/*
 * NVLink's fabric: the switches, what the driver made of them, whether NVLink is switched off,
 * whether a fabric manager runs, and what the GPUs say of it (nvml.c). Where the switches
 * are in trays of their own (NVL72) or on the other side of a hypervisor, only the GPUs know.
 * Sources: open-gpu-kernel-modules
 * kernel-open/nvidia/{linux_nvswitch.c,nvlink_linux.c}.
 */

#define SWITCH_DEVICES        "proc/driver/nvidia-nvswitch/devices"
#define MANAGEMENT_CAPABILITY "proc/driver/nvidia-nvlink/capabilities/fabric-mgmt"
#define MANAGER_SOCKET        "run/nvidia-fabricmanager/socket"

enum management {
	MANAGEMENT_UNKNOWN,   /* no driver is loaded */
	MANAGEMENT_OFF,       /* NVLink is switched off */
	MANAGEMENT_NONE,      /* no switch to manage on this node */
	MANAGEMENT_ELSEWHERE, /* the rack's own */
	MANAGEMENT_RUNNING,   /* a fabric manager */
	MANAGEMENT_MISSING,   /* switches, and no fabric manager */
};

struct facts {
	struct fabric fabric; /* by PCI alone */
	bool driver_loaded;
	size_t driven;         /* NVSwitches that the driver has */
	long nvlink_disabled;  /* NvLinkDisable: 1, 0, or -1: not known */
	long management_minor; /* of the capability that a fabric manager opens; -1: none */
	struct process_seen manager, subnet_manager; /* pid 0: does not run */
	bool socket;                                 /* the fabric manager's */
	int gpu_count;                               /* -1: not known, and why */
	char why_unknown[256];
	struct nvml_gpu gpus[NVML_GPUS];
};

static void json_write_pid(struct json *json, const char *key, const struct process_seen *process)
{
	json_write_number_or_null(json, key, process->pid ? process->pid : -1);
}

static void look_at_fabric(int root_fd, struct facts *facts)
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
	facts->gpu_count = nvml_fabric(root_fd, facts->gpus, facts->why_unknown);
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

static const struct {
	const char *name, *text;
} managements[] = {
	[MANAGEMENT_UNKNOWN] = { "unknown", "no driver is loaded" },
	[MANAGEMENT_OFF] = { "off", "NVLink is switched off (NvLinkDisable=1): nothing to manage" },
	[MANAGEMENT_NONE] = { "none", "no NVSwitch on this node: nothing to manage" },
	[MANAGEMENT_ELSEWHERE] = { "elsewhere", "the rack's switch trays manage NVLink" },
	[MANAGEMENT_RUNNING] = { "running", "a fabric manager runs" },
	[MANAGEMENT_MISSING] = { "missing",
		"NO FABRIC MANAGER runs: CUDA will fail with error 802" },
};

static const char *const kind_names[] = {
	[FABRIC_NONE] = "none",
	[FABRIC_NVSWITCH] = "nvswitch",
	[FABRIC_NVLINK5] = "nvlink5",
	[FABRIC_ELSEWHERE] = "elsewhere",
};

static void print_gpu(struct json *json, const struct nvml_gpu *gpu)
{
	const char *state = nvml_fabric_state_name(gpu->state);

	json_write_open(json, NULL, '{');
	json_write_text_or_null(json, "uuid", gpu->uuid);
	json_write_text_or_null(json, "state", *gpu->error ? "" : state);
	json_write_number(json, "status", gpu->status);
	json_write_number(json, "clique", gpu->clique);
	json_write_text_or_null(json, "cluster", gpu->cluster);
	json_write_text_or_null(json, "error", gpu->error);
	json_write_close(json, '}');

	status_print(json, STATUS_INDENT "%s: ", *gpu->uuid ? gpu->uuid : "a GPU");
	if (*gpu->error)
		status_print(json, "fabric state not known: %s\n", gpu->error);
	else if (gpu->state != NVML_FABRIC_COMPLETED)
		status_print(json, "fabric state %s\n", state);
	else
		status_print(json, "fabric state %s, status %d%s, clique %u, cluster %s\n", state,
			gpu->status, gpu->status ? " (FAILED)" : "", gpu->clique, gpu->cluster);
}

static void print_fabric(const struct facts *facts)
{
	(void) printf("fabric   %s", managements[management_of(facts)].text);
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
	if (!facts->driver_loaded)
		return;
	if (facts->gpu_count < 0)
		(void) printf(STATUS_INDENT "fabric state of the GPUs not known: %s\n",
			facts->why_unknown);
	for (int i = 0; i < facts->gpu_count; i++)
		print_gpu(NULL, &facts->gpus[i]);
}

static void print_fabric_json(struct json *json, const struct facts *facts)
{
	json_write_open(json, "fabric", '{');
	json_write_text(json, "kind", kind_names[facts->fabric.kind]);
	json_write_text(json, "management", managements[management_of(facts)].name);
	json_write_number(json, "switches", facts->fabric.switches);
	json_write_number(json, "switches_driven", (long long) facts->driven);
	if (facts->nvlink_disabled < 0)
		json_write_null(json, "nvlink_disabled");
	else
		json_write_boolean(json, "nvlink_disabled", facts->nvlink_disabled > 0);
	json_write_number_or_null(json, "management_minor", facts->management_minor);
	json_write_pid(json, "fabric_manager_pid", &facts->manager);
	json_write_boolean(json, "fabric_manager_socket", facts->socket);
	json_write_pid(json, "subnet_manager_pid", &facts->subnet_manager);
	json_write_open(json, "gpus", '[');
	for (int i = 0; i < facts->gpu_count; i++)
		print_gpu(json, &facts->gpus[i]);
	json_write_close(json, ']');
	json_write_text_or_null(
		json, "gpus_unknown", facts->gpu_count < 0 ? facts->why_unknown : "");
	json_write_close(json, '}');
}

void status_fabric(int root_fd, struct json *json)
{
	struct facts facts = { .driver_loaded = false };

	look_at_fabric(root_fd, &facts);
	if (json)
		print_fabric_json(json, &facts);
	else
		print_fabric(&facts);
}

/* ---- IMEX */

/*
 * What the DRA driver for GPUs asks of a node before it makes a ComputeDomain: the IMEX channels'
 * device major, as many channels as it counts on, and no other nvidia-imex beside the one that it
 * runs itself. Sources: k8s-dra-driver-gpu cmd/compute-domain-kubelet-plugin/nvlib.go,
 * cmd/compute-domain-daemon; open-gpu-kernel-modules nv-caps-imex.c.
 */

#define IMEX_PROGRAM  "nvidia-imex"
#define CHANNEL_NODES "dev/nvidia-caps-imex-channels"
#define MANAGEMENT    PROCFS_NVIDIA "/capabilities/fabric-imex-mgmt"

/* As the DRA driver has it, whatever the module's parameter is. */
#define CHANNELS_EXPECTED 2048

static const unsigned imex_ports[] = { 50000, 50005 }; /* of the daemons, and of its commands */

struct imex {
	bool driver_loaded;
	int channels_major, caps_major; /* -1: not in /proc/devices */
	long channel_count;             /* NVreg_ImexChannelCount, -1: not known */
	long create_channel0;           /* NVreg_CreateImexChannel0, likewise */
	long management_minor;          /* /dev/nvidia-caps/nvidia-cap<minor>, likewise */
	size_t channel_nodes;           /* in /dev here */
	struct process_seen daemons[PROCESSES_MAX];
	size_t daemon_count;
	struct {
		int listening; /* 1, 0, or -1: cannot be seen */
		struct process_seen owner;
	} ports[ARRAY_SIZE(imex_ports)];
};

static void look_at_imex(int root_fd, struct imex *imex)
{
	_cleanup_strv_ struct strv nodes = { 0 };
	struct driver_version version;

	driver_version(root_fd, &version);
	imex->driver_loaded = version.loaded;
	imex->channels_major = procfs_major(root_fd, "nvidia-caps-imex-channels");
	imex->caps_major = procfs_major(root_fd, "nvidia-caps");
	imex->channel_count = procfs_nvidia_parameter(root_fd, "ImexChannelCount");
	imex->create_channel0 = procfs_nvidia_parameter(root_fd, "CreateImexChannel0");
	imex->management_minor = procfs_capability_minor(root_fd, MANAGEMENT);
	if (fs_list(root_fd, CHANNEL_NODES, &nodes) == 0)
		imex->channel_nodes = nodes.count;
	imex->daemon_count = processes_of_program(
		root_fd, IMEX_PROGRAM, imex->daemons, ARRAY_SIZE(imex->daemons));
	for (size_t i = 0; i < ARRAY_SIZE(imex_ports); i++)
		imex->ports[i].listening =
			port_is_listening(root_fd, imex_ports[i], &imex->ports[i].owner);
}

/* Lists what stands in the way. Without memory the rest is lost. */
static int find_obstacles(const struct imex *imex, struct strv *findings)
{
	int r = 0;

	if (imex->driver_loaded && imex->channels_major < 0)
		r = strv_push(findings,
			imex->channel_count == 0
				? "NVreg_ImexChannelCount=0 leaves no IMEX channel: take the "
				  "parameter away"
				: "/proc/devices has no nvidia-caps-imex-channels: this driver is "
				  "too old for IMEX channels");
	else if (imex->driver_loaded && imex->channel_count >= 0 &&
		 imex->channel_count != CHANNELS_EXPECTED)
		r = strv_pushf(findings, "NVreg_ImexChannelCount=%ld: the DRA driver counts on %d",
			imex->channel_count, CHANNELS_EXPECTED);
	if (r == 0 && imex->driver_loaded && imex->create_channel0 > 0)
		r = strv_push(findings,
			"NVreg_CreateImexChannel0=1 gives channel 0 to everyone on the node: the "
			"DRA driver makes the nodes itself");
	for (size_t i = 0; r == 0 && i < imex->daemon_count; i++)
		if (!imex->daemons[i].in_pod) /* the one that a ComputeDomain runs is in a pod */
			r = strv_pushf(findings,
				"process %d is an " IMEX_PROGRAM
				" of the host: it keeps ComputeDomains from theirs; stop and "
				"disable that service",
				(int) imex->daemons[i].pid);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(imex_ports); i++) {
		const struct process_seen *owner = &imex->ports[i].owner;
		char who[64] = "";

		if (imex->ports[i].listening != 1 || strcmp(owner->command, IMEX_PROGRAM) == 0)
			continue;
		if (owner->pid)
			(void) snprintf(who, sizeof(who), " by process %d (%s)", (int) owner->pid,
				owner->command);
		r = strv_pushf(findings, "TCP port %u, which " IMEX_PROGRAM " needs, is taken%s",
			imex_ports[i], who);
	}
	return r;
}

static void print_imex_json(struct json *json, const struct imex *imex, const struct strv *findings)
{
	json_write_open(json, "imex", '{');
	json_write_number_or_null(json, "channels_major", imex->channels_major);
	json_write_number_or_null(json, "caps_major", imex->caps_major);
	json_write_number_or_null(json, "channel_count", imex->channel_count);
	json_write_number_or_null(json, "create_channel0", imex->create_channel0);
	json_write_number(json, "channel_nodes", (long long) imex->channel_nodes);
	json_write_number_or_null(json, "management_minor", imex->management_minor);
	json_write_open(json, "daemons", '[');
	for (size_t i = 0; i < imex->daemon_count; i++) {
		json_write_open(json, NULL, '{');
		json_write_number(json, "pid", imex->daemons[i].pid);
		json_write_boolean(json, "in_pod", imex->daemons[i].in_pod);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
	json_write_open(json, "ports", '[');
	for (size_t i = 0; i < ARRAY_SIZE(imex_ports); i++) {
		json_write_open(json, NULL, '{');
		json_write_number(json, "port", imex_ports[i]);
		if (imex->ports[i].listening < 0)
			json_write_null(json, "listening");
		else
			json_write_boolean(json, "listening", imex->ports[i].listening);
		json_write_pid(json, "pid", &imex->ports[i].owner);
		json_write_text_or_null(json, "command", imex->ports[i].owner.command);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
	json_write_list(json, "findings", findings);
	json_write_close(json, '}');
}

static void print_imex(const struct imex *imex, const struct strv *findings)
{
	if (!imex->driver_loaded)
		(void) printf("imex     no driver is loaded");
	else if (imex->channels_major < 0)
		(void) printf("imex     no channels");
	else
		(void) printf("imex     %ld channels (device major %d), %zu with a node here",
			imex->channel_count, imex->channels_major, imex->channel_nodes);
	(void) printf("; %zu " IMEX_PROGRAM " %s\n", imex->daemon_count,
		imex->daemon_count == 1 ? "runs" : "run");
	for (size_t i = 0; i < imex->daemon_count; i++) {
		char text[POD_TEXT_SIZE] = "the host's";

		if (imex->daemons[i].in_pod)
			pod_text(&imex->daemons[i].pod, text);
		(void) printf(STATUS_INDENT IMEX_PROGRAM ": process %d, %s\n",
			(int) imex->daemons[i].pid, text);
	}
	for (size_t i = 0; i < findings->count; i++)
		(void) printf(STATUS_INDENT "! %s\n", findings->items[i]);
}

void status_imex(int root_fd, struct json *json)
{
	_cleanup_strv_ struct strv findings = { 0 };
	struct imex imex = { .driver_loaded = false };

	look_at_imex(root_fd, &imex);
	(void) find_obstacles(&imex, &findings);
	if (json)
		print_imex_json(json, &imex, &findings);
	else
		print_imex(&imex, &findings);
}

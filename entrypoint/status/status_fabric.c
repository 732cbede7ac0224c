/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status_internal.h"

#include <string.h>

#include "common/fs.h"
#include "common/nvidia_version.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/fabric.h"
#include "entrypoint/gpu/procfs.h"
#include "module/running.h"

/* For a @process with pid 0 null. */
static void write_pid(struct json *json, const char *key, const struct process_seen *process)
{
	json_write_number_or_null(json, key, process->pid ? process->pid : -1);
}

static size_t count_names(int root_fd, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };

	return fs_list(root_fd, folder, &names) == 0 ? names.count : 0;
}

/* ---- NVLink */

/*
 * NVLink's fabric: the switches, what the driver made of them, whether NVLink is switched off,
 * whether a fabric manager runs, and what the GPUs report of it (nvml.c). Where the switches
 * are in trays of their own (NVL72) or on the other side of a hypervisor, only the GPUs know.
 * Sources: open-gpu-kernel-modules
 * kernel-open/nvidia/{linux_nvswitch.c,nvlink_linux.c}.
 */

#define SWITCH_DEVICES        "proc/driver/nvidia-nvswitch/devices"
#define MANAGEMENT_CAPABILITY "proc/driver/nvidia-nvlink/capabilities/fabric-mgmt"
#define MANAGER_SOCKET        "run/nvidia-fabricmanager/socket"

static const char *const kind_names[] = {
	[FABRIC_NONE] = "none",
	[FABRIC_NVSWITCH] = "nvswitch",
	[FABRIC_NVLINK5] = "nvlink5",
	[FABRIC_ELSEWHERE] = "elsewhere",
};

/* In JSON, and for people. */
struct management {
	const char *name, *text;
	const char *fault; /* what is wrong with it, or NULL */
};

static struct management management_of(
	bool loaded, long nvlink_disabled, bool manager_runs, enum fabric_kind kind)
{
	if (!loaded)
		return (struct management){ "unknown", "no driver is loaded", NULL };
	if (nvlink_disabled > 0)
		return (struct management){ "off",
			"NVLink is switched off (NvLinkDisable=1): nothing to manage", NULL };
	if (manager_runs)
		return (struct management){ "running", "a fabric manager runs", NULL };
	if (kind == FABRIC_ELSEWHERE)
		return (struct management){ "elsewhere", "the rack's switch trays manage NVLink",
			NULL };
	if (kind == FABRIC_NONE)
		return (struct management){ "none", "no NVSwitch on this node: nothing to manage",
			NULL };
	return (struct management){ "missing", "no fabric manager runs",
		"these GPUs need a fabric manager: CUDA will fail with error 802" };
}

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

void status_fabric(int root_fd, struct json *json, struct findings *findings)
{
	bool loaded = sysmodule_is_live(root_fd, "nvidia");
	bool socket = fs_exists(root_fd, MANAGER_SOCKET);
	long nvlink_disabled = procfs_nvidia_parameter(root_fd, "NvLinkDisable");
	size_t driven = count_names(root_fd, SWITCH_DEVICES);
	struct process_seen manager = { .pid = 0 }, subnet_manager = { .pid = 0 };
	struct management management;
	struct fabric fabric;
	struct nvml_answer nvml;

	fabric_find(root_fd, false, &fabric);
	(void) processes_of_program(root_fd, "nv-fabricmanager", &manager, 1);
	(void) processes_of_program(root_fd, "nvlsm", &subnet_manager, 1);
	management = management_of(loaded, nvlink_disabled, manager.pid, fabric.kind);
	json_write_open(json, "fabric", '{');
	json_write_text(json, "kind", kind_names[fabric.kind]);
	json_write_text(json, "management", management.name);
	json_write_number(json, "switches", fabric.switches);
	json_write_number(json, "switches_driven", (long long) driven);
	json_write_answer(json, "nvlink_disabled", nvlink_disabled > 0 ? 1 : (int) nvlink_disabled);
	json_write_number_or_null(
		json, "management_minor", procfs_capability_minor(root_fd, MANAGEMENT_CAPABILITY));
	write_pid(json, "fabric_manager_pid", &manager);
	json_write_boolean(json, "fabric_manager_socket", socket);
	write_pid(json, "subnet_manager_pid", &subnet_manager);

	status_print(json, "fabric   %s", management.text);
	if (fabric.kind == FABRIC_NVSWITCH)
		status_print(json, "; %u NVSwitches, %zu of them driven", fabric.switches, driven);
	else if (fabric.kind == FABRIC_NVLINK5)
		status_print(json, "; NVLink 5 through the bridge %s", fabric.bridge);
	if (manager.pid)
		status_print(json, "; nv-fabricmanager is process %d, its socket is %s",
			(int) manager.pid, socket ? "there" : "not there yet");
	if (subnet_manager.pid)
		status_print(json, "; nvlsm is process %d", (int) subnet_manager.pid);
	status_print(json, "\n");

	if (management.fault)
		status_finding(findings, json, "%s", management.fault);

	nvml_fabric(root_fd, &nvml);
	json_write_open(json, "gpus", '[');
	for (int i = 0; i < nvml.count; i++)
		print_gpu(json, &nvml.gpus[i]);
	json_write_close(json, ']');
	json_write_text_or_null(json, "gpus_unknown", nvml.count < 0 ? nvml.why : "");
	json_write_close(json, '}');
	if (loaded && nvml.count < 0)
		status_print(
			json, STATUS_INDENT "fabric state of the GPUs not known: %s\n", nvml.why);
}

/* ---- IMEX */

/*
 * The DRA driver for GPUs requires of a node before it makes a ComputeDomain: a driver that is new
 * enough, the device major of the IMEX channels, as many channels as it counts on, nvidia-imex and
 * nvidia-imex-ctl in the driver root, and no other nvidia-imex beside the one that it runs itself.
 * Sources: kubernetes-sigs/dra-driver-nvidia-gpu 95932046 (v0.5.0-dev)
 * cmd/compute-domain-kubelet-plugin/{nvlib,device_state,root}.go, internal/common/nvcaps.go,
 * cmd/compute-domain-daemon/main.go; nvidia-container-toolkit pkg/nvcdi/driver-nvml.go, which gives
 * the programs to its daemon's container; open-gpu-kernel-modules nv-caps-imex.c.
 */

#define IMEX_PROGRAM  "nvidia-imex"
#define CHANNEL_NODES "dev/nvidia-caps-imex-channels"
#define MANAGEMENT    PROCFS_NVIDIA "/capabilities/fabric-imex-mgmt"

/* As the DRA driver has it, whatever the module's parameter is. */
#define CHANNELS_EXPECTED 2048

static const unsigned imex_ports[] = { 50000, 50005 }; /* of the daemons, and of its commands */

/* Finds obstacles in the loaded driver. Without memory a finding is lost, here and below. */
static void find_wrong_channels(int root_fd, int channels_major, struct strv *findings)
{
	long count = procfs_nvidia_parameter(root_fd, "ImexChannelCount");

	if (channels_major < 0 && count == 0)
		(void) !strv_push(findings,
			"NVreg_ImexChannelCount=0 leaves no IMEX channel: remove the parameter");
	else if (channels_major < 0)
		(void) !strv_push(findings,
			"/proc/devices has no nvidia-caps-imex-channels: this driver is too old "
			"for IMEX channels");
	else if (count >= 0 && count != CHANNELS_EXPECTED)
		(void) !strv_pushf(findings,
			"NVreg_ImexChannelCount=%ld: the DRA driver expects %d", count,
			CHANNELS_EXPECTED);
	if (procfs_nvidia_parameter(root_fd, "CreateImexChannel0") > 0)
		(void) !strv_push(findings,
			"NVreg_CreateImexChannel0=1 gives channel 0 to everyone on the node: the "
			"DRA driver makes the nodes itself");
}

/* A driver root that is not visible, as in the NIC's pod, or has no userspace, lacks nothing. */
static void find_wrong_driver(int root_fd, struct strv *findings)
{
	static const char *const programs[] = { IMEX_PROGRAM, IMEX_PROGRAM "-ctl" };
	struct driver_version driver;
	struct fabric fabric;
	char path[96];

	/* Other nodes have no NVLink to each other: they are in no ComputeDomain. */
	fabric_find(root_fd, false, &fabric);
	if (fabric.kind != FABRIC_ELSEWHERE)
		return;
	driver_version(root_fd, &driver);
	if (*driver.text && nvidia_version_compare(driver.text, NVIDIA_COMPUTE_DOMAINS_MINIMUM) < 0)
		(void) !strv_pushf(findings,
			"driver %s is too old for ComputeDomains, which need "
			"" NVIDIA_COMPUTE_DOMAINS_MINIMUM " or newer",
			driver.text);
	for (size_t i = 0; i < ARRAY_SIZE(programs) && driver_program(root_fd, "nvidia-smi", path);
		i++)
		if (!driver_program(root_fd, programs[i], path))
			(void) !strv_pushf(findings,
				"/" CONTRACT_DRIVER_ROOT " has no %s, which ComputeDomains start: "
				"slipway build --imex adds it to the image",
				programs[i]);
}

static void print_imex_daemon(
	struct json *json, const struct process_seen *process, struct strv *findings)
{
	char owner[POD_TEXT_SIZE];

	json_write_open(json, NULL, '{');
	json_write_number(json, "pid", process->pid);
	json_write_boolean(json, "in_pod", process->in_pod);
	json_write_close(json, '}');
	status_owner(process, owner);
	status_print(
		json, STATUS_INDENT IMEX_PROGRAM ": process %d, %s\n", (int) process->pid, owner);
	if (!process->in_pod) /* the one that a ComputeDomain runs is in a pod */
		(void) !strv_pushf(findings,
			"process %d is the host's " IMEX_PROGRAM
			", which keeps ComputeDomains from running their own: stop and disable that service",
			(int) process->pid);
}

static void print_imex_port(int root_fd, struct json *json, unsigned port, struct strv *findings)
{
	struct process_seen owner;
	int listening = port_is_listening(root_fd, port, &owner);
	char who[64] = "";

	json_write_open(json, NULL, '{');
	json_write_number(json, "port", port);
	json_write_answer(json, "listening", listening);
	write_pid(json, "pid", &owner);
	json_write_text_or_null(json, "command", owner.command);
	json_write_close(json, '}');
	if (listening != 1 || strcmp(owner.command, IMEX_PROGRAM) == 0)
		return;
	if (owner.pid)
		(void) snprintf(
			who, sizeof(who), " by process %d (%s)", (int) owner.pid, owner.command);
	(void) !strv_pushf(
		findings, "TCP port %u, which " IMEX_PROGRAM " needs, is taken%s", port, who);
}

void status_imex(int root_fd, struct json *json, struct findings *all)
{
	_cleanup_strv_ struct strv findings = { 0 };
	bool loaded = sysmodule_is_live(root_fd, "nvidia");
	int channels_major = procfs_major(root_fd, "nvidia-caps-imex-channels");
	long channels = procfs_nvidia_parameter(root_fd, "ImexChannelCount");
	size_t nodes = count_names(root_fd, CHANNEL_NODES);
	struct process_seen daemons[PROCESSES_MAX];
	size_t count = processes_of_program(root_fd, IMEX_PROGRAM, daemons, PROCESSES_MAX);

	if (loaded) {
		find_wrong_channels(root_fd, channels_major, &findings);
		find_wrong_driver(root_fd, &findings);
	}
	json_write_open(json, "imex", '{');
	json_write_number_or_null(json, "channels_major", channels_major);
	json_write_number_or_null(json, "caps_major", procfs_major(root_fd, "nvidia-caps"));
	json_write_number_or_null(json, "channel_count", channels);
	json_write_number_or_null(
		json, "create_channel0", procfs_nvidia_parameter(root_fd, "CreateImexChannel0"));
	json_write_number(json, "channel_nodes", (long long) nodes);
	json_write_number_or_null(
		json, "management_minor", procfs_capability_minor(root_fd, MANAGEMENT));

	if (!loaded)
		status_print(json, "imex     no driver is loaded");
	else if (channels_major < 0)
		status_print(json, "imex     no channels");
	else
		status_print(json, "imex     %ld channels (device major %d), %zu with a node here",
			channels, channels_major, nodes);
	if (count)
		status_print(
			json, "; %zu " IMEX_PROGRAM " %s\n", count, count == 1 ? "runs" : "run");
	else
		status_print(json, "; no " IMEX_PROGRAM " runs\n");

	json_write_open(json, "daemons", '[');
	for (size_t i = 0; i < count; i++)
		print_imex_daemon(json, &daemons[i], &findings);
	json_write_close(json, ']');
	json_write_open(json, "ports", '[');
	for (size_t i = 0; i < ARRAY_SIZE(imex_ports); i++)
		print_imex_port(root_fd, json, imex_ports[i], &findings);
	json_write_close(json, ']');
	json_write_list(json, "findings", &findings);
	json_write_close(json, '}');
	for (size_t i = 0; i < findings.count; i++)
		status_finding(all, json, "%s", findings.items[i]);
}

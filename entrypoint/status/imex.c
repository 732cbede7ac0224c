/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the DRA driver for GPUs asks of a node before it makes a ComputeDomain: the IMEX channels'
 * device major, as many channels as it counts on, and no other nvidia-imex beside the one that it
 * runs itself. Sources: k8s-dra-driver-gpu cmd/compute-domain-kubelet-plugin/nvlib.go,
 * cmd/compute-domain-daemon; open-gpu-kernel-modules nv-caps-imex.c.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/status/driver_version.h"
#include "entrypoint/status/part.h"
#include "entrypoint/status/processes.h"
#include "entrypoint/gpu/procfs.h"

#define IMEX_PROGRAM  "nvidia-imex"
#define CHANNEL_NODES "dev/nvidia-caps-imex-channels"
#define MANAGEMENT    PROCFS_NVIDIA "/capabilities/fabric-imex-mgmt"

/* As the DRA driver has it, whatever the driver was told. */
#define CHANNELS_EXPECTED 2048

static const unsigned imex_ports[] = { 50000, 50005 }; /* of the daemons, and of its commands */

struct imex {
	bool driver_loaded;
	int channels_major, caps_major; /* -1: not in /proc/devices */
	long channel_count;             /* NVreg_ImexChannelCount, -1: not told */
	long create_channel0;           /* NVreg_CreateImexChannel0, likewise */
	long management_minor;          /* /dev/nvidia-caps/nvidia-cap<minor>, likewise */
	size_t channel_nodes;           /* in /dev here */
	struct process_seen daemons[PROCESSES_MAX];
	size_t daemon_count;
	struct {
		int listening; /* 1, 0, or -1: cannot be seen */
		struct process_seen owner;
	} ports[ARRAY_SIZE(imex_ports)];
	struct strv findings; /* what stands in the way */
};

static void look(int root_fd, struct imex *imex)
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

static int judge_channels(struct imex *imex)
{
	int r = 0;

	if (imex->channels_major < 0)
		r = strv_push(&imex->findings,
			imex->channel_count == 0
				? "NVreg_ImexChannelCount=0 leaves no IMEX channel: take the "
				  "parameter away"
				: "/proc/devices has no nvidia-caps-imex-channels: this driver is "
				  "too old for IMEX channels");
	else if (imex->channel_count >= 0 && imex->channel_count != CHANNELS_EXPECTED)
		r = strv_pushf(&imex->findings,
			"NVreg_ImexChannelCount=%ld: the DRA driver counts on %d",
			imex->channel_count, CHANNELS_EXPECTED);
	if (r == 0 && imex->create_channel0 > 0)
		r = strv_push(&imex->findings,
			"NVreg_CreateImexChannel0=1 gives channel 0 to everyone on the node: the "
			"DRA driver makes the nodes itself");
	return r;
}

/* The one that a ComputeDomain runs is in a pod. */
static int judge_daemons(struct imex *imex)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < imex->daemon_count; i++)
		if (!imex->daemons[i].in_pod)
			r = strv_pushf(&imex->findings,
				"process %d is an " IMEX_PROGRAM
				" of the host: it keeps ComputeDomains from theirs; stop and "
				"disable that service",
				(int) imex->daemons[i].pid);
	return r;
}

static int judge_ports(struct imex *imex)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(imex_ports); i++) {
		const struct process_seen *owner = &imex->ports[i].owner;

		if (imex->ports[i].listening != 1 || strcmp(owner->command, IMEX_PROGRAM) == 0)
			continue;
		if (owner->pid)
			r = strv_pushf(&imex->findings,
				"TCP port %u, which " IMEX_PROGRAM " needs, is taken by process "
				"%d (%s)",
				imex_ports[i], (int) owner->pid, owner->command);
		else
			r = strv_pushf(&imex->findings,
				"TCP port %u, which " IMEX_PROGRAM " needs, is taken",
				imex_ports[i]);
	}
	return r;
}

/* Without memory a finding is lost, and so will be what comes after. */
static void judge(struct imex *imex)
{
	int r = imex->driver_loaded ? judge_channels(imex) : 0;

	if (r == 0)
		r = judge_daemons(imex);
	if (r == 0)
		(void) judge_ports(imex);
}

static void print_ports_json(struct json *json, const struct imex *imex)
{
	json_open(json, "ports", '[');
	for (size_t i = 0; i < ARRAY_SIZE(imex_ports); i++) {
		json_open(json, NULL, '{');
		json_number(json, "port", imex_ports[i]);
		if (imex->ports[i].listening < 0)
			json_null(json, "listening");
		else
			json_bool(json, "listening", imex->ports[i].listening);
		json_number_or_null(
			json, "pid", imex->ports[i].owner.pid ? imex->ports[i].owner.pid : -1);
		json_text_or_null(json, "command", imex->ports[i].owner.command);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void print_json(struct json *json, const struct imex *imex)
{
	json_open(json, "imex", '{');
	json_number_or_null(json, "channels_major", imex->channels_major);
	json_number_or_null(json, "caps_major", imex->caps_major);
	json_number_or_null(json, "channel_count", imex->channel_count);
	json_number_or_null(json, "create_channel0", imex->create_channel0);
	json_number(json, "channel_nodes", (long long) imex->channel_nodes);
	json_number_or_null(json, "management_minor", imex->management_minor);
	json_open(json, "daemons", '[');
	for (size_t i = 0; i < imex->daemon_count; i++) {
		json_open(json, NULL, '{');
		json_number(json, "pid", imex->daemons[i].pid);
		json_bool(json, "in_pod", imex->daemons[i].in_pod);
		json_close(json, '}');
	}
	json_close(json, ']');
	print_ports_json(json, imex);
	json_open(json, "findings", '[');
	for (size_t i = 0; i < imex->findings.count; i++)
		json_text(json, NULL, imex->findings.items[i]);
	json_close(json, ']');
	json_close(json, '}');
}

static void print_daemon(const struct process_seen *daemon)
{
	char text[POD_TEXT_SIZE] = "the host's";

	if (daemon->in_pod)
		pod_text(&daemon->pod, text);
	(void) printf(STATUS_INDENT IMEX_PROGRAM ": process %d, %s\n", (int) daemon->pid, text);
}

static void print(const struct imex *imex)
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
	for (size_t i = 0; i < imex->daemon_count; i++)
		print_daemon(&imex->daemons[i]);
	for (size_t i = 0; i < imex->findings.count; i++)
		(void) printf(STATUS_INDENT "! %s\n", imex->findings.items[i]);
}

void status_imex(int root_fd, struct json *json)
{
	struct imex imex = { .driver_loaded = false };

	look(root_fd, &imex);
	judge(&imex);
	if (json)
		print_json(json, &imex);
	else
		print(&imex);
	strv_free(&imex.findings);
}

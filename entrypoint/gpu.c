/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU driver container. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/ofed_wait.h"
#include "entrypoint/prove.h"
#include "entrypoint/role.h"
#include "entrypoint/roles.h"
#include "entrypoint/rootfs.h"

#define PCI_DEVICES "sys/bus/pci/devices"

/* A module that is loading nvidia.ko's GSP or probing several GPUs is given this long. */
#define LOAD_DEADLINE_MS (300 * 1000)

/* One try at unloading; a pod that has less grace time is killed before. */
#define UNLOAD_DEADLINE_MS (120 * 1000)

static const char *const gpu_devices[] = { "/dev/nvidia", NULL };

/* In load order; libkmod puts what they depend on before each. */
static const char *const gpu_modules[] = { "nvidia", "nvidia_uvm", "nvidia_modeset",
	"nvidia_peermem" };

/* Flags of an earlier life would tell others that we are ready; its mount would hide our root. */
static int clear_stale(struct action *action)
{
	const struct role *role = action->role;
	int r;

	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	if (rootfs_detach(CONTRACT_DRIVER_ROOT, &action->error) < 0)
		return action_reason(action, REASON_MOUNT_FAILED, -EIO);
	r = fs_mkdir_parents(role->root_fd, CONTRACT_VALIDATIONS, 0755);
	if (r < 0)
		return action_fail(action, REASON_MOUNT_FAILED, r, "/%s: %s", CONTRACT_VALIDATIONS,
			strerror(-r));
	return action_write(action, CONTRACT_DAEMONS_STATUS, "NotReady");
}

static int clear_flags(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, CONTRACT_DRIVER_CTR_READY, 0);
	(void) unlinkat(role->root_fd, CONTRACT_DAEMONS_STATUS, 0);
	return 0;
}

static bool is_nvidia(int root_fd, const char *device)
{
	_cleanup_free_ char *vendor = NULL;
	char path[512];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/vendor", device);
	return fs_read_line(root_fd, path, &vendor) == 0 &&
	       strtoul(vendor, NULL, 16) == CONTRACT_PCI_NVIDIA;
}

static int find_device(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv devices = { 0 };
	int r = fs_list(role->root_fd, PCI_DEVICES, &devices);

	for (size_t i = 0; r == 0 && i < devices.count; i++)
		if (is_nvidia(role->root_fd, devices.items[i]))
			return 0;
	return action_fail(action, REASON_NO_NVIDIA_DEVICE, -ENODEV,
		"none of the node's %zu PCI devices has NVIDIA's vendor id 10de: is the GPU "
		"seated, "
		"powered and passed through (lspci -d 10de:), and should this node run a GPU "
		"driver?",
		devices.count);
}

static bool wants_rdma(const void *context)
{
	const struct role *role = context;

	return role->options.rdma;
}

/* Peermem is the last. */
static size_t module_count(const struct role *role)
{
	return ARRAY_SIZE(gpu_modules) - !role->options.rdma;
}

static int prove(struct action *action)
{
	size_t count = module_count(action->role);

	return prove_modules(action, gpu_modules, count, count);
}

static int load(struct action *action)
{
	size_t count = module_count(action->role);

	return role_load(action, gpu_modules, count, count);
}

/* The kernel looks for firmware in its own mount namespace: in the root that we export. */
static int set_firmware_path(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *before = NULL;
	_cleanup_close_ int fd = -1;

	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &before) == 0 && *before)
		return 0; /* an administrator's choice, or ours of an earlier life */
	fd = openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);
	if (fd < 0 ||
		write(fd, CONTRACT_FIRMWARE_PATH_VALUE, strlen(CONTRACT_FIRMWARE_PATH_VALUE)) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO,
			"/%s: %s: GPUs with GSP firmware cannot start without it",
			CONTRACT_FIRMWARE_PATH, strerror(errno));
	return 0;
}

static int clear_firmware_path(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *now = NULL;
	_cleanup_close_ int fd = -1;

	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &now) < 0 ||
		strcmp(now, CONTRACT_FIRMWARE_PATH_VALUE) != 0)
		return 0;
	fd = openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);
	/* A lone NUL is how an empty string is written: a write of no bytes does nothing. */
	if (fd < 0 || write(fd, "", 1) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO, "/%s: %s",
			CONTRACT_FIRMWARE_PATH, strerror(errno));
	return 0;
}

static int export_root(struct action *action)
{
	return action_reason(
		action, REASON_MOUNT_FAILED, rootfs_export(CONTRACT_DRIVER_ROOT, &action->error));
}

static int detach_root(struct action *action)
{
	return action_reason(
		action, REASON_MOUNT_FAILED, rootfs_detach(CONTRACT_DRIVER_ROOT, &action->error));
}

static int tell_ready(struct action *action)
{
	return action_write(action, CONTRACT_DAEMONS_STATUS, "Ready");
}

/*
 * The undo of the last step runs first: whoever looks stops relying on the driver before it goes.
 * Nothing is unloaded or loaded before "prove" holds.
 */
static const struct step gpu_steps[] = {
	{ .name = "clear-stale", .perform = clear_stale, .undo = clear_flags },
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "find-device", .perform = find_device },
	{ .name = "wait-ofed", .wanted = wants_rdma, .kind = STEP_WAIT, .perform = ofed_wait },
	{ .name = "prove", .kind = STEP_WORKER, .perform = prove, .deadline_ms = 60 * 1000 },
	{ .name = "make-room",
		.kind = STEP_WORKER,
		.perform = role_make_room,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = role_give_back,
		.undo_deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "firmware-path", .perform = set_firmware_path, .undo = clear_firmware_path },
	{ .name = "load",
		.kind = STEP_WORKER,
		.perform = load,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = role_unload,
		.undo_deadline_ms = UNLOAD_DEADLINE_MS },
	{ .name = "export-root", .perform = export_root, .undo = detach_root },
	{ .name = "tell-ready", .perform = tell_ready, .undo = clear_flags },
};

int gpu_main(int root_fd)
{
	struct role role = {
		.name = "gpu",
		.state_folder = GPU_STATE_FOLDER,
		.lock_path = CONTRACT_GPU_PID_FILE,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.makes_room = true,
		.devices = gpu_devices,
		.root_fd = root_fd,
	};

	return role_run(&role, gpu_steps, ARRAY_SIZE(gpu_steps));
}

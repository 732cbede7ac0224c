/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU role shows to other containers: the driver root, where every operand looks for programs,
 * libraries, sources and devices (contract.h), the device nodes in it, and the GSP firmware.
 *
 * Device nodes: the driver does not make them, and a container's /dev is filled when it starts:
 * without this they would be missing in a new root until someone runs nvidia-smi, and where the
 * host had some of an earlier driver, their numbers would be the old ones. Names, numbers and modes
 * are those of NVIDIA's nvidia-modprobe (modprobe-utils/nvidia-modprobe-utils.c).
 *
 * Firmware: the kernel looks for it in its own mount name space, the host's, first below the
 * parameter "path" of firmware_class, then in the host's /lib/firmware (Linux
 * drivers/base/firmware_loader/main.c). The parameter is set to the lib/firmware of the driver
 * root, as the operator's other images do. The driver root is exported after the modules are
 * loaded, and a module may want firmware while it loads (nvidia_drm with modeset=1). So the image's
 * firmware is shown there before, as a mount of that one folder, and the root then covers it.
 * Nothing is copied: that folder lies in the host's memory (/run), and two files of firmware are
 * 70 MB.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/gpu/procfs.h"
#include "entrypoint/role/mounts.h"
#include "module/running.h"

#define CAPABILITIES PROCFS_NVIDIA "/capabilities"

/*
 * The image's firmware. rootfs_show() finds it even below the operator's mount of its own folder.
 */
#define IMAGE_FIRMWARE "lib/firmware"

/* How the driver wants its nodes: NVreg_DeviceFile{Mode,UID,GID}. */
struct maker {
	int root_fd;
	mode_t mode;
	uid_t owner;
	gid_t group;
};

static long parameter(int root_fd, const char *name, long otherwise)
{
	long number = procfs_nvidia_parameter(root_fd, name);

	return number < 0 ? otherwise : number;
}

/* Beside its place first, so that no reader ever finds none where one was. */
static int make_node(
	const struct maker *maker, const char *path, mode_t mode, dev_t device, struct error *error)
{
	struct stat there;
	char new_path[128];

	if (fstatat(maker->root_fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISCHR(there.st_mode) && there.st_rdev == device &&
		(there.st_mode & 07777) == mode && there.st_uid == maker->owner &&
		there.st_gid == maker->group)
		return 0;
	(void) snprintf(new_path, sizeof(new_path), "%s.new", path);
	(void) unlinkat(maker->root_fd, new_path, 0);
	if (mknodat(maker->root_fd, new_path, S_IFCHR | mode, device) < 0 ||
		fchownat(maker->root_fd, new_path, maker->owner, maker->group, 0) < 0 ||
		fchmodat(maker->root_fd, new_path, mode, 0) < 0 ||
		renameat(maker->root_fd, new_path, maker->root_fd, path) < 0)
		return error_set_errno(error, -errno, "device node /%s", path);
	return 0;
}

/* Each capability has a mode of its own: the one for configuring MIG is root's only. */
static int make_capabilities(const struct maker *maker, struct error *error)
{
	static const char *const names[] = { "mig/config", "mig/monitor" };
	int major = procfs_major(maker->root_fd, "nvidia-caps");
	int r;

	if (!fs_exists(maker->root_fd, CAPABILITIES "/mig"))
		return 0;
	r = fs_mkdir_parents(maker->root_fd, "dev/nvidia-caps", 0755);
	if (r < 0)
		return error_set_errno(error, r, "folder /dev/nvidia-caps");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[128], mode[16], node[64];
		long minor;

		(void) snprintf(path, sizeof(path), CAPABILITIES "/%s", names[i]);
		minor = procfs_capability_minor(maker->root_fd, path);
		procfs_value(maker->root_fd, path, "DeviceFileMode", mode, sizeof(mode));
		if (major < 0 || minor < 0 || !*mode)
			continue;
		(void) snprintf(node, sizeof(node), "dev/nvidia-caps/nvidia-cap%ld", minor);
		r = make_node(maker, node, (mode_t) strtoul(mode, NULL, 10) & 0777,
			makedev((unsigned) major, (unsigned) minor), error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* As many as can be made. Returns the first failure. */
static int make_driver_nodes(
	const struct maker *maker, const struct procfs_gpus *gpus, struct error *error)
{
	struct module_node nodes[DRIVER_NODES_MAX];
	size_t count = procfs_driver_nodes(maker->root_fd, gpus, nodes);
	struct error another;
	int r = make_capabilities(maker, error);

	for (size_t i = 0; i < count; i++) {
		int failed = make_node(maker, nodes[i].path, maker->mode, nodes[i].device,
			r < 0 ? &another : error);

		r = r < 0 ? r : failed;
	}
	return r;
}

int gpu_make_addon_nodes(
	int root_fd, const struct gpu_module *module, int driver_root_fd, struct error *error)
{
	const struct maker maker = { .root_fd = driver_root_fd };
	struct module_node nodes[ADDON_NODES_MAX];
	size_t count = procfs_addon_nodes(root_fd, module, nodes);
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = make_node(&maker, nodes[i].path, 0666, nodes[i].device, error);
	return r;
}

/* The sources show the symvers of the image's first kernel until then. */
static int choose_symvers(const struct role *role, struct error *error)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r;

	(void) snprintf(
		from, sizeof(from), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_NVIDIA, role->krel);
	(void) snprintf(to, sizeof(to), "usr/src/nvidia-%s/Module.symvers", role->image.version);
	if (!fs_exists(role->root_fd, from))
		return 0;
	r = fs_copy(role->root_fd, from, to, 0, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s from /%s", to, from) : 0;
}

/*
 * Makes the nodes of what /proc/devices and /proc/driver/nvidia list now: the control device,
 * modesetting, unified memory, the MIG capabilities, addons, and GPUs. One that is right already is
 * left alone. The driver's own are not made where it is not to have its files modified
 * (NVreg_ModifyDeviceFiles=0).
 */
int gpu_make_nodes(struct action *action)
{
	const struct role *role = action->role;
	int root_fd = role->root_fd;
	const struct maker maker = {
		.root_fd = root_fd,
		.mode = (mode_t) parameter(root_fd, "DeviceFileMode", 0666) & 0777,
		.owner = (uid_t) parameter(root_fd, "DeviceFileUID", 0),
		.group = (gid_t) parameter(root_fd, "DeviceFileGID", 0),
	};
	bool is_wanted = parameter(root_fd, "ModifyDeviceFiles", 1) != 0;
	struct procfs_gpus gpus = { .count = 0 };
	char sentence[PROCFS_SENTENCE];
	struct error error = { 0 };

	/* For modules that stayed loaded, or that the pod's other containers loaded. */
	if (gpu_make_addon_nodes(root_fd, NULL, root_fd, &error) < 0)
		worker_report(action->worker, WORKER_NOTE, 0, "%s", error.text);
	if (!is_wanted)
		return 0;
	/* The vendor's programs make what is missing, too, where they may. */
	(void) make_driver_nodes(&maker, &gpus, &error); /* before a GPU that hangs is asked */
	procfs_gpus_ask(root_fd, PROCFS_GPUS_MS, &gpus);
	if (make_driver_nodes(&maker, &gpus, &error) < 0)
		worker_report(action->worker, WORKER_NOTE, 0, "%s", error.text);
	for (size_t i = 0; procfs_gpus_next_silent(&gpus, &i, sentence);)
		worker_report(action->worker, WORKER_NOTE, 0, "%s", sentence);
	return 0;
}

int gpu_export_root(struct action *action)
{
	const struct role *role = action->role;
	int r = choose_symvers(role, &action->error);

	if (r == 0)
		r = rootfs_export(role->root_fd, CONTRACT_DRIVER_ROOT, &action->error);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

int gpu_retire_root(struct action *action)
{
	const struct role *role = action->role;
	int r = sysmodule_exists(role->root_fd, "nvidia")
			? 0
			: rootfs_empty(role->root_fd, CONTRACT_DRIVER_ROOT, &action->error);

	/* The pod mounts this folder of the host: a next start needs it, whatever ends this one. */
	if (r == 0) {
		r = fs_mkdir_parents(role->root_fd, CONTRACT_DRIVER_FIRMWARE, 0755);
		if (r < 0)
			(void) error_set_errno(
				&action->error, r, "folder /" CONTRACT_DRIVER_FIRMWARE);
	}
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

static int write_path(struct action *action, const char *value, size_t size)
{
	const struct role *role = action->role;
	_cleanup_close_ int fd =
		openat(role->root_fd, CONTRACT_FIRMWARE_PATH, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, value, size) >= 0)
		return 0;
	return action_fail(action, REASON_MOUNT_FAILED, -EIO,
		"/%s: %s: GPUs with GSP firmware cannot start without it", CONTRACT_FIRMWARE_PATH,
		strerror(errno));
}

/* On the host, as the kernel sees it. */
static bool host_has(const struct role *role, const char *path)
{
	char below[PATH_MAX];

	(void) snprintf(below, sizeof(below), CONTRACT_GPU_HOST_ROOT "/%s", path);
	return fs_exists(role->root_fd, below);
}

/*
 * Is it set by another program? An installation that is gone leaves a path that leads nowhere, and
 * that one is replaced; a folder that is there was put there on purpose.
 */
static bool is_foreign(struct role *role, const char *value)
{
	char wanted[1536];

	if (!*value || strcmp(value, CONTRACT_FIRMWARE_PATH_VALUE) == 0)
		return false;
	if (host_has(role, "proc") && !host_has(role, value)) {
		role_note(role,
			"the kernel's firmware path was %.256s, which does not exist on the node: replacing it",
			value);
		return false;
	}
	(void) snprintf(wanted, sizeof(wanted), "%.1024s/nvidia/%s", value, role->image.version);
	if (!host_has(role, wanted))
		role_note(role,
			"the kernel's firmware path is %.256s, which another program set and which has no nvidia/%s: GPUs with GSP firmware will not start unless it is in the node's /lib/firmware; put it there, or empty /%s",
			value, role->image.version, CONTRACT_FIRMWARE_PATH);
	return true;
}

int gpu_set_firmware_path(struct action *action)
{
	struct role *role = action->role;
	_cleanup_free_ char *before = NULL;
	bool shown = false;
	int r = 0;

	/*
	 * A root that is shown has it already: of a previous run whose driver stays. One that was
	 * retired is mounted, and empty.
	 */
	if (mountinfo_count(role->root_fd, CONTRACT_DRIVER_ROOT "/proc") <= 0) {
		r = rootfs_detach(CONTRACT_DRIVER_FIRMWARE, &action->error);
		if (r == 0)
			r = rootfs_show(
				IMAGE_FIRMWARE, CONTRACT_DRIVER_FIRMWARE, &shown, &action->error);
	}
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &before) == 0 &&
		is_foreign(role, before))
		return 0;
	return write_path(
		action, CONTRACT_FIRMWARE_PATH_VALUE, strlen(CONTRACT_FIRMWARE_PATH_VALUE));
}

int gpu_withdraw_root(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *now = NULL;
	int r;

	/* A driver that stays, in use, still needs both: a GPU may start anew. */
	if (sysmodule_exists(role->root_fd, "nvidia"))
		return 0;
	r = rootfs_detach(CONTRACT_DRIVER_ROOT, &action->error);
	if (r == 0)
		r = rootfs_detach(CONTRACT_DRIVER_FIRMWARE, &action->error);
	if (r < 0)
		return action_reason(action, REASON_MOUNT_FAILED, r);
	if (fs_read_line(role->root_fd, CONTRACT_FIRMWARE_PATH, &now) < 0 ||
		strcmp(now, CONTRACT_FIRMWARE_PATH_VALUE) != 0)
		return 0;
	/* A lone NUL is how an empty string is written: a write of no bytes does nothing. */
	return write_path(action, "", 1);
}

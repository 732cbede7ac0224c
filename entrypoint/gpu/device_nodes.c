/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/device_nodes.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/fs.h"
#include "entrypoint/gpu/procfs.h"

#define GPUS         PROCFS_NVIDIA "/gpus"
#define CAPABILITIES PROCFS_NVIDIA "/capabilities"

/* Minors of the driver's fixed devices (open-gpu-kernel-modules kernel-open/common/inc/nv.h). */
#define MINOR_CONTROL   255
#define MINOR_MODESET   254
#define MINOR_UVM       0
#define MINOR_UVM_TOOLS 1

struct maker {
	int root_fd;
	const char *devices; /* /proc/devices */
	/* NVreg_DeviceFile{Mode,UID,GID} */
	mode_t mode;
	uid_t owner;
	gid_t group;
};

/* @text: of the driver's params. */
static long parameter(const char *text, const char *name, long otherwise)
{
	char value[64];
	long number;

	procfs_text_value(text, name, value, sizeof(value));
	number = procfs_number(value);
	return number < 0 ? otherwise : number;
}

static bool is_right(const struct maker *maker, const char *path, mode_t mode, dev_t device)
{
	struct stat there;

	return fstatat(maker->root_fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISCHR(there.st_mode) && there.st_rdev == device &&
	       (there.st_mode & 07777) == mode && there.st_uid == maker->owner &&
	       there.st_gid == maker->group;
}

/* Beside its place first, so that whoever looks never finds none where one was. */
static int make_node(
	const struct maker *maker, const char *path, mode_t mode, dev_t device, struct error *error)
{
	char new_path[128];

	if (is_right(maker, path, mode, device))
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

/* A driver that is not there has no major, and gets no node. */
static int make_of_driver(const struct maker *maker, const char *driver, unsigned minor,
	const char *path, struct error *error)
{
	int major = procfs_text_major(maker->devices, driver);

	/* Up to 545 one driver of this name stood before nvidia and nvidia-modeset. */
	if (major < 0 && strcmp(driver, "nvidia-uvm") != 0)
		major = procfs_text_major(maker->devices, "nvidia-frontend");
	return major < 0 ? 0
			 : make_node(maker, path, maker->mode, makedev((unsigned) major, minor),
				   error);
}

static int make_gpus(const struct maker *maker, struct error *error)
{
	_cleanup_strv_ struct strv gpus = { 0 };
	int r = 0;

	if (fs_list(maker->root_fd, GPUS, &gpus) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < gpus.count; i++) {
		char path[300], minor[16], node[32];

		(void) snprintf(path, sizeof(path), GPUS "/%s/information", gpus.items[i]);
		procfs_value(maker->root_fd, path, "Device Minor", minor, sizeof(minor));
		if (!*minor)
			continue;
		(void) snprintf(node, sizeof(node), "dev/nvidia%s", minor);
		r = make_of_driver(
			maker, "nvidia", (unsigned) strtoul(minor, NULL, 10), node, error);
	}
	return r;
}

/* Each capability has a mode of its own: the one for configuring MIG is root's only. */
static int make_capability(const struct maker *maker, const char *name, struct error *error)
{
	int major = procfs_text_major(maker->devices, "nvidia-caps");
	char path[128], mode[16], node[64];
	long minor;

	(void) snprintf(path, sizeof(path), CAPABILITIES "/%s", name);
	minor = procfs_capability_minor(maker->root_fd, path);
	procfs_value(maker->root_fd, path, "DeviceFileMode", mode, sizeof(mode));
	if (major < 0 || minor < 0 || !*mode)
		return 0;
	(void) snprintf(node, sizeof(node), "dev/nvidia-caps/nvidia-cap%ld", minor);
	return make_node(maker, node, (mode_t) strtoul(mode, NULL, 10) & 0777,
		makedev((unsigned) major, (unsigned) minor), error);
}

static int make_capabilities(const struct maker *maker, struct error *error)
{
	int r;

	if (!fs_exists(maker->root_fd, CAPABILITIES "/mig"))
		return 0;
	r = fs_mkdir_parents(maker->root_fd, "dev/nvidia-caps", 0755);
	if (r < 0)
		return error_set_errno(error, r, "folder /dev/nvidia-caps");
	r = make_capability(maker, "mig/config", error);
	return r < 0 ? r : make_capability(maker, "mig/monitor", error);
}

static int make_fixed(const struct maker *maker, struct error *error)
{
	static const struct {
		const char *driver;
		unsigned minor;
		const char *path;
	} fixed[] = {
		{ "nvidiactl", MINOR_CONTROL, "dev/nvidiactl" },
		{ "nvidia-modeset", MINOR_MODESET, "dev/nvidia-modeset" },
		{ "nvidia-uvm", MINOR_UVM, "dev/nvidia-uvm" },
		{ "nvidia-uvm", MINOR_UVM_TOOLS, "dev/nvidia-uvm-tools" },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fixed); i++)
		r = make_of_driver(maker, fixed[i].driver, fixed[i].minor, fixed[i].path, error);
	return r;
}

/* What cannot be read is empty. */
static char *read_text(int root_fd, const char *path)
{
	char *text = NULL;

	return fs_read(root_fd, path, 0, &text, NULL) < 0 ? strdup("") : text;
}

int device_nodes_make(int root_fd, struct error *error)
{
	_cleanup_free_ char *params = read_text(root_fd, PROCFS_NVIDIA "/params");
	_cleanup_free_ char *devices = read_text(root_fd, "proc/devices");
	struct maker maker = { .root_fd = root_fd, .devices = devices };
	int r;

	if (!params || !devices)
		return error_set_errno(error, -ENOMEM, "device nodes");
	if (parameter(params, "ModifyDeviceFiles", 1) == 0)
		return 0;
	maker.mode = (mode_t) parameter(params, "DeviceFileMode", 0666) & 0777;
	maker.owner = (uid_t) parameter(params, "DeviceFileUID", 0);
	maker.group = (gid_t) parameter(params, "DeviceFileGID", 0);
	r = make_fixed(&maker, error);
	if (r == 0)
		r = make_gpus(&maker, error);
	return r < 0 ? r : make_capabilities(&maker, error);
}

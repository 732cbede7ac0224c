/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/rootfs.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>

#include "common/fs.h"
#include "entrypoint/role/mountinfo.h"

static void absolute(char path[PATH_MAX], const char *relative)
{
	(void) snprintf(path, PATH_MAX, "/%s", relative);
}

int rootfs_detach(const char *target, struct error *error)
{
	char path[PATH_MAX];

	absolute(path, target);
	while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		;
	if (errno != EINVAL && errno != ENOENT)
		return error_set_errno(error, -errno, "unmount %s", path);
	return 0;
}

static int bind_mount(
	const char *source, const char *target, unsigned long flags, struct error *error)
{
	int r = fs_mkdir_parents(AT_FDCWD, target, 0755);

	if (r < 0)
		return error_set_errno(error, r, "folder %s", target);
	if (mount(source, target, NULL, MS_BIND | flags, NULL) < 0)
		return error_set_errno(error, -errno, "bind %s at %s", source, target);
	return 0;
}

static int change_propagation(const char *path, unsigned long flags, struct error *error)
{
	if (mount(NULL, path, NULL, flags, NULL) < 0)
		return error_set_errno(error, -errno, "propagation of mounts below %s", path);
	return 0;
}

int rootfs_bind(const char *source, const char *target, struct error *error)
{
	char path[PATH_MAX];

	absolute(path, target);
	return bind_mount(source, path, 0, error);
}

/*
 * The tree is put together at a private place and shown in one step. Were it put together at the
 * target, each mount below would also appear in the container's own root: a bind of a shared root
 * shares with it.
 */
#define STAGE        "/run/slipway-stage"
#define STAGE_ROOT   STAGE "/root"
#define STAGE_AROUND STAGE "/around"

static void stage_close(void)
{
	(void) umount2(STAGE, MNT_DETACH);
	(void) rmdir(STAGE_ROOT);
	(void) rmdir(STAGE_AROUND);
	(void) rmdir(STAGE);
}

/* A mount of its own, so that what is mounted below stays here though the root is shared. */
static int stage_open(struct error *error)
{
	int r = fs_mkdir_parents(AT_FDCWD, STAGE, 0700);

	if (r < 0)
		return error_set_errno(error, r, "folder " STAGE);
	r = bind_mount(STAGE, STAGE, 0, error);
	if (r == 0)
		r = change_propagation(STAGE, MS_PRIVATE, error);
	return r;
}

/* The root file system by itself: nothing that is mounted over some of it hides it here. */
static int stage_root(struct error *error)
{
	int r = bind_mount("/", STAGE_ROOT, 0, error);

	return r < 0 ? r : change_propagation(STAGE_ROOT, MS_PRIVATE, error);
}

static int stage_live_folders(struct error *error)
{
	/* The last is a folder of the host's, with fabric manager's socket: operands look for it
	 * below the root. Not every container has it. */
	static const char *const live[] = { "/dev", "/proc", "/sys", "/run/nvidia-fabricmanager" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(live); i++) {
		char below[PATH_MAX];

		if (!fs_exists(AT_FDCWD, live[i]))
			continue;
		(void) snprintf(below, sizeof(below), STAGE_ROOT "%s", live[i]);
		r = bind_mount(live[i], below, MS_REC, error);
		/* What comes there appears in the export; detaching the export takes nothing away.
		 */
		if (r == 0)
			r = change_propagation(below, MS_REC | MS_SLAVE, error);
	}
	return r;
}

/*
 * Puts the staged root under what is mounted at @path, in all name spaces at once. Kernels before
 * 6.5 have no call for that, but all since 4.11 do it when a mount comes by propagation to a place
 * where something is mounted already (Linux fs/namespace.c, attach_recursive_mnt()): so the folder
 * around @path is bound a second time, which makes it a peer that has nothing mounted at that
 * place, and there the new root is mounted.
 */
static int tuck_under(const char *path, struct error *error)
{
	char folder[PATH_MAX], name[PATH_MAX], place[PATH_MAX];
	int r;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	(void) snprintf(name, sizeof(name), "%s", path);
	(void) snprintf(place, sizeof(place), STAGE_AROUND "/%.255s", basename(name));
	r = bind_mount(dirname(folder), STAGE_AROUND, 0, error);
	if (r == 0)
		r = bind_mount(STAGE_ROOT, place, MS_REC, error);
	/*
	 * No peers any more, neither the folder nor the root nor what is mounted in it: that the
	 * stage goes must not take them away elsewhere.
	 */
	return r < 0 ? r : change_propagation(STAGE_AROUND, MS_REC | MS_PRIVATE, error);
}

static int unmount_times(const char *path, int times, struct error *error)
{
	while (times-- > 0)
		if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			return error_set_errno(error, -errno, "unmount the old %s", path);
	return 0;
}

/* @old: how many mounts are at @target. */
static int replace(int root_fd, const char *target, int old, struct error *error)
{
	char path[PATH_MAX];
	int r;

	absolute(path, target);
	r = tuck_under(path, error);
	if (r < 0)
		return r;
	if (mountinfo_count(root_fd, target) > old)
		return unmount_times(path, old, error);
	/* Not shared with anybody: nobody else sees the gap. */
	r = unmount_times(path, old, error);
	return r < 0 ? r : bind_mount(STAGE_ROOT, path, MS_REC, error);
}

static int export_staged(int root_fd, const char *target, struct error *error)
{
	int old = mountinfo_count(root_fd, target);
	char path[PATH_MAX];

	absolute(path, target);
	if (old < 0)
		return error_set_errno(error, old, "/proc/self/mountinfo");
	return old ? replace(root_fd, target, old, error)
		   : bind_mount(STAGE_ROOT, path, MS_REC, error);
}

int rootfs_export(int root_fd, const char *target, struct error *error)
{
	int r = stage_open(error);

	if (r == 0)
		r = stage_root(error);
	if (r == 0)
		r = stage_live_folders(error);
	if (r == 0)
		r = export_staged(root_fd, target, error);
	stage_close();
	return r;
}

int rootfs_bind_over(int root_fd, const char *source, const char *target, struct error *error)
{
	int r = stage_open(error);

	if (r == 0)
		r = bind_mount(source, STAGE_ROOT, 0, error);
	if (r == 0)
		r = change_propagation(STAGE_ROOT, MS_PRIVATE, error);
	if (r == 0)
		r = export_staged(root_fd, target, error);
	stage_close();
	return r;
}

int rootfs_show(const char *folder, const char *target, bool *ret_shown, struct error *error)
{
	char source[PATH_MAX], path[PATH_MAX];
	int r = stage_open(error);

	*ret_shown = false;
	absolute(path, target);
	(void) snprintf(source, sizeof(source), STAGE_ROOT "/%s", folder);
	if (r == 0)
		r = stage_root(error);
	if (r == 0 && fs_exists(AT_FDCWD, source)) {
		r = bind_mount(source, path, 0, error);
		*ret_shown = r == 0;
	}
	stage_close();
	return r;
}

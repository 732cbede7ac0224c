/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/mounts.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>

#include "common/fs.h"

/* ---- /proc/self/mountinfo (Linux Documentation/filesystems/proc.rst, section 3.5) */

#define TABLE "proc/self/mountinfo"

struct line {
	char place[PATH_MAX]; /* "/mnt2"; a blank in it is "\\040" */
	bool shared;
};

/* Takes "36 35 98:0 /mnt1 /mnt2 rw,noatime shared:1 - ext3 /dev/root rw": @text is behind it then.
 */
static bool next_line(const char **text, struct line *line)
{
	const char *end = *text + strcspn(*text, "\n");
	unsigned field = 0;

	if (end == *text)
		return false;
	*line = (struct line){ .shared = false };
	for (const char *at = *text; at < end; field++) {
		int length = (int) strcspn(at, " \n");

		if (field == 4)
			(void) snprintf(line->place, sizeof(line->place), "%.*s", length, at);
		/* Optional fields follow, a lone dash ends them. */
		if (field >= 6 && *at == '-')
			break;
		if (field >= 6 && strncmp(at, "shared:", strlen("shared:")) == 0)
			line->shared = true;
		at += length + (at[length] == ' ');
	}
	*text = end + (*end == '\n');
	return true;
}

int mountinfo_count(int root_fd, const char *path)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, TABLE, 0, &text, NULL);
	const char *rest = text;
	struct line line;
	int count = 0;

	if (r < 0)
		return r;
	while (next_line(&rest, &line))
		count += strcmp(line.place + 1, path) == 0;
	return count;
}

int mountinfo_find(int root_fd, const char *path, struct mountinfo *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, TABLE, 0, &text, NULL);
	const char *rest = text;
	struct line line;
	size_t longest = 0;

	*ret = (struct mountinfo){ .shared = false };
	if (r < 0)
		return r;
	while (next_line(&rest, &line)) {
		const char *place = line.place + 1;
		size_t length = strlen(place);
		bool lies_on = length == 0 ||
			       (strncmp(path, place, length) == 0 && strchr("/", path[length]));

		if (length < longest || !lies_on)
			continue;
		longest = length;
		*ret = (struct mountinfo){ .of_root = length == 0, .shared = line.shared };
	}
	return 0;
}

/* ---- what is shown to others */

int rootfs_detach(const char *target, struct error *error)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "/%s", target);
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

/* @source by itself at STAGE_ROOT: nothing that is mounted over some of it hides it here. */
static int stage_open(const char *source, struct error *error)
{
	int r = fs_mkdir_parents(AT_FDCWD, STAGE, 0700);

	if (r < 0)
		return error_set_errno(error, r, "folder " STAGE);
	/* A mount of its own: what is mounted below stays here though the root is shared. */
	r = bind_mount(STAGE, STAGE, 0, error);
	if (r == 0)
		r = change_propagation(STAGE, MS_PRIVATE, error);
	if (r == 0)
		r = bind_mount(source, STAGE_ROOT, 0, error);
	return r < 0 ? r : change_propagation(STAGE_ROOT, MS_PRIVATE, error);
}

static int stage_live_folders(struct error *error)
{
	/* The last is a folder of the host's, with fabric manager's socket: operands look for it
	 * below the root. Not every container has it. */
	static const char *const live[] = { "/dev", "/proc", "/sys", "/run/nvidia-fabricmanager" };

	for (size_t i = 0; i < ARRAY_SIZE(live); i++) {
		char below[PATH_MAX];
		int r;

		if (!fs_exists(AT_FDCWD, live[i]))
			continue;
		(void) snprintf(below, sizeof(below), STAGE_ROOT "%s", live[i]);
		r = bind_mount(live[i], below, MS_REC, error);
		/* What comes there appears in the export; detaching it removes nothing. */
		if (r == 0)
			r = change_propagation(below, MS_REC | MS_SLAVE, error);
		if (r < 0)
			return r;
	}
	return 0;
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
	 * stage goes must not remove them elsewhere.
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

/* Shows what is staged; what is mounted at @target already is replaced. */
static int export_staged(int root_fd, const char *target, struct error *error)
{
	int old = mountinfo_count(root_fd, target);
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "/%s", target);
	if (old < 0)
		return error_set_errno(error, old, "/proc/self/mountinfo");
	if (old > 0) {
		r = tuck_under(path, error);
		if (r < 0)
			return r;
		if (mountinfo_count(root_fd, target) > old)
			return unmount_times(path, old, error);
		/* Not shared: the gap is seen here only. */
		r = unmount_times(path, old, error);
		if (r < 0)
			return r;
	}
	return bind_mount(STAGE_ROOT, path, MS_REC, error);
}

int rootfs_export(int root_fd, const char *target, struct error *error)
{
	int r = stage_open("/", error);

	if (r == 0)
		r = stage_live_folders(error);
	if (r == 0)
		r = export_staged(root_fd, target, error);
	stage_close();
	return r;
}

int rootfs_bind_over(int root_fd, const char *source, const char *target, struct error *error)
{
	int r = stage_open(source, error);

	if (r == 0)
		r = export_staged(root_fd, target, error);
	stage_close();
	return r;
}

int rootfs_show(const char *folder, const char *target, bool *ret_shown, struct error *error)
{
	char source[PATH_MAX], path[PATH_MAX];
	int r = stage_open("/", error);

	*ret_shown = false;
	(void) snprintf(path, sizeof(path), "/%s", target);
	(void) snprintf(source, sizeof(source), STAGE_ROOT "/%s", folder);
	if (r == 0 && fs_exists(AT_FDCWD, source)) {
		r = bind_mount(source, path, 0, error);
		*ret_shown = r == 0;
	}
	stage_close();
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/mounts.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fs.h"

/* ---- /proc/self/mountinfo (Linux Documentation/filesystems/proc.rst, section 3.5) */

#define TABLE "proc/self/mountinfo"

struct line {
	char place[PATH_MAX]; /* "/mnt2"; a blank in it is "\\040" */
	char source[64];      /* "/dev/root" */
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
		if (field >= 6 && *at == '-') {
			(void) sscanf(at, "- %*s %63s", line->source);
			break;
		}
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
		memcpy(ret->source, line.source, sizeof(ret->source));
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
#define STAGE          "/run/slipway-stage"
#define STAGE_ROOT     STAGE "/root"
#define STAGE_AROUND   STAGE "/around"
#define STAGE_SKELETON STAGE "/skeleton"

static void stage_close(void)
{
	(void) umount2(STAGE, MNT_DETACH);
	(void) rmdir(STAGE_ROOT);
	(void) rmdir(STAGE_AROUND);
	(void) rmdir(STAGE_SKELETON);
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
		/* New mounts appear in the export, too; detaching the export leaves them. */
		if (r == 0)
			r = change_propagation(below, MS_REC | MS_SLAVE, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Puts what is at @staged under what is mounted at @path, in all name spaces at once. Kernels
 * before 6.5 have no call for that, but all since 4.11 do it when a mount comes by propagation to a
 * place where something is mounted already (Linux fs/namespace.c, attach_recursive_mnt()): so the
 * folder around @path is bound a second time, which makes it a peer that has nothing mounted at
 * that place, and there the new root is mounted.
 */
static int tuck_under(const char *staged, const char *path, struct error *error)
{
	char folder[PATH_MAX], name[PATH_MAX], place[PATH_MAX];
	int r;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	(void) snprintf(name, sizeof(name), "%s", path);
	(void) snprintf(place, sizeof(place), STAGE_AROUND "/%.255s", basename(name));
	r = bind_mount(dirname(folder), STAGE_AROUND, 0, error);
	if (r == 0)
		r = bind_mount(staged, place, MS_REC, error);
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

int rootfs_uncover(int root_fd, const char *target, struct error *error)
{
	char path[PATH_MAX];
	int r = 0;

	(void) snprintf(path, sizeof(path), "/%s", target);
	/* Counted each time: the other container may replace its own at this moment. */
	while (r == 0 && mountinfo_count(root_fd, target) > 1)
		r = unmount_times(path, 1, error);
	return r;
}

/* Shows what is at @staged; what is mounted at @target already is replaced. */
static int export_staged(int root_fd, const char *staged, const char *target, struct error *error)
{
	int old = mountinfo_count(root_fd, target);
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "/%s", target);
	if (old < 0)
		return error_set_errno(error, old, "/proc/self/mountinfo");
	if (old > 0) {
		r = tuck_under(staged, path, error);
		if (r < 0)
			return r;
		if (mountinfo_count(root_fd, target) > old)
			return unmount_times(path, old, error);
		/* Not shared: the gap is seen here only. */
		r = unmount_times(path, old, error);
		if (r < 0)
			return r;
	}
	return bind_mount(staged, path, MS_REC, error);
}

/*
 * A container that mounts the export itself, not a folder above, has a copy of that mount, and sees
 * what is mounted in it later, but nothing that takes its place. So the mount itself is a tmpfs
 * that stays from one run of the container to the next: the skeleton. It has the folders and links
 * of the container's root, and on each folder that folder is mounted. A run replaces all of these.
 */
#define SKELETON "slipway-root"

/* @link is what @path leads to, "" for a folder. Other kinds of files: -EINVAL. */
static int read_entry(const char *path, char link[PATH_MAX])
{
	struct stat status;
	ssize_t length;

	*link = '\0';
	if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
		return 0;
	length = readlink(path, link, PATH_MAX - 1);
	if (length < 0)
		return -errno;
	link[length] = '\0';
	return 0;
}

static bool has_skeleton(int root_fd, const char *target)
{
	struct mountinfo mount;

	return mountinfo_count(root_fd, target) > 0 &&
	       mountinfo_find(root_fd, target, &mount) == 0 && mount.shared &&
	       strcmp(mount.source, SKELETON) == 0;
}

/* Each of its folders and links is the same in this image, or is missing there. */
static bool skeleton_fits(int root_fd, const char *target)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(root_fd, target, &names) < 0)
		return false;
	for (size_t i = 0; i < names.count; i++) {
		char path[PATH_MAX], ours[PATH_MAX], is[PATH_MAX], wanted[PATH_MAX];

		(void) snprintf(path, sizeof(path), "/%s/%s", target, names.items[i]);
		(void) snprintf(ours, sizeof(ours), STAGE_ROOT "/%s", names.items[i]);
		if (read_entry(ours, wanted) < 0)
			continue;
		if (read_entry(path, is) < 0 || strcmp(is, wanted) != 0)
			return false;
	}
	return true;
}

/*
 * The skeleton at @target once more, if it @stays, with nothing mounted in it: what is mounted here
 * appears at @target under what is there, as in tuck_under(). Else a new one.
 */
static int stage_skeleton(const char *target, bool stays, struct error *error)
{
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "/%s", target);
	if (stays)
		return bind_mount(path, STAGE_SKELETON, 0, error);
	r = fs_mkdir_parents(AT_FDCWD, STAGE_SKELETON, 0755);
	if (r < 0)
		return error_set_errno(error, r, "folder " STAGE_SKELETON);
	if (mount(SKELETON, STAGE_SKELETON, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0)
		return error_set_errno(error, -errno, "tmpfs at " STAGE_SKELETON);
	return 0;
}

/* The folder that it leads to, so that it leads somewhere while none is mounted. */
static int make_target(const char *link)
{
	char of_root[PATH_MAX + sizeof(STAGE_ROOT)], folder[PATH_MAX + sizeof(STAGE_SKELETON)];
	struct stat status;

	(void) snprintf(of_root, sizeof(of_root), STAGE_ROOT "/%s", link);
	(void) snprintf(folder, sizeof(folder), STAGE_SKELETON "/%s", link);
	if (strstr(link, "..") || lstat(of_root, &status) < 0 || !S_ISDIR(status.st_mode))
		return 0;
	return fs_mkdir_parents(AT_FDCWD, folder, 0755);
}

/* Links first, folders go to @folders: they hide what lies in the skeleton. Files are left out. */
static int fill_skeleton(struct strv *folders, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, STAGE_ROOT, &names);

	if (r < 0)
		return error_set_errno(error, r, STAGE_ROOT);
	for (size_t i = 0; i < names.count; i++) {
		char from[PATH_MAX], place[PATH_MAX], link[PATH_MAX];

		(void) snprintf(from, sizeof(from), STAGE_ROOT "/%s", names.items[i]);
		(void) snprintf(place, sizeof(place), STAGE_SKELETON "/%s", names.items[i]);
		if (read_entry(from, link) < 0)
			continue;
		r = *link ? make_target(link) : strv_push(folders, names.items[i]);
		if (r == 0 && *link && symlink(link, place) < 0 && errno != EEXIST)
			r = -errno;
		if (r < 0)
			return error_set_errno(error, r, "/%s in the export", names.items[i]);
	}
	for (size_t i = 0; i < folders->count; i++) {
		char from[PATH_MAX], place[PATH_MAX];

		(void) snprintf(from, sizeof(from), STAGE_ROOT "/%s", folders->items[i]);
		(void) snprintf(place, sizeof(place), STAGE_SKELETON "/%s", folders->items[i]);
		r = bind_mount(from, place, MS_REC, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Unmounts all mounts at each folder but the lowest of @folders, which is the new one; a start that
 * was killed here has left more than one. Those that this image does not have go altogether.
 */
static int unmount_old(
	int root_fd, const char *target, const struct strv *folders, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	/* First, that the stage goes must not remove the new ones. */
	int r = change_propagation(STAGE_SKELETON, MS_REC | MS_PRIVATE, error);

	if (r < 0)
		return r;
	r = fs_list(root_fd, target, &names);
	if (r < 0)
		return error_set_errno(error, r, "/%s", target);
	for (size_t i = 0; i < names.count; i++) {
		int stay = strv_contains(folders, names.items[i]) ? 1 : 0;
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "/%s/%s", target, names.items[i]);
		r = unmount_times(path, mountinfo_count(root_fd, path + 1) - stay, error);
		if (r < 0)
			return r;
	}
	return 0;
}

int rootfs_export(int root_fd, const char *target, struct error *error)
{
	_cleanup_strv_ struct strv folders = { 0 };
	bool stays = false;
	int r = stage_open("/", error);

	if (r == 0)
		r = stage_live_folders(error);
	if (r == 0) {
		stays = has_skeleton(root_fd, target) && skeleton_fits(root_fd, target);
		r = stage_skeleton(target, stays, error);
	}
	if (r == 0)
		r = fill_skeleton(&folders, error);
	if (r == 0)
		r = stays ? unmount_old(root_fd, target, &folders, error)
			  : export_staged(root_fd, STAGE_SKELETON, target, error);
	stage_close();
	return r;
}

int rootfs_empty(int root_fd, const char *target, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	if (!has_skeleton(root_fd, target))
		return rootfs_detach(target, error);
	r = fs_list(root_fd, target, &names);
	if (r < 0)
		return error_set_errno(error, r, "/%s", target);
	for (size_t i = 0; i < names.count; i++) {
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", target, names.items[i]);
		r = rootfs_detach(path, error);
		if (r < 0)
			return r;
	}
	return 0;
}

int rootfs_bind_over(int root_fd, const char *source, const char *target, struct error *error)
{
	int r = stage_open(source, error);

	if (r == 0)
		r = export_staged(root_fd, STAGE_ROOT, target, error);
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

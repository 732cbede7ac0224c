/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/root/rootfs.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>

#include "common/fs.h"

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
#define STAGE "/run/slipway-root"

static int stage_root(struct error *error)
{
	static const char *const live[] = { "/dev", "/proc", "/sys" };
	int r = bind_mount("/", STAGE, 0, error);

	if (r == 0 && mount(NULL, STAGE, NULL, MS_PRIVATE, NULL) < 0)
		r = error_set_errno(error, -errno, "make %s private", STAGE);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(live); i++) {
		char below[PATH_MAX];

		(void) snprintf(below, sizeof(below), "%s%s", STAGE, live[i]);
		r = bind_mount(live[i], below, MS_REC, error);
		/* What comes there appears in the export; detaching the export takes nothing away.
		 */
		if (r == 0 && mount(NULL, below, NULL, MS_REC | MS_SLAVE, NULL) < 0)
			r = error_set_errno(error, -errno, "make %s a slave", below);
	}
	return r;
}

int rootfs_export(const char *target, struct error *error)
{
	char path[PATH_MAX];
	int r;

	absolute(path, target);
	r = stage_root(error);
	if (r == 0)
		r = bind_mount(STAGE, path, MS_REC, error);
	(void) umount2(STAGE, MNT_DETACH);
	(void) rmdir(STAGE);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds mounts in our mount name space, and shows folders of a container to others through a mount
 * under a shared host folder: the driver root of the GPU container, the sources of the NIC
 * container. Paths and targets are relative to the root.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

/* How many mounts lie at exactly this path, one over the other; or a negative errno. */
int mountinfo_count(int root_fd, const char *path);

struct mountinfo {
	bool of_root;    /* it is the root itself: of a container, its own file system */
	bool shared;     /* what is mounted below reaches other mount name spaces */
	char source[64]; /* the device, or for file systems without one any word */
};

/* The mount that the path lies on, the topmost of those that are there; or a negative errno. */
int mountinfo_find(int root_fd, const char *path, struct mountinfo *ret);

/*
 * Detaches whatever is mounted at @target, as often as something is, also what a previous run of
 * the container left there. Nothing there is fine. The detach reaches the host, because the folder
 * above is shared.
 */
int rootfs_detach(const char *target, struct error *error);

/*
 * Unmounts what lies over the lowest mount at @target. Of a container that has mounted both a
 * folder and, by itself, what another one shows in it: the second is a copy of what was shown when
 * it began, and hides what takes its place; the lowest is the first one's, and is replaced.
 */
int rootfs_uncover(int root_fd, const char *target, struct error *error);

/*
 * Binds the folder @source over @target, which is made. One mount, without those below @source. A
 * mount that is there already is replaced without a gap, as rootfs_export() does.
 */
int rootfs_bind_over(int root_fd, const char *source, const char *target, struct error *error);

/*
 * Exports the container's root at @target: the folders and links of the root file system itself,
 * and in it the live /dev, /proc and /sys. Other mounts below the root (the host's shared folders
 * above all) are left out, so that the export does not contain itself.
 *
 * The export of a previous run of the container at @target is replaced without a gap: a look there,
 * from any name space, finds the old folder or the new one. It is also replaced in containers that
 * have mounted @target itself since then, if with propagation from the host.
 */
int rootfs_export(int root_fd, const char *target, struct error *error);

/*
 * Takes away what rootfs_export() shows at @target, for an export that comes later: containers that
 * have mounted @target itself see that one, too. Any other mount at @target is detached.
 */
int rootfs_empty(int root_fd, const char *target, struct error *error);

/*
 * Shows the folder @folder of the container's root file system at @target, also where something is
 * mounted over it here. *ret_shown is false when the root file system has no such folder.
 */
int rootfs_show(const char *folder, const char *target, bool *ret_shown, struct error *error);

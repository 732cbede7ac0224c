/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the container writes on its host for a while (udev rules, a blacklist): each is
 * entered in a journal on disk before it is touched, and undone on every way out; what SIGKILL or a
 * power loss left is undone by the next start.
 */
#pragma once

#include "common/error.h"

struct hostfiles {
	int root_fd;
	const char *journal; /* path relative to the root, on a disk of the host */
};

/*
 * Puts @content at @path (relative to the root), atomically and synced, with the mode and the
 * SELinux label that files of its folder have. What was there before is kept in the journal.
 * Nothing is done when it is there already and was put by us.
 */
int hostfiles_put(
	const struct hostfiles *files, const char *path, const char *content, struct error *error);

/* Undoes one, or with NULL all that the journal knows: the old content, or no file. 0 for none. */
int hostfiles_undo(const struct hostfiles *files, const char *path, struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the container puts below its host's /etc for a while (udev rules, a blacklist). What
 * is put there is a symbolic link; the file itself lies in the host's memory, below /run. So a
 * reboot makes it say nothing, whatever way the container ended: udevd, libkmod and busybox pass
 * over a link that leads nowhere. Each is entered in a journal on disk before it is touched, and
 * undone on every way out; what SIGKILL or a power loss left is undone by the next start, which
 * knows a link of ours by where it leads, even when the journal is lost.
 *
 * What was there before stays beside it under "<name>.slipway-kept", the file itself with all that
 * belongs to it: neither udev nor libkmod reads a file of such a name.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/plan.h"

struct hostfiles {
	int root_fd;
	const char *log;           /* relative to the root, on a disk of the host */
	const char *memory_folder; /* relative to the root, and at the same place on the host */
	struct strv *notes;        /* what the caller should tell gets appended, once */
	bool *changed;             /* set when something was put or undone */
};

/*
 * Puts @content at @path (relative to the root): atomically, and with the SELinux label that its
 * folder's files have. The folder is made when the one above is there. Nothing is done when it is
 * there already and was put by us, and, with a note, when @path leads to /dev/null: so an
 * administrator says that he wants no such file. -EROFS, -ENOENT and the like: @error names the
 * file, and nothing was touched.
 */
int hostfiles_put(
	const struct hostfiles *files, const char *path, const char *content, struct error *error);

/*
 * Undoes one: the old file, or none. One that somebody changed or replaced meanwhile is left alone,
 * with a note; with a journal that cannot be read it goes by what is there. Returns how many files
 * were undone, or the first failure, after having tried all. That the journal could not be written
 * is a note, and no failure: what it says of a place that is undone harms no later start.
 */
int hostfiles_undo(const struct hostfiles *files, const char *path, struct error *error);

/* The same for all that the journal knows but @keep, or NULL. */
int hostfiles_undo_others(const struct hostfiles *files, const char *keep, struct error *error);

/* Whether what is at @path is a link of ours that leads somewhere. */
bool hostfiles_is_there(const struct hostfiles *files, const char *path);

/*
 * host_etc.c: what the NIC role puts there: the udev rules that keep interfaces' names, for as long
 * as the container serves, and a blacklist that keeps udev and the kernel from loading the host's
 * modules between the swap's first unload and its last load. Actions of nic.c; all run in workers,
 * for they sync a disk. None of them fails: what cannot be put or undone, on a host whose /etc is
 * read-only say, is reported.
 */

/* Undoes what an earlier container left; the udev rules stay where they are wanted. */
int nic_host_files_clear(struct action *action);

/* Before the swap: rules and blacklist, and udevd is told to read them. */
int nic_host_files_put(struct action *action);
/* Both, and whatever else the journal knows. */
int nic_host_files_undo(struct action *action);

/* Right after the last load: the blacklist goes. */
int nic_unblock(struct action *action);
/* The undo: it comes back, when modules are about to go again. */
int nic_block_again(struct action *action);

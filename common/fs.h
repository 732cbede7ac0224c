/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders relative to a directory descriptor, so that tests pass a folder where the
 * program passes "/". Every function returns 0 or a negative errno, and none of them logs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/strv.h"

/*
 * Opens a file that anybody could have put there: openat(2) with O_CLOEXEC, but what is no file is
 * refused and never waited for: -ESPIPE for a FIFO, a device (but for /dev/null, which stands for
 * an empty file) or a socket, -EISDIR for a folder. What reads a file's content opens it so.
 */
int fs_open(int dir_fd, const char *path, int flags) _must_check_;

/*
 * The same for a descriptor that something else opened, with O_NONBLOCK: returns @fd, or closes it.
 * A negative errno in the place of a descriptor is returned.
 */
int fs_only_file(int fd) _must_check_;

/*
 * Reads a whole file, opened as by fs_open(), of at most @limit bytes (0: no limit; more is -EFBIG)
 * into a new, NUL-terminated buffer, which the caller frees. @ret_size may be NULL. Works for /proc
 * and /sys, whose files have no size.
 */
int fs_read(
	int dir_fd, const char *path, size_t limit, char **ret_text, size_t *ret_size) _must_check_;

/* The same for what is open already, a pipe too. */
int fs_read_fd(int fd, size_t limit, char **ret_text, size_t *ret_size) _must_check_;

/* Like fs_read() for one-line files such as those of /sys, without the trailing white space. */
int fs_read_line(int dir_fd, const char *path, char **ret_line) _must_check_;

/* A name beside @path that no other process takes; the caller frees it. NULL: out of memory. */
char *fs_temporary(const char *path) _must_check_;

/*
 * Replaces a file in one step: a temporary file beside it, synced, then renamed over it. A reader
 * sees the old content or the new one, also after a crash.
 */
int fs_write_atomic(
	int dir_fd, const char *path, const void *data, size_t size, mode_t mode) _must_check_;

/* Replaces @to so by a copy of @from, which has at most @limit bytes (0: no limit). */
int fs_copy(int dir_fd, const char *from, const char *to, size_t limit, mode_t mode) _must_check_;

/*
 * fs_write_atomic() for a file that a user names: what is there and is no regular file (a
 * terminal, a pipe) is written to, not replaced.
 */
int fs_write_output(const char *path, const void *data, size_t size) _must_check_;

/* Has a file, or which files a folder has, on the disk; where there is none, that is fine. */
int fs_sync(int dir_fd, const char *path) _must_check_;

/* Creates the folder and its parents; one that exists is fine. */
int fs_mkdir_parents(int dir_fd, const char *path, mode_t mode) _must_check_;

/*
 * Removes a file or a whole folder, never following links; one that is absent is fine. A folder
 * below it that is on another device stops it with -EBUSY and keeps its content; what came before
 * it is removed.
 */
int fs_remove_tree(int dir_fd, const char *path) _must_check_;

/* Writes all of it, also where the kernel takes it in parts or a signal comes between. */
int fs_write_all(int fd, const void *buffer, size_t size) _must_check_;

bool fs_exists(int dir_fd, const char *path);

/* Appends the sorted names in a folder, without "." and "..". */
int fs_list(int dir_fd, const char *path, struct strv *names) _must_check_;
/* Appends the paths, "@folder/…", of all that is below it and is no folder, in one order. */
int fs_list_tree(int dir_fd, const char *folder, struct strv *paths) _must_check_;

/* ---- copying files and folders, without their owners and times: by hard links where that works */

/*
 * Copies a file, link or folder, merging into folders that are there already; a file that is there
 * is replaced. Files become hard links on the same file system: the copy must not be written in
 * place. Devices and sockets are left out. Parents of @to are created.
 */
int copy_tree(int from_fd, const char *from, int to_fd, const char *to) _must_check_;

/*
 * Copies one file's content and modification time to a new file: for what leaves our hands, which
 * others may write to. -EEXIST when @to is there.
 */
int copy_apart(int from_fd, const char *from, int to_fd, const char *to) _must_check_;

/* copy_tree() of what leaves our hands: never a hard link, and with the files' times. */
int copy_tree_apart(int from_fd, const char *from, int to_fd, const char *to) _must_check_;

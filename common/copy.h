/* SPDX-License-Identifier: Apache-2.0 */
/* Copying files and folders, without their owners and times: by hard links where that works. */
#pragma once

#include "common/cleanup.h"

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

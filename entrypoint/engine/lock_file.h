/* SPDX-License-Identifier: Apache-2.0 */
/* One instance of a role on a node: a locked file with the pid of its holder. */
#pragma once

#include <stdbool.h>

#include "common/error.h"

/*
 * Takes the lock, waiting only for readers (lock_is_held()), and writes our pid into the
 * file, whose folder is made. The kernel lets go also when we are killed. -EBUSY when another
 * one has it; else a negative errno.
 */
int lock_take(int root_fd, const char *path, int *ret_fd, struct error *error);

/* Takes that of an open file alone, waiting only for readers. False: a container has it. */
bool lock_alone(int fd) _must_check_;

/* Removes the file, then lets go, so that a newcomer never finds a locked file without an owner. */
void lock_let_go(int root_fd, const char *path, int *fd);

/* Does a living process hold it? */
bool lock_is_held(int root_fd, const char *path);

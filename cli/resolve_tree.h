/* SPDX-License-Identifier: Apache-2.0 */
/* `slipway resolve --tree`: the kernel tree itself, where somebody wants it. */
#pragma once

#include <sys/types.h>

#include "cli/context.h"

/* Can the tree become @folder: a new name in a folder that is there, or an empty folder? */
int resolve_tree_ready(const char *folder, struct error *error) _must_check_;

/*
 * Fetches the headers that @lock names, checks and unpacks them, and leaves the tree
 * (lib/modules/<krel>/{build,source}, relative links only) as @folder, which appears whole or not
 * at all; until then it grows beside it, as <folder>.tmp-<owner>. The context is open, with its
 * os; @lock is borrowed. On failure context->failure is the exit code.
 */
int resolve_tree_make(struct context *context, const struct lock *lock, const char *folder,
	pid_t owner, struct error *error) _must_check_;

/* Removes what such a run left that was ended half-way. */
int resolve_tree_clear(const char *folder, pid_t owner) _must_check_;

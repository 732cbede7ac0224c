/* SPDX-License-Identifier: Apache-2.0 */
/* The first error of a build log: what a person would scroll back to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct buildlog_error {
	char *file; /* as the compiler names it; NULL where the error has no place */
	unsigned long line;
	char *message; /* the error itself, without its place */
	char *step;    /* the recipe's step ("==> ") that it happened in; NULL before the first */
	char *hint;    /* what the recipe says of a source that does not know the kernel ("try: ");
			* NULL where it says nothing */
};

/*
 * Finds the first compiler, modpost, linker, make or recipe error. The last step is searched first:
 * steps before it went well, and feature tests print errors that mean nothing. -ENODATA when the
 * log has none. The caller frees it.
 */
int buildlog_first_error(const char *text, struct buildlog_error *ret) _must_check_;
void buildlog_error_free(struct buildlog_error *found);

/*
 * Returns the cause as an errno: -ENOSPC, -ENOMEM (a compiler was killed), or -EIO for all others.
 */
int buildlog_error_number(const struct buildlog_error *found);

/* Was the recipe itself ended by SIGKILL? Buildah then exits with 1, and logs it. */
bool buildlog_says_killed(const char *text);

/*
 * The file that a line of kbuild's, or of the Makefiles of NVIDIA's src/, names as compiled:
 * "nvidia/nv-pci.o" of "  CC [M]  …"; borrowed, NULL when the line is another.
 */
const char *buildlog_compiled(const char *line);
/* How many such lines a log has. */
size_t buildlog_count_compiled(const char *text);

/* Returns what the user can try; NULL where a recipe's own message says it all. */
const char *buildlog_hint(const struct buildlog_error *found);

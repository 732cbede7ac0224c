/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder that an image or a bundle is made from, filled step by step. The first failure is kept
 * with its message, and what follows it does nothing: the caller looks once, at the end.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

struct staging {
	int fd;
	char *path; /* absolute */
	int result; /* 0, or the first failure */
	struct error *error;
};

/* Makes the folder and opens it; failures go to @error. Closed with staging_close(). */
int staging_open(struct staging *ret, const char *path, struct error *error) _must_check_;
void staging_close(struct staging *staging);

/* Keeps @code with a message, where nothing has failed before. Returns the first failure. */
int staging_fail(struct staging *staging, int code, const char *what);

/* Copies a file or folder to @to below the folder: copy_tree(). */
void staging_copy(struct staging *staging, const char *to, const char *from_format, ...)
	_printf_(3, 4);
/* The same of what need not be there. */
void staging_copy_found(struct staging *staging, const char *to, const char *from_format, ...)
	_printf_(3, 4);
/* A new file with the content of @from: copy_apart(). */
void staging_copy_apart(struct staging *staging, const char *to, const char *from);
void staging_mkdir(struct staging *staging, const char *path);
/* A symbolic link at @path, to @to. */
void staging_link(struct staging *staging, const char *to, const char *path);
void staging_write(struct staging *staging, const char *path, const void *data, size_t size);
/* Each line gets its newline. */
void staging_write_lines(struct staging *staging, const char *path, const struct strv *lines);

/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that stands for "/" in a test: files are written by path, all is removed at the end. */
#pragma once

#include <stddef.h>

struct tree {
	char path[64];
	int fd;
};

/* cmocka fixtures: *state is a struct tree. */
int tree_set_up(void **state);
int tree_tear_down(void **state);

/* Writes a file with its parent folders. */
void tree_write(const struct tree *tree, const char *path, const char *text);
void tree_folder(const struct tree *tree, const char *path);

/* A module as /sys/module shows it: state, references, and the modules (NULL-terminated) that hold
 * it. */
void tree_module(const struct tree *tree, const char *name, const char *references,
	const char *const *holders);

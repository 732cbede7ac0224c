/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of modules by its modules.dep, the text form (depmod(8)): "path: path path …", each
 * module with all that it depends on, what has to be loaded first at the end.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "common/strv.h"

struct module_tree {
	char *index;
};

/* Reads FOLDER/modules.dep. -ENOENT and other errnos of reading. */
int module_tree_open(int dir_fd, const char *folder, struct module_tree *ret) _must_check_;
void module_tree_close(struct module_tree *tree);

/* The path of a module's file in the folder, by its name ('_' is '-'). False: it has none. */
bool module_tree_path(const struct module_tree *tree, const char *name, char path[PATH_MAX]);

/*
 * Appends the paths of all that has to be loaded for the module, in that order, its own last.
 * -ENOENT: the folder lacks it; -ENOMEM.
 */
int module_tree_order(
	const struct module_tree *tree, const char *name, struct strv *paths) _must_check_;

/* The module's name, with '_', by its file's path. */
void module_tree_name(const char *path, char name[NAME_MAX]);

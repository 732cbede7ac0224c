/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "tests/unit/tree.h"

int tree_set_up(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	(void) snprintf(tree->path, sizeof(tree->path), "/tmp/slipway-tree.XXXXXX");
	if (!mkdtemp(tree->path))
		return -1;
	tree->fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = tree;
	return tree->fd < 0;
}

int tree_tear_down(void **state)
{
	struct tree *tree = *state;
	int r = fs_remove_tree(AT_FDCWD, tree->path);

	(void) close(tree->fd);
	free(tree);
	return r;
}

void tree_folder(const struct tree *tree, const char *path)
{
	assert_int_equal(fs_mkdir_parents(tree->fd, path, 0755), 0);
}

void tree_write(const struct tree *tree, const char *path, const char *text)
{
	char folder[PATH_MAX];
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash) {
		*slash = '\0';
		tree_folder(tree, folder);
	}
	assert_int_equal(fs_write_atomic(tree->fd, path, text, strlen(text), 0644), 0);
}

void tree_module(const struct tree *tree, const char *name, const char *references,
	const char *const *holders)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/initstate", name);
	tree_write(tree, path, "live\n");
	(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", name);
	tree_write(tree, path, references);
	for (; holders && *holders; holders++) {
		(void) snprintf(path, sizeof(path), "sys/module/%s/holders/%s", name, *holders);
		tree_folder(tree, path);
	}
}

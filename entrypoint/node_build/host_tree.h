/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's headers as they lie on the host. Their makefiles and links name other folders of the
 * host, some by absolute paths: what is named has to be seen at the same path where a recipe runs.
 */
#pragma once

#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

struct host_tree {
	char *build;  /* where lib/modules/<krel>/build leads, relative to the host's root */
	char *source; /* where …/source leads, or the same */
	/* Folders that a recipe needs at their own paths: relative to the host's root, sorted. */
	struct strv folders;
	/* Links between them, "path target" each. */
	struct strv links;
};

/*
 * Finds the headers of @krel below @host_fd. -ENOENT without them, naming what to install; -EINVAL
 * for a tree that is not prepared, or of another kernel. The caller frees @ret.
 */
int host_tree_find(int host_fd, const char *krel, struct host_tree *ret, struct error *error);
void host_tree_free(struct host_tree *tree);

/* Reads the kernel's configuration. The caller frees the text. */
int host_tree_config(
	int host_fd, const struct host_tree *tree, char **ret_text, struct error *error);

/* Appends lines that tell this tree from every other build of a kernel of its name. */
int host_tree_identity(int host_fd, const struct host_tree *tree, struct strv *lines);

/* 64-bit FNV-1a of a file's content; 0 where it cannot be read. */
uint64_t host_file_hash(int dir_fd, const char *path);

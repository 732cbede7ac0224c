/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a build takes from a folder with a kernel: a list of files with their places in the output,
 * so that exactly what is copied is what goes into the key.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"
#include "kernels/local/local_scan.h"

struct local_file {
	char *from; /* absolute */
	char *to;   /* below the output */
	char *link; /* what a link says in the output; NULL for files */
};

struct local_files {
	struct local_file *items;
	size_t count;
	size_t capacity;
};

/* -EXDEV, and nothing is added, when @to is absolute or has a ".." in it. */
int local_files_add(
	struct local_files *files, const char *from, const char *to, const char *link) _must_check_;
/* Sorts by place; of several for one place the first that was added stays. */
void local_files_sort(struct local_files *files);
void local_files_free(struct local_files *files);

/*
 * Adds what modules compile against: usr/src/… and the links lib/modules/<krel>/{build,source} to
 * it. @root is the folder that was scanned. Of a kernel's own build folder that is what the
 * kernel's scripts/package/install-extmod-build takes, from source and output in one place; of a
 * headers folder it is all of it and what its links and the first include of its Makefile lead to,
 * such as Debian's common and kbuild folders. Of neither it takes keys: certs/, *.pem, *.priv,
 * *.key, *.p12, *.pfx and signing_key*, nor links to them. -EINVAL when it is incomplete.
 * @confined: the root is a stranger's, and what leads out of it is refused with -EXDEV.
 */
int local_files_add_tree(struct local_files *files, const char *root, const struct local_tree *tree,
	bool confined, struct error *error) _must_check_;

/* Is that the name of a key, or of the folder that a kernel's make leaves its keys in? */
bool local_is_secret(const char *path);
/* Does a link at @link lead to one? Both are absolute, @target has no link in it. */
bool local_leads_to_secret(const char *link, const char *target);

/* Adds lib/modules/<krel>/{kernel,modules.*} of a root. */
int local_files_add_modules(struct local_files *files, const char *root,
	const struct local_modules *modules, struct error *error) _must_check_;

/*
 * The same of a build folder, whose modules lie where they were compiled. -EINVAL when one that it
 * lists is not there, -EXDEV when modules.order names one outside of the folder; @confined as for
 * trees. *ret_order is the text of modules.order as it is for depmod; the caller
 * frees it.
 */
int local_files_add_built(struct local_files *files, const char *root,
	const struct local_tree *tree, bool confined, char **ret_order,
	struct error *error) _must_check_;

/* Adds place, mode and content of all. */
int local_files_hash(
	const struct local_files *files, struct hash *hash, struct error *error) _must_check_;

/*
 * Puts them into a folder. @apart: the files are somebody else's, who may write to them; else hard
 * links will do.
 */
int local_files_copy(const struct local_files *files, int folder_fd, bool apart,
	struct error *error) _must_check_;

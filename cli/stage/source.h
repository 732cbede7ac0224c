/* SPDX-License-Identifier: Apache-2.0 */
/* Driver sources: what --ofed and --nvidia can name, and whether it is what it should be. */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"

enum source_kind {
	SOURCE_NONE,
	SOURCE_PACKAGE, /* made of a distribution package that the lock names */
	SOURCE_TREE,    /* a folder of the user's: used where it lies, read-only */
	SOURCE_ARCHIVE, /* a tarball of the user's */
};

struct source {
	enum source_kind kind;
	char *path; /* absolute, of the user's tree or tarball */
};

/*
 * Tells what @text names: @package_word (NULL: there is none), a folder or a file. -EINVAL when it
 * is none. The caller frees the source. @option is for messages.
 */
int source_identify(const char *option, const char *text, const char *package_word,
	struct source *ret, struct error *error) _must_check_;
void source_free(struct source *source);

/* Adds the content of the user's tree or tarball to a key. */
int source_add_content(
	const struct source *source, struct hash *hash, struct error *error) _must_check_;

/*
 * Where in an unpacked archive the source's own top level is: descends while a folder holds nothing
 * but one other folder. The caller frees the path.
 */
int source_find_top(const char *folder, char **ret_path) _must_check_;

/* Is it an mlnx-ofed-kernel style tree? -EINVAL with what is missing. */
int source_check_ofed(const char *path, struct error *error) _must_check_;

/* Is it GDRCopy's tree (NVIDIA/gdrcopy)? GPUDirect Storage's (NVIDIA/gds-nvidia-fs)? */
int source_check_gdrcopy(const char *path, struct error *error) _must_check_;
int source_check_nvidia_fs(const char *path, struct error *error) _must_check_;

/* Is it a tree of NVIDIA's open kernel modules, in Debian's or in NVIDIA's own layout? */
int source_check_nvidia(const char *path, struct error *error) _must_check_;

/*
 * The driver's version, NV_VERSION_STRING in its Kbuild: "595.58.03"; NULL where there is none. The
 * caller frees it.
 */
int source_nvidia_version(const char *path, char **ret_version, struct error *error) _must_check_;

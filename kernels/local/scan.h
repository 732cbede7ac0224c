/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds kernels in a folder or an archive by a few files, the marks. Nothing is unpacked for that,
 * and in a folder only the usual places of kernels are searched.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"
#include "kernels/archive/unpack.h"

struct local_mark {
	char *path;
	char *text; /* of files whose content matters; NULL else */
};

/* The place of a kernel's files: a tree, or lib/modules/<krel> with the kernel's own modules. */
struct local_place {
	char *path;   /* below the input, "" for itself; or absolute, when a link led there */
	char *krel;   /* NULL: it is a kernel's source, but not prepared */
	bool symvers; /* a tree: it has Module.symvers */
	bool builtin; /* it has modules.builtin; a tree: the modules were built in it */
};

struct local_places {
	struct local_place *items;
	size_t count;
};

/* Empty at first, to be filled with marks. */
struct local_scan {
	struct local_mark *marks;
	size_t mark_count;
	struct local_places trees;
	struct local_places modules;
};

void local_scan_free(struct local_scan *scan);

/* Is this path a mark, and does its content count? Paths have no leading "./". */
bool local_scan_wants(const char *path, bool *ret_content);

/* Adds a mark. @text may be NULL. A module below lib/modules/<krel>/kernel marks that folder. */
void local_scan_add(struct local_scan *scan, const char *path, const char *text);

/* Takes back all marks at or below a path: a layer of an image has removed it. */
void local_scan_forget(struct local_scan *scan, const char *path);

/*
 * A name in a layer that removes something: "a/b/.wh.c" removes a/b/c, "a/b/.wh..wh..opq" all that
 * was in a/b. True: the path is such, and what it removes is appended ("a/b" for all that is in
 * it).
 */
bool local_scan_whiteout(const char *path, struct strv *whiteouts);

/*
 * Adds the marks of the archive at @path, as archive_input_open() takes it; @name is for messages.
 * If it is an image's layer (@whiteouts set), names that remove something are appended there and
 * are no marks. Hard links count as their targets in the archive. -EBADMSG when it is damaged.
 */
int local_scan_archive(struct local_scan *scan, enum archive_kind kind, const char *path,
	const char *member, const char *name, struct strv *whiteouts,
	struct error *error) _must_check_;

/* Makes the lists of trees and modules from the marks; called once, after the last mark. */
void local_scan_finish(struct local_scan *scan);

/*
 * Scans a folder. Links that lead out of it are followed to kernel trees only; with @is_root, of a
 * system's root, not at all, and no kernel is looked for in other places of it.
 */
int local_scan_folder(
	const char *folder, bool is_root, struct local_scan *ret, struct error *error) _must_check_;

/* Is there a mark of this very path? */
bool local_scan_has(const struct local_scan *scan, const char *path);
/* The text of a marked file, or NULL. Borrowed. */
const char *local_scan_text(const struct local_scan *scan, const char *path);

/* The first usable tree of a kernel, or of any with @krel NULL; NULL when there is none. */
const struct local_place *local_scan_tree(const struct local_scan *scan, const char *krel);
/* Returns the place with all of the kernel's own modules, or NULL. */
const struct local_place *local_scan_modules(const struct local_scan *scan, const char *krel);

/* Is it lib/modules/<krel>, at any depth? The caller frees *ret_krel, what follows is *ret_rest. */
bool local_scan_split(const char *path, char **ret_krel, const char **ret_rest);

struct local_file {
	char *from;  /* absolute */
	char *to;    /* below the output */
	char *link;  /* the text of a link in the output; NULL for files */
	char *text;  /* what is written there instead of a copy of @from; or NULL */
	size_t rank; /* in the order of adding */
};

struct local_files {
	struct local_file *items;
	size_t count;
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
 * @confined: the root is not the user's own, and what leads out of it is refused with -EXDEV.
 */
int local_files_add_tree(struct local_files *files, const char *root,
	const struct local_place *tree, bool confined, struct error *error) _must_check_;

/*
 * Adds the modules of a build folder, which lie where they were compiled, as
 * lib/modules/<krel>/{kernel,modules.*}. -EINVAL when one that it lists is not there, -EXDEV when
 * modules.order names one outside of the folder; @confined as for trees.
 */
int local_files_add_built(struct local_files *files, const char *root,
	const struct local_place *tree, bool confined, struct error *error) _must_check_;

/* The wanted parts of a kernel. */
struct local_parts {
	const char *krel;
	bool tree;
	bool modules;
	bool unlisted; /* modules that have no modules.builtin beside them, too */
	bool confined; /* as for trees */
};

/*
 * Adds what the folder @root, which was scanned, has of these parts, and sorts. Nothing is added
 * where it has none, or only a part of one.
 */
int local_files_add_parts(struct local_files *files, const char *root,
	const struct local_scan *scan, const struct local_parts *parts,
	struct error *error) _must_check_;

/*
 * Puts them into a folder. @apart: the files are the user's, who may write to them; else hard links
 * will do.
 */
int local_files_copy(const struct local_files *files, int folder_fd, bool apart,
	struct error *error) _must_check_;

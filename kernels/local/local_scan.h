/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernels are in a folder or an archive, told by a few files that tell: the marks. Nothing is
 * unpacked for that, and of a folder only the places are looked at where kernels lie.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/archive/archive_input.h"

struct local_mark {
	char *path;
	char *text; /* of files whose content tells; NULL else */
};

/* A prepared kernel tree: a folder with include/generated/utsrelease.h. */
struct local_tree {
	char *path;   /* below the input, "" for itself; or absolute, when a link led there */
	char *krel;   /* NULL: it is a kernel's source, but not prepared */
	bool symvers; /* it has Module.symvers */
	bool builtin; /* it has modules.builtin: the modules were built in it */
};

/* lib/modules/<krel>, with the kernel's own modules. */
struct local_modules {
	char *path; /* below the input */
	char *krel;
	bool builtin; /* it has modules.builtin */
	bool modules; /* it has kernel/ */
};

struct local_scan {
	struct local_mark *marks;
	size_t mark_count;
	struct local_tree *trees;
	size_t tree_count;
	struct local_modules *modules;
	size_t module_count;
};

/* A new one, or NULL without memory. */
struct local_scan *local_scan_new(void);
void local_scan_free(struct local_scan *scan);

/* Is this a path that tells, and does its content tell too? Paths have no leading "./". */
bool local_scan_wants(const char *path, bool *ret_content);

/* Adds a mark. @text may be NULL. A module below lib/modules/<krel>/kernel marks that folder. */
int local_scan_add(struct local_scan *scan, const char *path, const char *text) _must_check_;

/* Takes back all marks at or below a path: a layer of an image has removed it. */
void local_scan_forget(struct local_scan *scan, const char *path);

/*
 * Adds the marks of an archive. Of an image's layer (@whiteouts set) the names that remove
 * something are appended there and are no marks. -EBADMSG when it is damaged.
 */
int local_scan_archive(struct local_scan *scan, struct archive_input *input, const char *name,
	struct strv *whiteouts, struct error *error) _must_check_;

/* Adds the marks of a folder. Links that lead out of it are followed to kernel trees only. */
int local_scan_folder(
	struct local_scan *scan, const char *folder, struct error *error) _must_check_;

/* The same of a folder that is a system's root: no kernel is looked for elsewhere in it. */
int local_scan_root(struct local_scan *scan, const char *folder, struct error *error) _must_check_;

/* Makes the lists of trees and modules from the marks; called once, after the last mark. */
int local_scan_finish(struct local_scan *scan) _must_check_;

/* Is there a mark of this very path? */
bool local_scan_has(const struct local_scan *scan, const char *path);
/* The text of a marked file, or NULL. Borrowed. */
const char *local_scan_text(const struct local_scan *scan, const char *path);

/* The first usable tree of a kernel, or of any with @krel NULL; NULL when there is none. */
const struct local_tree *local_scan_tree(const struct local_scan *scan, const char *krel);
/* Where the kernel's own modules are complete, or NULL. */
const struct local_modules *local_scan_modules(const struct local_scan *scan, const char *krel);

/* Is it lib/modules/<krel>, at any depth? The caller frees *ret_krel, what follows is *ret_rest. */
bool local_scan_split(const char *path, char **ret_krel, const char **ret_rest);

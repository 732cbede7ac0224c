/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files module/running*.c share. */
#pragma once

#include <limits.h>

#include "common/error.h"
#include "module/running.h"

/* A loaded module, with what was found out about it. */
struct loaded {
	struct running_module module;
	struct strv candidates;            /* paths that may be its file, each after its tree */
	size_t *candidate_trees;           /* the tree of each */
	struct elf_module *file;           /* that explains it */
	size_t tree;                       /* whose file it is */
	bool of_kernel;                    /* that file is one of the kernel's own: below kernel/ */
	bool identified;                   /* build_id and srcversion were read */
	bool looked;                       /* whether a file explains it */
	enum proof_option exports_nothing; /* UNKNOWN: not asked, as below */
	enum proof_option listed;          /* its build is that of sources.driver_symvers */
};

/* A folder with lib/modules/<krel>. */
struct tree {
	const char *path;
	int fd;
	bool indexed; /* its files are among the candidates */
	bool walked;  /* also those that depmod knows nothing of */
};

struct running {
	int root_fd;
	struct running_sources sources;
	char krel[65], machine[65], build[65];
	struct kernel_facts facts;
	bool has_facts;
	struct loaded *loaded; /* sorted by name */
	size_t loaded_count;
	struct tree *trees;
	size_t tree_count;
	struct symvers *given;   /* the kernel's, as a build left it */
	struct symvers *part;    /* what was given before the whole was read; or NULL */
	bool given_is_part;      /* only sources.used_symvers were read */
	struct symvers *drivers; /* sources.driver_symvers, or NULL */
	struct symvers *members; /* the exports of sources.modules, by name; or NULL */
	struct symvers *there;   /* what is exported now; borrows from all above */
	struct strv unidentified, modules, builtin, builtin_shown, proprietary, blacklist, keys,
		maybe_keys;
	enum proof_option same_build;
	bool compared;    /* a CRC of the kernel's with one that it took */
	struct error why; /* of same_build == PROOF_NO */
	struct proof_kernel kernel;
};

/* ---- running.c */

/* The loaded module of this name, or NULL. */
struct loaded *running_find_loaded(const struct running *running, const char *name);
/* The state of CONFIG_SECURITY_LOCKDOWN_LSM. A build's facts count for that very build only. */
enum proof_option running_has_lockdown(const struct running *running);
/* A file of a tree, by its path there; NULL where there is none that can be read. */
char *running_read_in_tree(
	const struct running *running, size_t tree, const char *path, size_t *ret_size);
/* Reads the kernel's own symvers in whole, in place of what is there. */
int running_read_whole(struct running *running, struct error *error) _must_check_;

/* ---- running_files.c: 0 or -ENOMEM */

int running_open_trees(struct running *running) _must_check_;
void running_close_trees(struct running *running);
/* Reads what tells a loaded module from another build of it, once. */
void running_identify(const struct running *running, struct loaded *loaded);
/*
 * Finds the file that a loaded module was made of, once; loaded->file stays NULL where there is
 * none. @in_kernel: its path below kernel/ without ".ko" as a symvers has it, or NULL.
 */
int running_explain(
	struct running *running, struct loaded *loaded, const char *in_kernel) _must_check_;
/* Whether the kernel is the build that the symvers are of. */
int running_compare_build(struct running *running) _must_check_;
/* Looks for the files of all that are loaded. */
int running_explain_all(struct running *running) _must_check_;
/*
 * Opens the node's own file of a module of the kernel that an image may hold too. -ENOENT: the node
 * has none of that build.
 */
int running_open_native(const struct running *running, const struct loaded *loaded,
	struct elf_module **ret) _must_check_;
/* ---- running_trust.c: 0 or -ENOMEM */

int running_read_trust(struct running *running) _must_check_;
/*
 * Adds "issuer: serial" of those to the keys that the kernel is shown to have: by a certificate's
 * key id in a keyring, or by a loaded module that it took for signed.
 */
int running_add_signers(struct running *running) _must_check_;

/* ---- sysmodule.c */

/* Gets @symbol, which @owner exports ("vmlinux": it is global there). Non-zero ends the search. */
typedef int kallsyms_listener(void *context, const char *symbol, const char *owner);

/*
 * Calls @listener for each of @symbols that are exported, and returns what it returned last; a
 * negative errno when the file cannot be read.
 */
int kallsyms_search(int root_fd, const struct strv *symbols, kallsyms_listener *listener,
	void *context) _must_check_;

/* running_symbols.c: fills running->there. */
int running_find_exports(struct running *running, struct error *error) _must_check_;

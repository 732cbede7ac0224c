/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that a verb works on: by its release, a lock, or files of the user's; found, locked,
 * fetched and unpacked into the cache. In this order: kernel_find(), kernel_lock(),
 * kernel_open_tree(). On failure context->failure is the exit code.
 */
#pragma once

#include "cli/cached.h"
#include "cli/context.h"
#include "kernels/lint/lint.h"
#include "kernels/local/local.h"
#include "kernels/resolve/lock.h"
#include "kernels/resolve/resolve.h"
#include "kernels/tree/record.h"

/* The kind of NVIDIA modules in a build (KERNEL_MODULE_TYPE of the GPU operator). */
enum nvidia_modules {
	NVIDIA_NONE,
	NVIDIA_OPEN,
	NVIDIA_PROPRIETARY,
};

/* The text of --kernel-module-type; NULL is NVIDIA_NONE, which says nothing. -EINVAL for others. */
int nvidia_modules_parse(
	const char *text, enum nvidia_modules *ret, struct error *error) _must_check_;

/* The user's request. */
struct kernel_request {
	const char *krel;         /* or "newest"; NULL: the lock or the files tell */
	const char *lock;         /* file; no list is asked then */
	const char *bundle;       /* of slipway bundle, which brought the downloads; or NULL */
	const char *compiler;     /* "gcc-12": whatever the evidence says; NULL: by evidence */
	struct strv files;        /* of the user's, as kernels/local/local.h takes them; borrowed */
	const char *files_option; /* that named them, for messages; NULL: --kernel-from */
	bool no_modules;          /* the kernel's own modules are not wanted */
	bool no_os;               /* files that are enough need not be a known distribution's */
	bool for_images;          /* the distribution has to have base images */
	/* Driver sources that are packages, to be locked beside it. */
	bool ofed_package;
	bool nvidia_package;
	enum nvidia_modules nvidia_modules; /* NVIDIA_NONE: open, or whatever the lock has */
};

/* The node, by a bundle of slipway probe among the files. */
struct kernel_node {
	const char *path;          /* of the bundle */
	const struct probe *probe; /* in it; NULL: there is no bundle */
	struct kconfig *config;    /* NULL: the bundle has none; then the record is empty */
	struct kernel_record record;
};

struct kernel {
	struct kernel_request request;
	struct context *context;   /* open; borrowed */
	struct local_kernel local; /* what the files are; count is 0 without any */
	struct kernel_node node;
	struct lock lock;
	struct strv compilers; /* that the distribution's lists have; none when no list was read */
	struct kernel_record record; /* its strings are NULL until kernel_open_tree() */
	bool no_tree;                /* the record is of a probe bundle's configuration alone */
	struct cached tree;
	struct cached modules; /* the kernel's own */
};

void kernel_free(struct kernel *kernel);

/* Is --compiler (NULL: none) a package such as gcc-12? -EINVAL when not. */
int kernel_check_compiler(
	struct context *context, const char *compiler, struct error *error) _must_check_;

/* The option that named the user's files: verify takes them with --kernel, others with
 * --kernel-from.
 */
const char *kernel_files_option(const struct kernel *kernel);

/*
 * Sets the context's architecture by --arch, the release @krel or the lock file @lock (either may
 * be NULL): sources are judged by it before the kernel is found.
 */
void kernel_foresee_arch(struct context *context, const char *krel, const char *lock);

/* Reads the lock file, looks what the files are, and settles the distribution. */
int kernel_find(struct kernel *kernel, struct error *error) _must_check_;

/* Fills the lock by asking the package lists; one that was read from a file is checked. */
int kernel_lock(struct kernel *kernel, struct error *error) _must_check_;

/* Makes the tree, reads its record and locks the compiler that it names. */
int kernel_open_tree(struct kernel *kernel, struct error *error) _must_check_;

/*
 * Without a tree: reads the record from the configuration in a probe bundle, and notes
 * why (@error of what failed). -ENOENT when no bundle has one.
 */
int kernel_open_node(struct kernel *kernel, struct error *error) _must_check_;

/* The user's compiler in place of the kernel's: noted, and kept in the lock. */
void kernel_override_compiler(struct kernel *kernel);

/*
 * Below a tree that was made of rpms: which packages their headers require to compile with them, a
 * line each.
 */
#define KERNEL_REQUIRES_FILE "requires"

/* The two outputs, made where they are not in the cache. The caller closes the descriptor. */
int kernel_tree(struct kernel *kernel, int *ret_fd, struct error *error) _must_check_;
int kernel_modules(struct kernel *kernel, int *ret_fd, struct error *error) _must_check_;

/* The keys of the two outputs, and how each is made: for a build, which has them as stages. */
void kernel_set_keys(struct kernel *kernel);
struct cached_maker kernel_tree_maker(struct kernel *kernel);
struct cached_maker kernel_modules_maker(struct kernel *kernel);

/* Makes the locked packages of one purpose (NULL: all) present in the cache, with progress. */
int kernel_fetch(struct kernel *kernel, const char *purpose, struct error *error) _must_check_;
/* Adds the locked packages of one purpose to a key. */
void kernel_add_packages(const struct kernel *kernel, const char *purpose, struct hash *hash);

/* The findings about it, with these drivers in mind. The caller frees them. */
struct kernel_purpose {
	bool ofed;
	bool nvidia;
	bool signing;
	/* Its build root has a cross compiler; false: by the catalogue of its own distribution. */
	bool cross;
};
int kernel_lint(struct kernel *kernel, const struct kernel_purpose *purpose, struct lint *ret,
	struct error *error) _must_check_;

#define KERNEL_SYMVERS_LIMIT ((size_t) 64 << 20) /* of a Module.symvers in a bundle */

/*
 * Reads the first bundle of a probe into kernel->node: kernel_find() does, and tests, which name
 * files themselves. -EBADMSG or -EINVAL when it is damaged.
 */
int kernel_read_node(struct kernel *kernel, struct error *error) _must_check_;

/* The packages that a build needs beside a kernel's: the driver sources that are packages. */
struct extras {
	struct resolve_extra *items;
	size_t count;
	struct strv names; /* that the items borrow */
};

/*
 * Lists them: for the reference OFED, and for NVIDIA's modules with the userspace of their version.
 * -EINVAL when the distribution has no such packages. The caller frees it.
 */
int extras_list(const char *data, const struct catalogue *os, bool ofed, bool nvidia,
	enum nvidia_modules modules, struct extras *ret, struct error *error) _must_check_;
void extras_free(struct extras *extras);

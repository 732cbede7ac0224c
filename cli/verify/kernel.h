/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel that modules are judged for: what --kernel and --with name, as the proof wants it.
 * What nothing says stays unknown, and the proof says so where it matters.
 */
#pragma once

#include <stdbool.h>

#include "cli/kernel/kernel.h"
#include "cli/verify/input.h"
#include "kernels/probe/probe.h"
#include "kernels/tree/kconfig.h"
#include "kernels/tree/record.h"
#include "module/proof.h"
#include "module/running.h"
#include "module/symvers.h"

/* --- what --kernel names --- */

enum verify_kernel_kind {
	VERIFY_KERNEL_FOLDER,  /* a tree, a build folder, lib/modules/<krel> or a record: read in
				  place */
	VERIFY_KERNEL_RELEASE, /* a release: found and fetched */
	VERIFY_KERNEL_FILES,   /* packages, an archive or a probe bundle: as --kernel-from */
};

/* Several texts are files of one kernel, and perhaps its release. -EINVAL for a path that is not
 * there. */
int verify_kernel_identify(
	const struct strv *texts, enum verify_kernel_kind *ret, struct error *error) _must_check_;

/* Where a kernel's parts are. Descriptors are -1 for what is not there. */
struct verify_place {
	char *krel;     /* NULL: not known */
	int root_fd;    /* holds lib/modules/<krel> */
	int build_fd;   /* the build folder: Module.symvers, .config */
	int modules_fd; /* lib/modules/<krel>, with the kernel's own modules */
	char *record;   /* path of record.json, or NULL */
	char *symvers;  /* path of a Module.symvers that is all there is, or NULL */
};

#define VERIFY_PLACE_CLOSED                                                                        \
	{                                                                                          \
		.root_fd = -1, .build_fd = -1, .modules_fd = -1                                    \
	}

/*
 * Finds the parts of what lies in the file or folder @path. @krel, or NULL, picks
 * one of several kernels. -EINVAL for what is no kernel, -ENOTUNIQ when there are several.
 */
int verify_place_find(const char *path, const char *krel, struct verify_place *ret,
	struct error *error) _must_check_;
void verify_place_close(struct verify_place *place);

/* --- the kernel --- */

struct verify_kernel {
	struct proof_kernel facts; /* borrows from what follows */
	char *krel;
	char *vermagic;
	char *vermagic_source;       /* for people: a module's path, "the configuration" */
	struct symvers *symvers;     /* the kernel's, and over them those of --with */
	struct symvers *with;        /* the latter alone */
	struct strv symvers_sources; /* for people */
	size_t symvers_count;
	struct strv modules; /* names ('_') of the kernel's own, built-in ones too */
	struct strv builtin;
	bool has_modules;        /* the lists above were filled */
	struct verify_input own; /* their files */
	struct strv keys;        /* that a probe bundle lists */
	const char *enforced_by;
	int modules_fd;    /* own.fd where there are such files or lists, else -1 */
	struct strv notes; /* what could not be had, for people */
};

#define VERIFY_KERNEL_CLOSED                                                                       \
	{                                                                                          \
		.modules_fd = -1, .own = VERIFY_INPUT_CLOSED                                       \
	}

/* Reads all that @place has into @kernel, which is VERIFY_KERNEL_CLOSED before. */
int verify_kernel_read(struct verify_kernel *kernel, const struct verify_place *place,
	struct error *error) _must_check_;

/*
 * The same for a release ("newest" too) or files that are one kernel's, in the way of `slipway
 * lint`: through the cache, of @found's context. On failure its failure is the exit code.
 */
int verify_kernel_fetch(struct verify_kernel *kernel, struct kernel *found,
	const struct strv *texts, struct error *error) _must_check_;

/* Takes options, vermagic and machine of a configuration's record. */
void verify_kernel_take_record(struct verify_kernel *kernel, const struct kernel_record *record);

/*
 * What is known of all kernels of release @krel that a distribution makes: whether
 * they take a symbol without a version.
 */
void verify_kernel_take_os(
	struct verify_kernel *kernel, const struct catalogue *os, const char *krel);

/* What the node of a probe demands, wherever the headers are from. */
void verify_kernel_take_node(struct verify_kernel *kernel, const struct probe *probe);

/*
 * Adds what --with names: Module.symvers files and the exports of modules, each of
 * which takes the place of the kernel's module of that name. The input was opened.
 */
int verify_kernel_add_with(struct verify_kernel *kernel, const struct verify_input *input,
	struct error *error) _must_check_;

/*
 * After --with: what exports anything is there as well, for "depends". Without the list of the
 * kernel's own modules the proof asks the symvers itself.
 */
void verify_kernel_name_exporters(struct verify_kernel *kernel);

/* After the last addition: points facts at all that was gathered. */
void verify_kernel_finish(struct verify_kernel *kernel);
void verify_kernel_free(struct verify_kernel *kernel);

/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what explain compares with: a module, the node's kernel, and what is loaded before. */
#pragma once

#include "cli/explain/explain.h"
#include "cli/verify/kernel.h"
#include "cli/verify/trust.h"

struct explain_sources {
	const char *module_path; /* or NULL */
	struct strv kernels;     /* as of slipway verify; a Module.symvers alone too */
	struct strv with;
	struct strv trust; /* certificates */
	/* Its options.common are the verb's; its context is open where explain_needs_cache(). */
	struct kernel *found; /* of verify_kernel_fetch() */
};

struct explain_opened {
	struct explain_witness witness; /* borrows from what follows */
	struct elf_module *module;
	char *unreadable;
	char *signature;
	char *judged;
	struct verify_trust trust;
	struct verify_kernel kernel; /* with what --with names */
	struct verify_kernel with;   /* that alone */
	struct proof proof;
};

#define EXPLAIN_CLOSED                                                                             \
	{                                                                                          \
		.kernel = VERIFY_KERNEL_CLOSED, .with = VERIFY_KERNEL_CLOSED, .trust = {           \
			.modules_fd = -1                                                           \
		}                                                                                  \
	}

/* Has anything to be fetched, unpacked or asked of buildah? */
bool explain_needs_cache(const struct explain_sources *sources);

/*
 * @opened is EXPLAIN_CLOSED before, and is to be closed whatever this returns. @sources outlives
 * it.
 */
int explain_open(struct explain_opened *opened, const struct explain_sources *sources,
	struct error *error) _must_check_;

/*
 * explain_signature.c: the module's signature in words, and what the certificates say of it. After
 * the kernel was read. -EINVAL for a file of --trust that is no certificate.
 */
int explain_read_signature(struct explain_opened *opened, const struct explain_sources *sources,
	struct error *error) _must_check_;
void explain_close(struct explain_opened *opened);

/*
 * Asks the load proof, where module and kernel are at hand. What @explanation has of signatures
 * shows that the kernel insists on them.
 */
int explain_prove(struct explain_opened *opened, const struct explanation *explanation,
	struct error *error) _must_check_;

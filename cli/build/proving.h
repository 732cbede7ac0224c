/* SPDX-License-Identifier: Apache-2.0 */
/* The module sets of a build as one set of the load proof: what the nodes will load together. */
#pragma once

#include "cli/build/build.h"
#include "cli/verify/kernel.h"
#include "module/proof_set.h"

struct proving {
	const struct build *build;
	struct strv paths;           /* of OFED's modules, then of NVIDIA's */
	size_t ofed_count;           /* how many are OFED's */
	struct elf_module **modules; /* NULL for what cannot be opened */
	struct proof_member *members;
	struct strv options;
	struct strv firmware; /* folders below which a module's firmware may be */
	struct verify_kernel kernel;
	struct proof_set set; /* run, after proving_run() */
};

#define PROVING_CLOSED                                                                             \
	{                                                                                          \
		.kernel = VERIFY_KERNEL_CLOSED                                                     \
	}

/*
 * Opens the modules of the build's sets and proves them for its kernel. A bad verdict is no error.
 * @ret is PROVING_CLOSED before; the caller frees it with proving_free(), also after a failure.
 */
int proving_run(const struct build *build, struct proving *ret, struct error *error) _must_check_;
void proving_free(struct proving *proving);

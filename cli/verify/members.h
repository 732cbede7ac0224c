/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of all inputs as members of one set, opened by several threads. */
#pragma once

#include "cli/verify/input.h"
#include "module/proof_set.h"

struct verify_members {
	struct proof_member *items;         /* for proof_set.members */
	struct elf_module **modules;        /* of each; NULL where it could not be opened */
	const struct verify_input **inputs; /* of each */
	char **paths;                       /* as people see them */
	size_t count;
	struct elf_pool **pools; /* that the modules lie in */
	size_t pool_count;
};

/*
 * Opens all. A file that is no module is a member with a verdict by @kernel, no failure: only
 * -ENOMEM is. The caller frees it after proof_set_free().
 */
int verify_members_open(const struct verify_input *inputs, size_t input_count,
	const struct proof_kernel *kernel, unsigned int jobs, struct verify_members *ret,
	struct error *error) _must_check_;
void verify_members_free(struct verify_members *members);

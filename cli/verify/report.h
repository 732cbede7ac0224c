/* SPDX-License-Identifier: Apache-2.0 */
/* What was proven, for people and for programs. docs/verify.md has the schema of the JSON. */
#pragma once

#include <stdio.h>

#include "cli/verify/kernel.h"
#include "cli/verify/members.h"

struct verify_report {
	const struct verify_kernel *kernel;
	const struct verify_input *inputs;
	size_t input_count;
	const struct verify_members *members;
	const struct proof_set *set;
	int exit_code;
	bool order; /* print the order too */
	bool all;   /* fold nothing */
};

/* table.c */
int verify_print(const struct verify_report *report, FILE *file) _must_check_;

/* report_json.c: one object; -ENOMEM. */
int verify_print_json(const struct verify_report *report, FILE *file) _must_check_;

/* Does the kernel compare CRCs? With what is known of it. */
static inline bool verify_has_versions(const struct verify_report *report)
{
	return proof_kernel_has_modversions(&report->kernel->facts);
}

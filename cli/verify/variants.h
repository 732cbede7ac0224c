/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of an image with several nvidia-peermems (KERNEL_FACTS_PEERMEM), the one that a node will take:
 * that which fits the OFED among the inputs.
 */
#pragma once

#include "cli/verify/input.h"

/*
 * Puts it in the place of the one that is installed, in input->modules. @others: all that may bring
 * an OFED; those without a name were not opened. Nothing is done where there is no OFED, or where
 * none fits: then the installed one is judged.
 */
int verify_variants_choose(struct verify_input *input, const char *krel,
	const struct verify_input *others, size_t count) _must_check_;

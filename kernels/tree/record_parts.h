/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make a record share; record.h is for everyone else. */
#pragma once

#include "kernels/tree/record.h"

/* All that a configuration tells. @compiler_text is used where that has none; may be NULL. */
int record_fill(struct kernel_record *record, const struct kconfig *config, const char *krel,
	const char *compiler_text, struct error *error) _must_check_;

/* "gcc-12" of gcc and "12.2.0", freed by the caller; NULL without memory. */
char *kernel_compiler_name(const char *family, const char *version);

/* Gives "" to every string that is NULL. */
int record_fill_empty(struct kernel_record *record) _must_check_;

/*
 * record_vermagic.c: what the kernel compares with a module's vermagic: from one of the kernel's
 * own modules below the root where there is one, else from the configuration as the tree's own
 * linux/vermagic.h wants it. Both descriptors may be -1.
 */
int record_compute_vermagic(
	struct kernel_record *record, int root_fd, int build_fd, struct error *error) _must_check_;

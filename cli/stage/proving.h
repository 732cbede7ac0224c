/* SPDX-License-Identifier: Apache-2.0 */
/* The module sets of a build as one set of the load proof: what the nodes will load together. */
#pragma once

#include "cli/stage/build.h"
#include "cli/verify/firmware.h"
#include "cli/verify/kernel.h"
#include "cli/verify/members.h"
#include "module/proof_set.h"

#define PROVING_INPUTS 5 /* OFED's set, NVIDIA's, the two bound to it, the userspace's firmware */

struct proving {
	const struct build *build;
	struct verify_kernel kernel;
	struct verify_input inputs[PROVING_INPUTS];
	size_t input_count;
	const struct verify_input *ofed;   /* NULL: there is no such set */
	const struct verify_input *nvidia; /* likewise */
	struct verify_members members;
	struct verify_firmware firmware;
	struct strv options;  /* of the sets' modprobe.d */
	struct proof_set set; /* run, after proving_run() */
};

#define PROVING_CLOSED                                                                             \
	{                                                                                          \
		.kernel = VERIFY_KERNEL_CLOSED                                                     \
	}

/*
 * Opens the modules of the build's sets and proves them for its kernel. A bad verdict is no error.
 * @ret is PROVING_CLOSED before, and may not be moved after; the caller frees it with
 * proving_free(), also after a failure.
 */
int proving_run(const struct build *build, struct proving *ret, struct error *error) _must_check_;
void proving_free(struct proving *proving);

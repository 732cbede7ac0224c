/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `slipway verify`: what was asked, and all that is opened for it. */
#pragma once

#include "cli/kernel/kernel.h"
#include "cli/verify/kernel.h"
#include "cli/verify/members.h"
#include "cli/verify/trust.h"
#include "module/running.h"

struct verify {
	struct common_options common;
	struct context context;
	struct kernel found; /* for verify_kernel_fetch() */
	struct strv what;
	struct strv with;
	struct strv trust_files;
	struct strv kernels; /* --kernel; none with running */
	bool running;
	bool enforce;
	bool order;
	bool all;
	unsigned int jobs;

	enum verify_kernel_kind kernel_kind;
	struct verify_input *inputs; /* of what */
	size_t input_count;
	struct verify_input *withs; /* of with; those that are symvers files are not opened */
	size_t with_count;

	struct verify_kernel kernel;
	struct running *now;
	struct verify_trust trust;
	struct verify_members members;
	struct strv options; /* of modprobe.d */
	struct proof_set set;
	enum exit_code failure; /* where the errno does not tell */
};

#define VERIFY_CLOSED                                                                              \
	{                                                                                          \
		.context = CONTEXT_CLOSED, .kernel = VERIFY_KERNEL_CLOSED, .trust = {              \
			.modules_fd = -1                                                           \
		}                                                                                  \
	}

/* Tells what everything on the command line is, before any work. -EINVAL with what is wrong. */
int verify_tell(struct verify *verify, struct error *error) _must_check_;

/* Has anything to be unpacked, fetched or asked of buildah? */
bool verify_needs_cache(const struct verify *verify);

/* All of it, and the report on stdout. *ret_code is the exit code of a verdict. */
int verify_run(struct verify *verify, int *ret_code, struct error *error) _must_check_;
void verify_close(struct verify *verify);

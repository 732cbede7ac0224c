/* SPDX-License-Identifier: Apache-2.0 */
/* For those who read the signatures of thousands of modules, most of which are of one signer. */
#pragma once

#include "common/arena.h"
#include "module/cms.h"

/* What the last message said; zeroed, nothing. Messages of one signer differ in one value alone. */
struct cms_memo {
	const struct cms_facts *facts;
	const void *start; /* what was in front of the signature's value, which comes last */
	size_t start_size;
	size_t size; /* of the message */
};

/* As cms_read(); what @memo and *@ret have lies in @memory, the caller's. Also -ENOMEM. */
int cms_read_alike(struct cms_memo *memo, const void *data, size_t size, size_t offset,
	struct arena *memory, const struct cms_facts **ret, struct error *error) _must_check_;

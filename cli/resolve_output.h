/* SPDX-License-Identifier: Apache-2.0 */
/* What `slipway resolve` says: on stdout the answer, on stderr warnings and why there is none. */
#pragma once

#include "cli/exit_code.h"
#include "kernels/resolve/resolve.h"

struct resolve_result {
	struct resolve_answer answer;
	struct strv releases; /* of --list */
	const char *os;       /* for people; NULL when it is not known */
	bool is_list;
	bool is_written; /* the lock itself is on stdout */
	bool explain;
	enum exit_code exit_code;
};

void resolve_output_text(const struct resolve_result *result, const struct error *error);
/* One object: docs/lock.md. */
void resolve_output_json(const struct resolve_result *result, const struct error *error);

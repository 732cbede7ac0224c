/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/reasons.md, which the programs have in them: why a driver container stops. A section
 * "### CODE (exit code)" has the reason in its paragraphs, what its message may say in its list,
 * and the cure after "Cure:". The texts come without Markdown, each in one line.
 */
#pragma once

#include "common/strv.h"

struct reason_text {
	char *section; /* the next three point into it */
	const char *code;
	const char *because; /* "" if the section has no paragraph */
	const char *cure;    /* NULL: it is in the details, or there is nothing to do */
	struct strv details;
	int exit_code; /* of the container */
};

/*
 * Reads the section at *position, which is 0 for the first one, and moves it behind that. Returns
 * 1, 0 after the last section, or -ENOMEM.
 */
int reason_text_next(size_t *position, struct reason_text *ret) _must_check_;
void reason_text_free(struct reason_text *text);
#define _cleanup_reason_text_ _cleanup_(reason_text_free)

/* SPDX-License-Identifier: Apache-2.0 */
/* Every place that was looked in for a kernel, and why it was or was not there: for --explain. */
#pragma once

#include "common/error.h"

enum trace_outcome {
	TRACE_FOUND,
	TRACE_ABSENT,  /* asked, and not there */
	TRACE_SKIPPED, /* not asked: no mirror is known, or an earlier place had it */
	TRACE_FAILED,  /* could not be asked */
};

struct trace_entry {
	enum trace_outcome outcome;
	char *repository; /* the catalogue's name of it; "" for what is about all */
	char *url;        /* "" where there is none */
	char *text;       /* what was looked for and what was there instead */
};

struct trace {
	struct trace_entry *entries;
	size_t count;
};

/* Appends an entry; copies all texts. A trace of NULL takes nothing. */
int trace_add(struct trace *trace, enum trace_outcome outcome, const char *repository,
	const char *url, const char *format, ...) _printf_(5, 6) _must_check_;
void trace_free(struct trace *trace);
/* "found", "absent", "skipped", "failed". */
const char *trace_outcome_text(enum trace_outcome outcome);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a kernel by its record and by what is to be built for it, before minutes of compiling.
 * Each finding has a stable id; slipway-lint(1) explains all of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/probe/probe.h"
#include "kernels/tree/record.h"

enum lint_severity {
	LINT_NOTE,
	LINT_WARNING,
	LINT_ERROR, /* it cannot come to a good end: the build stops */
};

/* The node, by a bundle of slipway probe; all of it is borrowed. */
struct lint_node {
	const struct probe *probe;
	const struct kernel_record *record; /* by the node's configuration; NULL: not known */
	size_t symvers_count;               /* symbols that the node's Module.symvers has */
	size_t symvers_differing;           /* with another CRC than in the tree, or not in it */
	const char *symvers_first;          /* the first of those */
};

struct lint_request {
	const char *os;               /* whose images are made: "debian12" */
	const char *machine_arch;     /* of this machine, as uname -m prints it */
	bool cross;                   /* the build root can have a cross compiler */
	const struct strv *compilers; /* that the os's lists have: "gcc-12"; NULL: not known */
	const char *compiler; /* that the user wants instead of the kernel's: "gcc-13"; or NULL */
	bool ofed;
	bool nvidia;
	bool signing; /* the modules will be signed */
	bool no_tree; /* the record is of a configuration alone: no tree was found */
	const struct lint_node *node; /* NULL: no bundle of a probe is there */
};

struct lint_finding {
	const char *id; /* static */
	enum lint_severity severity;
	char *reason;
	const char *fix; /* static */
};

struct lint {
	struct lint_finding *findings; /* worst first, then by id */
	size_t count;
};

/* Applies all rules. The caller frees the result with lint_free(). */
void lint_run(
	const struct kernel_record *record, const struct lint_request *request, struct lint *ret);
void lint_free(struct lint *lint);

size_t lint_count(const struct lint *lint, enum lint_severity severity);

/* The findings as an array of json-c, for what holds them as a part. */
struct json_object *lint_json(const struct lint *lint);

/* "note", "warning", "error". */
const char *lint_severity_text(enum lint_severity severity);

/* SPDX-License-Identifier: Apache-2.0 */
/* From lines of logs to what was wrong with a build: `slipway explain` without its printing. */
#pragma once

#include "cli/explain/explain_table.h"
#include "common/error.h"
#include "common/strv.h"
#include "module/elf_module.h"
#include "module/symvers.h"

struct explain_finding {
	const struct explain_entry *entry;
	enum explain_input input; /* EXPLAIN_SYMBOL: none is named, so its owner is not known */
	char *module;             /* as the kernel has it; "" when no line names it */
	struct strv symbols;
	struct strv lines; /* as given */
	char *because;
	char *remedy;
	struct strv evidence; /* finished sentences */
	bool joined;          /* another finding tells more of the same */
};

struct explanation {
	struct explain_finding *items;
	size_t count;
	size_t lines;   /* not empty ones */
	size_t unknown; /* of them: not in the table */
};

/* Takes one line, without its '\n'. 0 or -ENOMEM. */
int explain_add_line(struct explanation *explanation, const char *line) _must_check_;

/* Joins what belongs together, those that tell most first; call it once, after the last line. */
void explain_finish(struct explanation *explanation);
void explain_free(struct explanation *explanation);

/* What there is to compare with; each may be NULL. */
struct explain_witness {
	const char *module_path;
	const struct elf_module *module;
	const char *signature; /* a sentence about the module's signature */
	const struct symvers *symvers;
};

/* Adds to each finding what the files themselves say. 0 or -ENOMEM. */
int explain_add_evidence(
	struct explanation *explanation, const struct explain_witness *witness) _must_check_;

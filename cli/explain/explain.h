/* SPDX-License-Identifier: Apache-2.0 */
/* From lines of logs to what was wrong with a build: `slipway explain` without its printing. */
#pragma once

#include "cli/explain/explain_table.h"
#include "common/error.h"
#include "common/strv.h"
#include "module/elf.h"
#include "module/proof.h"
#include "module/symvers.h"

/* What is known of the module's signature. */
enum explain_signed {
	EXPLAIN_SIGNED_UNKNOWN, /* there is no module */
	EXPLAIN_UNSIGNED,
	EXPLAIN_SIGNED,    /* no certificate was given to judge it by */
	EXPLAIN_TRUSTED,   /* good by one of those given */
	EXPLAIN_OTHER_KEY, /* of none of those given */
	EXPLAIN_WRONG,     /* malformed, or not of these bytes */
};

/* What there is to compare with; each may be NULL. */
struct explain_witness {
	const char *module_path;
	const struct elf_module *module;
	const char *unreadable; /* why module_path is no module; module is NULL then */
	const char *signature;  /* a sentence about the module's signature */
	const char *judged;     /* another, by the certificates of --trust */
	enum explain_signed signed_state;
	const char *kernel;            /* as --kernel was given */
	const struct symvers *symvers; /* the kernel's, and over them those of --with */
	const struct symvers *with;    /* the latter alone */
	const struct proof *proof;     /* of the module, for that kernel */
};

struct explain_finding {
	const struct explain_entry *entry;
	enum explain_input input; /* EXPLAIN_SYMBOL: none is named, so its owner is not known */
	bool guessed;             /* the input, by the name of a symbol */
	char *module;             /* as the kernel has it; "" when no line names it */
	struct strv symbols;
	struct strv lines; /* as given */
	char *because;
	char *remedy;
	struct strv evidence; /* finished sentences */
	bool joined;          /* another finding tells more of the same */
};

struct explanation {
	const struct explain_witness *witness; /* set before the first line; or NULL */
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

/*
 * Adds to each finding what the files themselves say, and lets the load proof decide where a
 * message tells only that it failed. After explain_finish(). 0 or -ENOMEM.
 */
int explain_add_evidence(struct explanation *explanation) _must_check_;

/* explain_proof.c: the load proof's share of that, for a finding about the witness's module. */
int explain_add_proof(
	struct explain_finding *finding, const struct explain_witness *witness) _must_check_;

/*
 * explain_signature.c: what a refused signature means for a module in that state, and what to do;
 * NULL where that is not known.
 */
const char *explain_signature_cause(enum explain_signed state);
const char *explain_signature_remedy(enum explain_signed state);

/*
 * Says instead of the finding's own remedy that the files at hand fit each other, so that what the
 * node has is to be compared with them. 0 or -ENOMEM.
 */
int explain_blame_node(struct explain_finding *finding) _must_check_;

/* What to do about an input, where the message itself does not say. */
const char *explain_remedy_for(enum explain_input input);

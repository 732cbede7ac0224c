/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people, between its files: table.c, table_rows.c and table_reasons.c. */
#pragma once

#include "cli/verify/report.h"

struct table_row {
	const struct proof_member *member;
	const struct verify_input *input;
	char *name;  /* of the module: from the file's own name where it tells none */
	char *label; /* the name; of two of one name with where each is from */
	bool own;    /* the kernel's own module, by what it says of itself: MODULE_INFO(intree) */
};

struct table {
	const struct verify_report *report;
	FILE *file;
	struct table_row *rows; /* of all members: others before the kernel's own, then by name */
	size_t row_count;
	const char **inputs; /* of each input the end of its name that is nobody else's */
	bool exports_known;  /* something tells what the kernel itself exports */
};

/* table_rows.c: -ENOMEM. The caller frees it in whatever case. */
int table_open(const struct verify_report *report, FILE *file, struct table *table) _must_check_;
void table_close(struct table *table);

/* A line a module, worst first. */
void table_print_rows(const struct table *table);

/* table_reasons.c: each reason once, with its cure. -ENOMEM. */
int table_print_reasons(const struct table *table) _must_check_;

/* A doubt that is there only because nothing tells what the kernel exports. */
bool table_is_unknown_symbol(const struct table *table, const struct proof_finding *finding);

/* The text without "name: " where a column or line says the name already. */
const char *table_text(const struct proof_finding *finding, const struct table_row *row);

/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of slipway: a function each, and the table of its options. */
#pragma once

#include "cli/options.h"

int build_command(char **argv);
int bundle_command(char **argv);
int cache_command(char **argv);
int combine_command(char **argv);
int completion_command(char **argv);
int explain_command(char **argv);
int index_command(char **argv);
int export_command(char **argv);
int lint_command(char **argv);
int node_build_command(char **argv);
int plan_command(char **argv);
int probe_command(char **argv);
int resolve_command(char **argv);
int sign_command(char **argv);
int verify_command(char **argv);

extern const struct option_table build_options, bundle_options, cache_options, combine_options,
	completion_options, explain_options, export_options, index_options, lint_options,
	node_build_options, plan_options, probe_options, resolve_options, sign_options,
	verify_options;

struct verb_row {
	const char *name;
	int (*run)(char **argv); /* @argv[0] is the verb. Returns an exit code */
	const struct option_table *options;
	const char *text; /* in slipway --help */
};

/* All of them, as slipway --help lists them; one without a name ends them. */
extern const struct verb_row verb_rows[];
/* NULL: there is none. */
const struct verb_row *verb_find(const char *name);

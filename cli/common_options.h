/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs have in common on their command lines: one parser, one text of help. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"
#include "common/strv.h"

struct common_options {
	const char *os;       /* NULL: guessed from the kernel release */
	const char *arch;     /* as uname -m prints it; NULL: this machine's */
	struct strv mirrors;  /* each --mirror as given */
	const char *keyring;  /* absolute or as given; NULL: the catalogue's */
	const char *snapshot; /* NULL: none */
	const char *cache;    /* NULL: the default */
	bool allow_unsigned;
	bool allow_expired;
	bool offline;
	bool refresh;
	bool json;
	bool help;
};

/* Values of the common options in getopt_long(3); a verb's own start at COMMON_OPTION_END. */
enum common_option_value {
	COMMON_OPTION_OS = 256,
	COMMON_OPTION_ARCH,
	COMMON_OPTION_MIRROR,
	COMMON_OPTION_KEYRING,
	COMMON_OPTION_ALLOW_UNSIGNED,
	COMMON_OPTION_ALLOW_EXPIRED,
	COMMON_OPTION_SNAPSHOT,
	COMMON_OPTION_CACHE,
	COMMON_OPTION_OFFLINE,
	COMMON_OPTION_REFRESH,
	COMMON_OPTION_JSON,
	COMMON_OPTION_END,
};

/* A verb's command line. */
struct option_parser {
	const struct option *own; /* ends with an entry of zeros; values from COMMON_OPTION_END */
	const char *short_own;    /* "o:" for -o VALUE, which comes as 'o'; "" for none */
	/* Takes an option of @own. -EINVAL with what is wrong. */
	int (*take)(void *context, int option, char *value, struct error *error);
	/* Takes an argument that is no option; NULL: there is none. */
	int (*take_argument)(void *context, char *argument, struct error *error);
	void *context;
	bool local; /* of the common options only --json and --help: it asks no mirror or cache */
};

/*
 * Parses the command line of a verb: @argv[0] is the verb. Borrows from @argv. -EINVAL with what is
 * wrong. The caller frees @ret with common_options_free(), also after a failure.
 */
int common_options_parse(int argc, char **argv, const struct option_parser *parser,
	struct common_options *ret, struct error *error) _must_check_;
void common_options_free(struct common_options *options);

/* The common options' lines of --help. */
void common_options_usage(FILE *file);

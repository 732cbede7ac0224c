/* SPDX-License-Identifier: Apache-2.0 */
/* slipway: from the command line to a verb. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/message.h"
#include "common/slipway_version.h"
#include "common/nearest.h"
#include "common/text.h"

static void usage(FILE *file)
{
	(void) fputs("Usage: slipway VERB [options]\n"
		     "\n"
		     "Builds driver images for the exact kernel that a node runs.\n"
		     "\n"
		     "Verbs:\n",
		file);
	for (const struct verb_row *row = verb_rows; row->name; row++)
		(void) fprintf(file, "  %-10s %s\n", row->name, row->text);
	(void) fprintf(file,
		"\n"
		"  slipway VERB --help   show the options of a verb\n"
		"  slipway version\n"
		"\n"
		"Options of all verbs (--json, --cache, --offline, -q, -v …) may stand before the "
		"verb.\n"
		"Exit codes are listed in slipway(1)%s\n",
		message_is_installed() ? "" : ", in the source tree docs/man/slipway.1.scd");
}

static int no_such_verb(const char *name)
{
	static const char *const on_nodes[] = { "status", "topo" };
	_cleanup_strv_ struct strv names = { 0 };
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(on_nodes); i++)
		if (strcmp(name, on_nodes[i]) == 0) {
			text_print(stderr,
				"slipway: %s: a node's containers answer that: kubectl exec POD -- "
				"slipway-init %s\n",
				name, name);
			return EXIT_CODE_USAGE;
		}
	if (name[0] == '-') {
		text_print(stderr,
			"slipway: %s: no such option before a verb; put a verb's own options "
			"behind it; slipway --help lists the verbs\n",
			name);
		return EXIT_CODE_USAGE;
	}
	for (const struct verb_row *row = verb_rows; row->name; row++)
		if (strv_push(&names, row->name) < 0)
			break;
	near = nearest_word(&names, name);
	text_print(stderr, "slipway: %s: no such verb%s%s%s; slipway --help lists them\n", name,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return EXIT_CODE_USAGE;
}

/* slipway help VERB */
static int help(char *name)
{
	char option[] = "--help";
	char *words[] = { name, option, NULL };
	const struct verb_row *verb = verb_find(name);

	return verb ? verb->run(words) : no_such_verb(name);
}

/* slipway OPTION… VERB: the options move behind the verb. False: there is none. */
static bool verb_first(char **argv)
{
	size_t options = options_count_common(argv);
	char *verb = argv[options];

	if (options == 1 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
		return true;
	if (!verb)
		return false;
	memmove(argv + 1, argv, options * sizeof(*argv));
	argv[0] = verb;
	return true;
}

static int run(int argc, char **argv)
{
	const struct verb_row *verb;

	if (argc < 2) {
		usage(stderr);
		return EXIT_CODE_USAGE;
	}
	if (!verb_first(argv + 1)) {
		text_print(stderr, "slipway: the verb is missing; slipway --help lists them\n");
		return EXIT_CODE_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		(argc == 2 && strcmp(argv[1], "help") == 0)) {
		usage(stdout);
		return EXIT_CODE_OK;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		(void) puts("slipway " SLIPWAY_VERSION);
		return EXIT_CODE_OK;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2)
		return help(argv[2]);
	verb = verb_find(argv[1]);
	return verb ? verb->run(argv + 1) : no_such_verb(argv[1]);
}

int main(int argc, char **argv)
{
	return message_end(run(argc, argv));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* slipway: the verbs and nothing else. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/slipway_version.h"
#include "common/nearest.h"
#include "common/text.h"

static const struct {
	const char *name;
	int (*run)(char **argv);
	const struct option_table *options;
	const char *text;
} verbs[] = {
	{ "resolve", resolve_command, &resolve_options,
		"find the packages of a kernel release, and lock them" },
	{ "lint", lint_command, &lint_options, "say what stands against building for a kernel" },
	{ "build", build_command, &build_options, "build both driver images for a kernel release" },
	{ "combine", combine_command, &combine_options,
		"make one GPU image for several kernels or OFEDs of several images" },
	{ "verify", verify_command, &verify_options,
		"say whether modules or images will load on a kernel" },
	{ "explain", explain_command, &explain_options,
		"say what was wrong with a build, from an error of insmod or dmesg" },
	{ "sign", sign_command, &sign_options, "sign a folder of kernel modules" },
	{ "bundle", bundle_command, &bundle_options,
		"write one file that builds need, for where there is no network" },
	{ "cache", cache_command, &cache_options,
		"list, prune or verify downloads and finished steps" },
	{ "probe", probe_command, &probe_options,
		"collect on a node what a build for it has to know" },
	{ "node-build", node_build_command, &node_build_options,
		"compile a driver on the node, in an image that can" },
};

static void usage(FILE *file)
{
	(void) fputs("Usage: slipway VERB [options]\n\n"
		     "Driver images for the kernel that a node really runs.\n\nVerbs:\n",
		file);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		(void) fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].text);
	(void) fputs("\n  slipway VERB --help   a verb's options\n"
		     "  slipway --version\n\n"
		     "Exit codes: slipway(1), in the sources docs/man/slipway.1.scd\n",
		file);
}

/* -1: none of them */
static int find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(name, verbs[i].name) == 0)
			return (int) i;
	return -1;
}

static int no_such_verb(const char *name)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *near;

	if (name[0] == '-') {
		text_print(stderr,
			"slipway: %s: no such option before a verb; slipway --help lists the verbs\n",
			name);
		return EXIT_CODE_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strv_push(&names, verbs[i].name) < 0)
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
	int verb = find_verb(name);

	return verb < 0 ? no_such_verb(name) : verbs[verb].run(words);
}

/* For scripts/completions and the check of the man pages: of the verbs first. */
static void dump_options(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		(void) printf("\t%s\t\t\t%s\n", verbs[i].name, verbs[i].text);
	(void) printf("\t--help\t-h\t\tthis text\n\t--version\t\t\tits version\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		options_dump(verbs[i].options);
}

int main(int argc, char **argv)
{
	int verb;

	if (argc < 2) {
		usage(stderr);
		return EXIT_CODE_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		(argc == 2 && strcmp(argv[1], "help") == 0)) {
		usage(stdout);
		return EXIT_CODE_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		(void) puts("slipway " SLIPWAY_VERSION);
		return EXIT_CODE_OK;
	}
	if (strcmp(argv[1], "--dump-options") == 0) {
		dump_options();
		return EXIT_CODE_OK;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2)
		return help(argv[2]);
	verb = find_verb(argv[1]);
	return verb < 0 ? no_such_verb(argv[1]) : verbs[verb].run(argv + 1);
}

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
	{ "lint", lint_command, &lint_options, "check a kernel for problems before building" },
	{ "build", build_command, &build_options,
		"build the NIC and GPU driver images for a "
		"kernel release" },
	{ "combine", combine_command, &combine_options,
		"merge GPU images for several kernels or OFED versions" },
	{ "verify", verify_command, &verify_options,
		"check whether modules or images will load on a kernel" },
	{ "explain", explain_command, &explain_options,
		"find out why a module did not load, from what insmod or dmesg says" },
	{ "sign", sign_command, &sign_options, "sign a folder of kernel modules" },
	{ "bundle", bundle_command, &bundle_options,
		"pack everything a build needs into one file, for sites without a network" },
	{ "cache", cache_command, &cache_options,
		"list, prune or verify cached downloads and build stages" },
	{ "probe", probe_command, &probe_options,
		"collect on a node the facts that a build for it needs" },
	{ "node-build", node_build_command, &node_build_options,
		"compile a driver on the node, in an image made with --sources-image" },
};

static void usage(FILE *file)
{
	(void) fputs("Usage: slipway VERB [options]\n"
		     "\n"
		     "Builds driver images for the exact kernel that a node runs.\n"
		     "\n"
		     "Verbs:\n",
		file);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		(void) fprintf(file, "  %-10s %s\n", verbs[i].name, verbs[i].text);
	(void) fputs("\n"
		     "  slipway VERB --help   show the options of a verb\n"
		     "  slipway --version\n"
		     "\n"
		     "Exit codes are listed in slipway(1), in the source tree "
		     "docs/man/slipway.1.scd\n",
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
			"slipway: %s: no such option before a verb; slipway --help lists the "
			"verbs\n",
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
	(void) printf("\t--help\t-h\t\tshow this help\n"
		      "\t--version\t\t\tshow the version\n");
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Prints which images a cluster's nodes will ask for, and how slipway build makes them. */
#include "cli/commands.h"

#include <string.h>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/fleet/fleet.h"
#include "cli/json.h"
#include "cli/message.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

struct verb {
	struct common_options common;
	const char *nodes;
	struct strv kernels;
	struct strv excludes;
	struct strv arguments; /* behind "--" */
	const char *html;
	bool missing;
	bool check;
	struct fleet_request request;
	/* The results. */
	struct pools pools;
	struct fleet fleet;
	bool unknown; /* the registry could not be asked for all of them */
};

static int take_ofed(void *target, const char *value, struct error *error)
{
	return fleet_add_driver(
		&((struct verb *) target)->request.ofed, "--ofed-version", value, error);
}

static int take_nvidia(void *target, const char *value, struct error *error)
{
	return fleet_add_driver(
		&((struct verb *) target)->request.nvidia, "--nvidia-version", value, error);
}

static int take_kernel(void *target, const char *value, struct error *error)
{
	if (strcmp(value, KREL_NEWEST) != 0 && krel_check(value, error) < 0)
		return -EINVAL;
	xstrv_push(&((struct verb *) target)->kernels, value);
	return 0;
}

static int check(void *target, struct error *error)
{
	/* The plan sets them, build --plan does, or they cannot be given more than once. */
	static const char *const ours[] = { "--output", "--plan", "--target", "--bundle", "--json",
		"--revision", "--registry", "--gpu-operator", "--password-fd", "--os",
		"--os-version", "--arch", "--ofed", "--nvidia", "--kernel" };
	const struct verb *verb = target;
	const struct strv *behind = &verb->arguments;
	int r = 0;

	for (size_t i = 0; i < behind->count; i++) {
		const char *word = behind->items[i];
		bool follows;

		for (size_t j = 0; j < ARRAY_SIZE(ours) && r == 0; j++)
			if (options_is_word(word, ours[j], 0, &follows) ||
				options_is_word(word, "--output", 'o', &follows))
				r = error_set(
					error, -EINVAL, "%s cannot be given to every build", word);
	}
	if (r == 0)
		r = revision_check(verb->request.revision, error);
	return r < 0 ? r : operators_check(&verb->request.operators, error);
}

static const struct option_rule rules[] = {
	{ .needs = "nodes kernel",
		.why = "give the cluster's nodes: kubectl get nodes -o json | slipway plan --nodes "
		       "- …; or a kernel: --kernel KREL" },
	{ .needs = "ofed-version nvidia-version",
		.why = "say for which drivers: --ofed-version VERSION=SRC, --nvidia-version "
		       "VERSION=SRC or both" },
	{ .given = "missing check",
		.needs = "registry",
		.why = "it compares the plan with what a registry has" },
	{ .given = "registry", .refuses = "offline", .why = "it is asked" },
	{ .given = "ahead", .needs = "nodes", .why = "it is about the kernels that nodes run" },
};

#define PLAN_OPTION(name, argument, kind, member, help)                                            \
	OPTION(name, 0, argument, kind, struct verb, member, help)

static const struct option_row rows[] = {
	OPTION_HEADING("Kernels"),
	PLAN_OPTION("nodes", "FILE", OPTION_TEXT, nodes,
		"output of kubectl get nodes -o json; - for stdin"),
	PLAN_OPTION("ahead", NULL, OPTION_FLAG, request.ahead,
		"also the kernel that an update would bring to each of them: the newest of\n"
		"its series and flavour in the distribution's package lists"),
	OPTION_CALL("kernel", 0, "KREL", take_kernel,
		"also this kernel release, or newest; may be repeated"),
	OPTION_HEADING("Drivers, each pair of them"),
	OPTION_CALL("ofed-version", 0, "VERSION[=SRC]", take_ofed,
		"OFED version as in the NicClusterPolicy, and its source as slipway build takes\n"
		"it; without SRC and --sources the plan can be checked, not built; may be\n"
		"repeated"),
	OPTION_CALL("nvidia-version", 0, "VERSION[=SRC]", take_nvidia,
		"version of NVIDIA's driver, and its source; may be repeated"),
	PLAN_OPTION("sources", "DIR", OPTION_LIST, request.sources,
		"where slipway build finds the sources of versions without SRC; may be repeated"),
	PLAN_OPTION("exclude", "GLOB[:NVIDIA-GLOB]", OPTION_LIST, excludes,
		"leave out kernels, or on these the matching NVIDIA drivers; may be repeated"),
	OPTION_HEADING("Images"),
	PLAN_OPTION("revision", "N", OPTION_TEXT, request.revision,
		"the images' revision, as for slipway build: VERSION-N in the tags"),
	PLAN_OPTION("registry", "HOST/FOLDER", OPTION_TEXT, request.operators.registry,
		"the registry that nodes pull from, such as registry.example/drivers: it is\n"
		"asked, by skopeo, which images it has"),
	PLAN_OPTION(
		"missing", NULL, OPTION_FLAG, missing, "leave out builds whose images are there"),
	PLAN_OPTION("check", NULL, OPTION_FLAG, check, "exit with 28 unless all images are there"),
	PLAN_OPTION("gpu-operator", "VERSION", OPTION_TEXT, request.operators.gpu,
		"the GPU operator's version, such as 25.10: only the tag that this one asks\n"
		"for"),
	PLAN_OPTION("html", "FILE", OPTION_TEXT, html, "also write the plan as a page of HTML"),
	OPTION_ARGUMENT("-- OPTION…", "given to every build, such as the options for signing; what "
				      "is\nabout a driver only to builds that include it"),
};

const struct option_table plan_options = {
	.verb = "plan",
	.usage = "Usage: slipway plan --nodes FILE|- [--ahead] --ofed-version V[=SRC] "
		 "--nvidia-version V[=SRC] [options] [-- OPTION…]\n"
		 "       slipway plan --kernel KREL … --ofed-version V[=SRC]|--nvidia-version "
		 "V[=SRC] [options] [-- OPTION…]\n"
		 "\n"
		 "Prints which images the GPU operator and the network operator will ask for on "
		 "the nodes of a\n"
		 "cluster, now and after the next update, and with --json the command lines that "
		 "build them.\n"
		 "\n",
	.examples =
		"  kubectl get nodes -o json | slipway plan --nodes - --ahead \\\n"
		"      --ofed-version 24.07-0.6.1.0=$HOME/mlnx-ofed-kernel \\\n"
		"      --nvidia-version 595.58.03=$HOME/NVIDIA-Linux-x86_64-595.58.03.run\n"
		"  slipway plan --kernel 6.1.0-56-amd64 --nvidia-version 535.261.03=debian --json\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.column = 21,
	.several_archs = true,
	.common = offsetof(struct verb, common),
	.check = check,
};

/* ---- what is printed */

static int widest(int width, const char *text)
{
	int length = (int) strlen(text);

	return length > width ? length : width;
}

struct widths {
	int krel, os, arch, name;
};

static void print_image(
	const struct fleet_image *image, const char *before, const struct widths *widths)
{
	const char *name = strrchr(image->reference, '/') + 1;

	if (strcmp(image->state, FLEET_NOT_ASKED) == 0)
		text_print(stdout, "%s  %s\n", before, name);
	else
		text_print(stdout, "%s  %-*s  %s%s%s\n", before, widths->name, name, image->state,
			*image->differs ? ": " : "", image->differs);
}

static void print_target(const struct fleet_target *target, const struct widths *widths)
{
	/* "+2": nodes that will have this kernel. */
	_cleanup_free_ char *nodes =
		xasprintf("%s%u", !target->nodes && target->nodes_ahead ? "+" : "",
			target->nodes ? target->nodes : target->nodes_ahead);
	_cleanup_free_ char *before =
		xasprintf("%-*s  %-*s  %-*s  %5s  %-5s", widths->krel, target->krel, widths->os,
			target->os, widths->arch, target->arch, nodes, target->why);
	const struct fleet_image *image;
	size_t position = 0;
	bool none = true;

	while ((image = fleet_next_image(target, &position))) {
		print_image(image, before, widths);
		(void) memset(before, ' ', strlen(before));
		none = false;
	}
	if (none)
		text_print(stdout, "%s\n", before);
	if (*target->problem)
		text_print(stdout, "  cannot be built: %s\n", target->problem);
}

static void measure(const struct fleet *fleet, struct widths *widths)
{
	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_target *target = &fleet->targets[i];

		widths->krel = widest(widths->krel, target->krel);
		widths->os = widest(widths->os, target->os);
		widths->arch = widest(widths->arch, target->arch);
		for (size_t j = 0; j < target->build_count; j++)
			for (size_t k = 0; k < target->builds[j].image_count; k++)
				widths->name = widest(widths->name,
					strrchr(target->builds[j].images[k].reference, '/') + 1);
	}
}

/* How many images are in which state: "3 images: 1 there, 2 missing". */
static void print_counts(const struct fleet *fleet)
{
	static const char *const states[] = { FLEET_THERE, FLEET_MISSING, FLEET_DIFFERS,
		FLEET_UNKNOWN };
	size_t counts[ARRAY_SIZE(states)] = { 0 }, images = 0;
	const char *before = ":";

	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_image *image;
		size_t position = 0;

		while ((image = fleet_next_image(&fleet->targets[i], &position))) {
			images++;
			for (size_t s = 0; s < ARRAY_SIZE(states); s++)
				counts[s] += strcmp(image->state, states[s]) == 0;
		}
	}
	text_print(stdout, "%zu kernel%s, %zu image%s", fleet->target_count,
		fleet->target_count == 1 ? "" : "s", images, images == 1 ? "" : "s");
	for (size_t s = 0; s < ARRAY_SIZE(states); s++) {
		if (counts[s] == 0)
			continue;
		text_print(stdout, "%s %zu %s", before, counts[s], states[s]);
		before = ",";
	}
}

static void print_text(const struct verb *verb)
{
	const struct fleet *fleet = &verb->fleet;
	struct widths widths = { .krel = (int) strlen("KERNEL"),
		.os = (int) strlen("OS"),
		.arch = (int) strlen("ARCH"),
		.name = (int) strlen("IMAGE") };

	measure(fleet, &widths);
	if (fleet->target_count)
		text_print(stdout, "%-*s  %-*s  %-*s  NODES  WHY    %s%*s\n", widths.krel, "KERNEL",
			widths.os, "OS", widths.arch, "ARCH", "IMAGE",
			verb->request.operators.registry ? widths.name + 2 : 0,
			verb->request.operators.registry ? "STATE" : "");
	for (size_t i = 0; i < fleet->target_count; i++)
		print_target(&fleet->targets[i], &widths);
	for (size_t i = 0; i < fleet->excluded_count; i++) {
		const struct fleet_exclusion *excluded = &fleet->excluded[i];

		text_print(stdout, "excluded  %s%s%s by %s\n", excluded->krel,
			*excluded->nvidia ? " with NVIDIA " : "", excluded->nvidia,
			excluded->pattern);
	}
	print_counts(fleet);
	if (verb->pools.idle)
		text_print(stdout, "; %u node%s neither GPU nor NIC", verb->pools.idle,
			verb->pools.idle == 1 ? " has" : "s have");
	(void) putchar('\n');
}

static void print_warnings(const struct verb *verb)
{
	(void) message_flush();
	for (size_t i = 0; i < verb->fleet.warnings.count; i++)
		message_print(stderr, COLOUR_YELLOW, "slipway plan: warning: %s\n",
			verb->fleet.warnings.items[i]);
}

/* ---- the run */

/* Asks the registry, where one was given. Returns the exit code. */
static enum exit_code ask(struct verb *verb, struct context *context, struct error *error)
{
	enum exit_code code = EXIT_CODE_OK;
	int r;

	if (verb->fleet.lists_result < 0)
		code = context_exit_code(verb->fleet.lists_result);
	if (!verb->request.operators.registry)
		return code;
	r = fleet_ask(&verb->fleet, &context->progress, &verb->unknown, error);
	if (r < 0)
		return exit_code_for(r, EXIT_CODE_REGISTRY);
	if (verb->unknown)
		code = EXIT_CODE_REGISTRY;
	else if (code == EXIT_CODE_OK && verb->check && !fleet_is_there(&verb->fleet))
		code = EXIT_CODE_MISSING;
	return code;
}

static enum exit_code run(struct verb *verb, struct error *error)
{
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	enum exit_code code;
	int r = verb->nodes ? pools_read(verb->nodes, &verb->pools, error) : 0;

	if (r < 0)
		return exit_code_for(r, EXIT_CODE_USAGE);
	r = context_open(&verb->common, &context, error);
	if (r < 0)
		return exit_code_for(r, EXIT_CODE_INTERNAL);
	verb->request.pools = &verb->pools;
	verb->request.kernels = &verb->kernels;
	verb->request.excludes = &verb->excludes;
	verb->request.arguments = &verb->arguments;
	context_show_progress(&context, false);
	if (!context.progress.terminal && !context.progress.verbose)
		context.progress = (struct progress){ .first_ms = context.progress.first_ms };
	else
		progress_begin(&context.progress, "plan");
	r = fleet_make(&context, &verb->request, &verb->fleet, error);
	code = r < 0 ? context_exit_code(r) : ask(verb, &context, error);
	progress_hide(&context.progress);
	if (*error->text)
		return code;
	if (verb->html && fleet_write_html(&verb->fleet, verb->request.operators.registry,
				  verb->html, error) < 0)
		return EXIT_CODE_OUTPUT;
	if (verb->missing)
		fleet_keep_missing(&verb->fleet);
	return code;
}

/* Has a plan been made, whatever the registry has of it? */
static bool has_plan(enum exit_code code, const struct error *error)
{
	return code == EXIT_CODE_OK || !*error->text;
}

static int work(struct verb *verb)
{
	struct error error = { 0 };
	enum exit_code code = run(verb, &error);

	if (!has_plan(code, &error))
		return json_fail("plan", verb->common.json ? "" : NULL, (int) code, &error);
	if (verb->common.json)
		json_print(fleet_to_json(&verb->fleet), stdout);
	else
		print_text(verb);
	/* Half a plan is none, whatever it says. */
	if (message_flush() < 0)
		return message_end(EXIT_CODE_OK);
	print_warnings(verb);
	if (code != EXIT_CODE_OK)
		message_print(stderr, COLOUR_RED, "slipway plan: %s\n", exit_code_text((int) code));
	return (int) code;
}

/* Cuts @argv at "--": what follows is given to every build. */
static void cut_arguments(char **argv, struct strv *arguments)
{
	while (*argv && strcmp(*argv, "--") != 0)
		argv++;
	if (!*argv)
		return;
	for (char *const *argument = argv + 1; *argument; argument++)
		xstrv_push(arguments, *argument);
	*argv = NULL;
}

int plan_command(char **argv)
{
	struct verb verb = { 0 };
	int code;

	cut_arguments(argv, &verb.arguments);
	if (options_start(&plan_options, argv, &verb, &code))
		code = work(&verb);
	fleet_free(&verb.fleet);
	pools_free(&verb.pools);
	fleet_drivers_free(&verb.request.ofed);
	fleet_drivers_free(&verb.request.nvidia);
	strv_free(&verb.request.sources);
	strv_free(&verb.kernels);
	strv_free(&verb.excludes);
	strv_free(&verb.arguments);
	common_options_free(&verb.common);
	return code;
}

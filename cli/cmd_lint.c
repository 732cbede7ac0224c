/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernel tree and no more, and says what stands against building for it. */
#include "cli/cmd_lint.h"

#include <json-c/json.h>
#include <string.h>

#include "cli/image/buildah.h"
#include "cli/kernel/kernel.h"
#include "cli/stage/supervise.h"
#include "common/json_text.h"

static const char usage_text[] =
	"Usage: slipway lint [--kernel] KREL|newest [options]\n"
	"\n"
	"Judges a kernel before minutes of compiling: fetches its headers, reads its configuration\n"
	"and says what stands against building drivers for it, the worst first. docs/lint.md\n"
	"explains each finding. The exit code is 24 when one of them is an error.\n"
	"\n"
	"  --kernel-from PATH\n"
	"                   a kernel of one's own, or a bundle of slipway probe; may be repeated\n"
	"  --drivers LIST   what is to be built: ofed, nvidia or ofed,nvidia [ofed,nvidia]\n"
	"  --compiler NAME  that is to be used instead of the kernel's own: gcc-12\n"
	"  --lock FILE      take the kernel from a lock instead of the lists\n";

struct verb {
	struct common_options common;
	struct context context;
	struct kernel kernel;
	struct kernel_purpose purpose;
};

enum {
	OPTION_KERNEL = COMMON_OPTION_END,
	OPTION_KERNEL_FROM,
	OPTION_DRIVERS,
	OPTION_COMPILER,
	OPTION_LOCK,
};

static const struct option own_options[] = {
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "kernel-from", required_argument, NULL, OPTION_KERNEL_FROM },
	{ "drivers", required_argument, NULL, OPTION_DRIVERS },
	{ "compiler", required_argument, NULL, OPTION_COMPILER },
	{ "lock", required_argument, NULL, OPTION_LOCK },
	{ 0 },
};

static int take_drivers(struct verb *verb, const char *value, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (strv_split(&names, value, ",") < 0)
		return error_set_errno(error, -ENOMEM, "--drivers");
	verb->purpose.ofed = strv_contains(&names, "ofed");
	verb->purpose.nvidia = strv_contains(&names, "nvidia");
	if (names.count == 0 ||
		names.count != (size_t) verb->purpose.ofed + (size_t) verb->purpose.nvidia)
		return error_set(error, -EINVAL,
			"--drivers %s: ofed, nvidia or ofed,nvidia is wanted", value);
	return 0;
}

static int take_argument(void *context, char *argument, struct error *error)
{
	struct verb *verb = context;

	if (verb->kernel.request.krel)
		return error_set(error, -EINVAL, "%s: one kernel release is expected", argument);
	verb->kernel.request.krel = argument;
	return 0;
}

static int take(void *context, int option, char *value, struct error *error)
{
	struct verb *verb = context;
	struct kernel_request *request = &verb->kernel.request;

	switch (option) {
	case OPTION_KERNEL:
		return take_argument(context, value, error);
	case OPTION_KERNEL_FROM:
		return strv_push(&request->files, value) < 0
			       ? error_set_errno(error, -ENOMEM, "--kernel-from")
			       : 0;
	case OPTION_DRIVERS:
		return take_drivers(verb, value, error);
	case OPTION_COMPILER:
		request->compiler = value;
		return 0;
	case OPTION_LOCK:
		request->lock = value;
		return 0;
	default:
		return error_set(error, -EINVAL, "no such option");
	}
}

static int parse(int argc, char **argv, struct verb *verb, struct error *error)
{
	const struct option_parser parser = {
		.own = own_options,
		.short_own = "",
		.take = take,
		.take_argument = take_argument,
		.context = verb,
	};
	const struct kernel_request *request = &verb->kernel.request;
	int r = common_options_parse(argc, argv, &parser, &verb->common, error);

	if (r < 0 || verb->common.help)
		return r;
	if (!request->krel && !request->lock && !request->files.count)
		return error_set(error, -EINVAL,
			"a kernel release, --kernel-from or --lock is missing: what uname -r "
			"prints on the node, or newest");
	return 0;
}

static void print_text(const struct verb *verb, const struct lint *lint)
{
	const struct kernel_record *record = &verb->kernel.record;

	(void) printf("%s (%s), made with %s, vermagic \"%s\"\n", record->krel,
		*record->arch ? record->arch : "unknown architecture",
		*record->compiler.name ? record->compiler.name : "an unknown compiler",
		record->vermagic);
	for (size_t i = 0; i < lint->count; i++) {
		const struct lint_finding *finding = &lint->findings[i];

		(void) printf("%-8s %-28s %s\n%-8s %-28s   %s\n",
			lint_severity_text(finding->severity), finding->id, finding->reason, "", "",
			finding->fix);
	}
	(void) printf("%zu errors, %zu warnings, %zu notes\n", lint_count(lint, LINT_ERROR),
		lint_count(lint, LINT_WARNING), lint_count(lint, LINT_NOTE));
}

static int print_json(
	const struct verb *verb, const struct lint *lint, enum exit_code code, struct error *error)
{
	json_object *root = json_object_new_object();
	json_object *findings = lint_json(lint);
	json_object *record = kernel_record_json(&verb->kernel.record);
	int r = root && findings && record ? 0 : -ENOMEM;

	if (r == 0) {
		(void) json_object_object_add(root, "event", json_object_new_string("result"));
		(void) json_object_object_add(root, "exit_code", json_object_new_int((int) code));
		(void) json_object_object_add(
			root, "os", json_object_new_string(verb->context.os.os));
		(void) json_object_object_add(root, "findings", json_object_get(findings));
		(void) json_object_object_add(root, "record", json_object_get(record));
		(void) puts(json_object_to_json_string_ext(
			root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	}
	(void) json_object_put(findings);
	(void) json_object_put(record);
	(void) json_object_put(root);
	return r < 0 ? error_set_errno(error, r, "lint") : 0;
}

/* Sets the context's failure to EXIT_CODE_LINT where a finding is an error. */
static int judge(struct verb *verb, struct error *error)
{
	struct kernel *kernel = &verb->kernel;
	_cleanup_(lint_free) struct lint lint = { 0 };
	enum exit_code code;
	int r = kernel_find(kernel, error);

	if (r < 0)
		return r;
	r = kernel_lock(kernel, error);
	if (r == 0)
		r = kernel_open_tree(kernel, error);
	if (r < 0 && kernel_open_node(kernel, error) == 0)
		r = 0;
	if (r == 0)
		r = kernel_lint(kernel, &verb->purpose, &lint, error);
	if (r < 0)
		return r;
	code = lint_count(&lint, LINT_ERROR) ? EXIT_CODE_LINT : EXIT_CODE_OK;
	if (verb->common.json) {
		r = print_json(verb, &lint, code, error);
		if (r < 0)
			return r;
	} else {
		print_text(verb, &lint);
	}
	verb->context.failure = code;
	return 0;
}

/* In the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	struct error error = { 0 };

	progress_start(&verb->context.progress, verb->common.json);
	if (judge(verb, &error) == 0)
		return (int) verb->context.failure;
	if (verb->context.failure == EXIT_CODE_OK)
		verb->context.failure = EXIT_CODE_INTERNAL;
	(void) fflush(stdout);
	(void) fprintf(stderr, "slipway lint: %s\n", error.text);
	if (verb->common.json) {
		(void) printf("{\"event\":\"failed\",\"exit_code\":%d,\"message\":",
			(int) verb->context.failure);
		json_text_string(stdout, error.text);
		(void) puts("}");
	}
	return (int) verb->context.failure;
}

static int start(struct verb *verb)
{
	struct error error = { 0 };
	int r = context_open(&verb->common, &verb->context, &error);

	if (r == 0)
		r = cache_start_run(&verb->context.cache, buildah_sweep, &error);
	if (r < 0) {
		(void) fprintf(stderr, "slipway lint: %s\n", error.text);
		return (int) exit_code_for(r, EXIT_CODE_INTERNAL);
	}
	r = supervise(work, verb);
	if (r != 0)
		buildah_sweep(verb->context.cache.run_path);
	cache_end_run(&verb->context.cache);
	return supervise_report(r, "lint", verb->common.json, "nothing was judged");
}

int lint_command(int argc, char **argv)
{
	struct verb verb = {
		.context = CONTEXT_CLOSED,
		.kernel.request.no_modules = true,
		.purpose = { .ofed = true, .nvidia = true },
	};
	struct error error = { 0 };
	int r;

	verb.kernel.context = &verb.context;
	r = parse(argc, argv, &verb, &error);
	if (r < 0) {
		(void) fprintf(stderr, "slipway lint: %s\nslipway lint --help lists the options\n",
			error.text);
		r = EXIT_CODE_USAGE;
	} else if (verb.common.help) {
		(void) fputs(usage_text, stdout);
		common_options_usage(stdout);
		r = EXIT_CODE_OK;
	} else {
		r = start(&verb);
	}
	strv_free(&verb.kernel.request.files);
	kernel_free(&verb.kernel);
	context_close(&verb.context);
	common_options_free(&verb.common);
	return r;
}

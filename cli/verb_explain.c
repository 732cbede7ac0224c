/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb_explain.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/explain/explain_open.h"
#include "common/fs.h"

#define INPUT_LIMIT ((size_t) 16 << 20) /* a kernel's log buffer has 1 MiB at most */

static const char usage_text[] =
	"Usage: slipway explain [--module FILE] [--kernel PATH] [--with PATH]… TEXT…|FILE|-\n"
	"\n"
	"Says which input of a build was wrong, and what to do about it, when a module does not\n"
	"load. TEXT is what insmod, modprobe or dmesg printed, quoted or not. One word that\n"
	"is a file's name, or - for stdin, is read; lines about other things are passed over:\n"
	"  dmesg | slipway explain --module nvidia-peermem.ko -\n"
	"\n"
	"  --module FILE    the module: its CRCs, vermagic and signature are named\n"
	"  --kernel PATH    the node's kernel: a tree, a build folder, /lib/modules/KREL, record.json\n"
	"                   or a Module.symvers; with --module the load proof is asked as well\n"
	"  --with PATH      what is loaded before it, such as the OFED: a Module.symvers, a module or\n"
	"                   a folder with either; later ones count more\n"
	"With none of them whose a symbol is can only be guessed by its name.\n"
	"  --json           the same as JSON\n"
	"  -h, --help       this text\n";

enum own_option {
	OPTION_MODULE = COMMON_OPTION_END,
	OPTION_KERNEL,
	OPTION_WITH,
};

static const struct option own_options[] = {
	{ "module", required_argument, NULL, OPTION_MODULE },
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "with", required_argument, NULL, OPTION_WITH },
	{ 0 },
};

struct verb {
	struct common_options options;
	struct explain_sources sources;
	struct strv texts;
	struct explanation explanation;
	struct explain_opened opened;
};

static int take(void *context, int option, char *value, struct error *error)
{
	struct verb *verb = context;

	if (!*value)
		return error_set(error, -EINVAL, "an option's value is empty");
	if (option == OPTION_MODULE)
		verb->sources.module_path = value;
	else if (option == OPTION_KERNEL)
		verb->sources.kernel = value;
	else if (strv_push(&verb->sources.with, value) < 0)
		return error_set_errno(error, -ENOMEM, "explain");
	return 0;
}

static int take_argument(void *context, char *argument, struct error *error)
{
	struct verb *verb = context;

	return strv_push(&verb->texts, argument) < 0 ? error_set_errno(error, -ENOMEM, "explain")
						     : 0;
}

static int parse(int argc, char **argv, struct verb *verb, struct error *error)
{
	const struct option_parser parser = {
		.own = own_options,
		.short_own = "",
		.take = take,
		.take_argument = take_argument,
		.context = verb,
		.local = true,
	};
	int r = common_options_parse(argc, argv, &parser, &verb->options, error);

	if (r == 0 && !verb->options.help && verb->texts.count == 0)
		r = error_set(error, -EINVAL,
			"no text: say what insmod or dmesg said, name a file of it, or pipe it: dmesg | slipway "
			"explain -");
	return r;
}

static int add_text(struct verb *verb, const char *text)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = strv_split(&lines, text, "\n\r");

	for (size_t i = 0; i < lines.count && r == 0; i++)
		r = explain_add_line(&verb->explanation, lines.items[i]);
	return r;
}

static int add_file(struct verb *verb, const char *path, const char *name, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, path, INPUT_LIMIT, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	r = add_text(verb, text);
	return r < 0 ? error_set_errno(error, r, "explain") : 0;
}

static bool is_file(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool are_quoted(const struct strv *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		if (!strchr(texts->items[i], ' '))
			return false;
	return true;
}

/* Quoted messages are a line each; bare words are of one: who copies a message rarely quotes it. */
static int add_words(struct verb *verb)
{
	_cleanup_free_ char *text = strv_join(&verb->texts, are_quoted(&verb->texts) ? "\n" : " ");

	return text ? add_text(verb, text) : -ENOMEM;
}

static int add_texts(struct verb *verb, struct error *error)
{
	const char *first = verb->texts.items[0];
	bool alone = verb->texts.count == 1;
	int r;

	if (alone && strcmp(first, "-") == 0)
		r = add_file(verb, "/dev/stdin", "stdin", error);
	else if (alone && is_file(first))
		r = add_file(verb, first, first, error);
	else if (add_words(verb) < 0)
		r = error_set_errno(error, -ENOMEM, "explain");
	else
		r = 0;
	if (r == 0)
		explain_finish(&verb->explanation);
	return r;
}

static void print_list(const char *title, const struct strv *list)
{
	for (size_t i = 0; i < list->count; i++)
		(void) printf("  %-9s%s\n", i == 0 ? title : "", list->items[i]);
}

static void print_finding(const struct explain_finding *finding)
{
	(void) printf("%s%s%s\n", finding->module, *finding->module ? ": " : "", finding->because);
	if (finding->symbols.count > 1)
		print_list("symbols", &finding->symbols);
	print_list("because", &finding->evidence);
	(void) printf("  %-9s%s%s\n", "input", explain_input_text(finding->input),
		finding->guessed
			? " (a guess by the symbol's name: --module, --kernel and --with tell)"
			: "");
	(void) printf("  %-9s%s\n", "do", finding->remedy);
	print_list("said", &finding->lines);
}

static void add_string(json_object *object, const char *key, const char *value)
{
	(void) json_object_object_add(object, key, json_object_new_string(value));
}

static void add_list(json_object *object, const char *key, const struct strv *list)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < list->count; i++)
		(void) json_object_array_add(array, json_object_new_string(list->items[i]));
	(void) json_object_object_add(object, key, array);
}

static json_object *finding_json(const struct explain_finding *finding)
{
	json_object *object = json_object_new_object();

	add_string(object, "id", finding->entry->id);
	add_string(object, "input", explain_input_text(finding->input));
	(void) json_object_object_add(object, "guessed", json_object_new_boolean(finding->guessed));
	add_string(object, "module", finding->module);
	add_list(object, "symbols", &finding->symbols);
	add_string(object, "because", finding->because);
	add_list(object, "evidence", &finding->evidence);
	add_string(object, "do", finding->remedy);
	add_list(object, "lines", &finding->lines);
	return object;
}

static void print_json(const struct explanation *explanation)
{
	json_object *root = json_object_new_object();
	json_object *findings = json_object_new_array();

	for (size_t i = 0; i < explanation->count; i++)
		if (!explanation->items[i].joined)
			(void) json_object_array_add(
				findings, finding_json(&explanation->items[i]));
	(void) json_object_object_add(root, "findings", findings);
	(void) json_object_object_add(
		root, "lines", json_object_new_int64((int64_t) explanation->lines));
	(void) json_object_object_add(
		root, "unknown", json_object_new_int64((int64_t) explanation->unknown));
	(void) puts(json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	(void) json_object_put(root);
}

static void print_text(const struct explanation *explanation)
{
	bool first = true;

	for (size_t i = 0; i < explanation->count; i++) {
		if (explanation->items[i].joined)
			continue;
		if (!first)
			(void) putchar('\n');
		first = false;
		print_finding(&explanation->items[i]);
	}
}

static int run(struct verb *verb, struct error *error)
{
	int r;

	verb->explanation.witness = &verb->opened.witness;
	r = add_texts(verb, error);
	if (r == 0)
		r = explain_prove(&verb->opened, &verb->explanation, error);
	if (r == 0 && explain_add_evidence(&verb->explanation) < 0)
		r = error_set_errno(error, -ENOMEM, "explain");
	if (r < 0)
		return r;
	if (verb->options.json)
		print_json(&verb->explanation);
	else
		print_text(&verb->explanation);
	if (verb->explanation.count)
		return 0;
	return error_set(error, -ENOMSG,
		"nothing known in %zu line%s: docs/explain.md lists what is",
		verb->explanation.lines, verb->explanation.lines == 1 ? "" : "s");
}

static void verb_close(struct verb *verb)
{
	explain_free(&verb->explanation);
	explain_close(&verb->opened);
	strv_free(&verb->sources.with);
	strv_free(&verb->texts);
	common_options_free(&verb->options);
}

int explain_command(int argc, char **argv)
{
	_cleanup_(verb_close) struct verb verb = { .opened = EXPLAIN_CLOSED };
	struct error error = { 0 };
	int r = parse(argc, argv, &verb, &error);

	if (r < 0) {
		(void) fprintf(stderr,
			"slipway explain: %s\nslipway explain --help lists the options\n",
			error.text);
		return EXIT_CODE_USAGE;
	}
	if (verb.options.help) {
		(void) fputs(usage_text, stdout);
		return EXIT_CODE_OK;
	}
	r = explain_open(&verb.opened, &verb.sources, &error);
	if (r < 0) {
		(void) fprintf(stderr, "slipway explain: %s\n", error.text);
		return EXIT_CODE_USAGE;
	}
	r = run(&verb, &error);
	if (r < 0)
		(void) fprintf(stderr, "slipway explain: %s\n", error.text);
	return r < 0 ? (int) exit_code_for(r, EXIT_CODE_INTERNAL) : EXIT_CODE_OK;
}

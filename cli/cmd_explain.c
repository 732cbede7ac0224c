/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/explain/explain.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"

#define INPUT_LIMIT ((size_t) 16 << 20) /* a kernel's log buffer has 1 MiB at most */

struct verb {
	struct verify verify; /* the options, and the node's kernel */
	struct strv texts;
	char *text; /* these, or what the file or stdin that they name has */
	struct explanation explanation;
	struct explain_files files;
	bool list;
};

static int take_argument(void *target, const char *argument, struct error *error)
{
	(void) error;
	xstrv_push(&((struct verb *) target)->texts, argument);
	return 0;
}

/* Determines the kernel and the files before any of them is opened or fetched. */
static int check(void *target, struct error *error)
{
	struct verify *verify = &((struct verb *) target)->verify;
	int r = verify_identify(verify, error);

	return r < 0 || verify->fetched
		       ? r
		       : common_options_refuse_lists(&verify->common,
				 "it applies only when --kernel names a release to fetch", error);
}

static const struct option_rule rules[] = {
	{ .given = "list",
		.refuses = "module kernel with trust json " OPTION_RULE_ARGUMENT,
		.why = "--list prints what is known, and reads nothing" },
	{ .needs = "list " OPTION_RULE_ARGUMENT,
		.why = "the text is missing: give the message of insmod or dmesg, name a file that "
		       "has it, or pipe it: dmesg | slipway explain -" },
};

#define EXPLAIN_OPTION(name, argument, kind, member, help)                                         \
	OPTION(name, 0, argument, kind, struct verb, member, help)

static const struct option_row rows[] = {
	EXPLAIN_OPTION("module", "FILE", OPTION_TEXT, files.module_path,
		"the module that did not load: its CRCs, vermagic and signature are read"),
	EXPLAIN_OPTION("kernel", "PATH|KREL", OPTION_LIST, verify.kernels,
		"the node's kernel, as for verify: a tree, a build folder, lib/modules/KREL,\n"
		"record.json, packages (may be repeated) or a release, which is fetched; or\n"
		"only a Module.symvers. With --module the load proof is run as well"),
	EXPLAIN_OPTION("with", "WHAT", OPTION_LIST, verify.with,
		"modules loaded before it, such as OFED: a Module.symvers, a module, a folder\n"
		"with either, or an image; later ones take precedence"),
	EXPLAIN_OPTION("trust", "CERT", OPTION_LIST, verify.trust_files,
		"check the module's signature with this certificate that the node's kernel\n"
		"trusts (X.509, DER or PEM); may be repeated"),
	EXPLAIN_OPTION("list", NULL, OPTION_FLAG, list, "print all messages that are known"),
};

const struct option_table explain_options = {
	.verb = "explain",
	.usage = "Usage: slipway explain [--module FILE] [--kernel PATH|KREL] [--with WHAT]… "
		 "TEXT…|FILE|-\n"
		 "\n"
		 "When a driver does not load or a container stops: finds the input of the build "
		 "that was\n"
		 "wrong, or what happened on the node, and what to do about it. TEXT is the output "
		 "of insmod,\n"
		 "modprobe, dmesg, kubectl describe, kubectl logs or slipway-init status, quoted "
		 "or not; a\n"
		 "reason of a container, or an exit code. FILE, or - for stdin, is read; unrelated "
		 "lines are\n"
		 "skipped.\n"
		 "\n",
	.examples = "  dmesg | slipway explain --module nvidia-peermem.ko -\n"
		    "  kubectl describe pod POD | slipway explain -\n"
		    "  slipway explain MODULE_IN_USE\n",
	.notes = "Without these options the exporter of a symbol is guessed from its name.\n"
		 "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct verb, verify.common),
	.take_argument = take_argument,
	.check = check,
};

/* Before the work may move to a child, which a terminal would not let read. */
static int read_texts(struct verb *verb, struct error *error)
{
	const struct strv *texts = &verb->texts;
	const char *first = texts->items[0];
	bool is_stdin = strcmp(first, "-") == 0;
	bool quoted = true;
	struct stat status;
	int r;

	if (texts->count == 1 &&
		(is_stdin || (stat(first, &status) == 0 && S_ISREG(status.st_mode)))) {
		r = is_stdin ? fs_read_fd(STDIN_FILENO, INPUT_LIMIT, &verb->text, NULL)
			     : fs_read(AT_FDCWD, first, INPUT_LIMIT, &verb->text, NULL);
		return r < 0 ? error_set_errno(error, r, "%s", is_stdin ? "stdin" : first) : 0;
	}
	/* Quoted messages are a line each, bare words are one: few quote what they copy. */
	for (size_t i = 0; i < texts->count; i++)
		quoted &= strchr(texts->items[i], ' ') != NULL;
	verb->text = xstrv_join(texts, quoted ? "\n" : " ");
	return 0;
}

static void print_list(const char *title, const struct strv *list)
{
	for (size_t i = 0; i < list->count; i++)
		text_print(stdout, "  %-9s%s\n", i == 0 ? title : "", list->items[i]);
}

static void print_finding(const struct explain_finding *finding, const struct verb *verb)
{
	const struct verify *verify = &verb->verify;
	bool all = verb->files.module_path && verify->kernels.count && verify->with.count;
	_cleanup_free_ char *remedy = message_paths(finding->remedy);
	const char *guess = "";

	/* Name the options that would end the guessing. */
	if (finding->guessed)
		guess = all ? " (guessed from the symbol's name: none of the given files exports "
			      "it)"
			    : " (guessed from the symbol's name; to be sure, give --module, "
			      "--kernel and --with)";
	text_print(stdout, "%s%s%s\n", finding->module, *finding->module ? ": " : "",
		finding->because);
	if (finding->symbols.count > 1)
		print_list("symbols", &finding->symbols);
	print_list("because", &finding->evidence);
	text_print(stdout, "  %-9s%s%s\n", "input", explain_inputs[finding->input].name, guess);
	text_print(stdout, "  %-9s%s\n", "do", remedy);
	print_list("said", &finding->lines);
}

static json_object *finding_json(const struct explain_finding *finding)
{
	json_object *object = json_object_new_object();

	json_add_texts(
		object, "id", finding->cause->id, "input", explain_inputs[finding->input].name);
	json_add(object, "guessed", json_object_new_boolean(finding->guessed));
	json_add(object, "module", json_text(finding->module));
	json_add(object, "symbols", json_list(&finding->symbols));
	json_add(object, "because", json_text(finding->because));
	json_add(object, "evidence", json_list(&finding->evidence));
	json_add(object, "do", json_text(finding->remedy));
	json_add(object, "lines", json_list(&finding->lines));
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
	json_add(root, "findings", findings);
	json_add(root, "lines", json_object_new_uint64(explanation->lines));
	json_add(root, "unknown", json_object_new_uint64(explanation->unknown));
	json_print(root, stdout);
}

static void print_text(const struct verb *verb)
{
	const char *between = "";

	for (size_t i = 0; i < verb->explanation.count; i++) {
		if (verb->explanation.items[i].joined)
			continue;
		(void) fputs(between, stdout);
		between = "\n";
		print_finding(&verb->explanation.items[i], verb);
	}
}

static void print_known(void)
{
	_cleanup_(explain_causes_free) struct explain_causes causes = { 0 };

	explain_causes_read(&causes);
	for (enum explain_input input = 0; input <= EXPLAIN_NODE; input++) {
		if (input)
			(void) putchar('\n');
		text_print(stdout, "%s\n", explain_inputs[input].name);
		for (size_t i = 0; i < causes.count; i++)
			for (size_t k = 0;
				causes.rows[i].input == input && k < causes.rows[i].patterns.count;
				k++)
				text_print(stdout, "  %-22s %s\n", causes.rows[i].id,
					causes.rows[i].patterns.items[k]);
	}
}

static int run(struct verb *verb, struct error *error)
{
	struct explanation *explanation = &verb->explanation;
	_cleanup_strv_ struct strv lines = { 0 };

	explanation->files = &verb->files;
	xstrv_split(&lines, verb->text, "\n\r");
	if (lines.count == 0)
		return error_set(error, -ENOMSG, "%s: it is empty",
			strcmp(verb->texts.items[0], "-") == 0 ? "stdin" : verb->texts.items[0]);
	for (size_t i = 0; i < lines.count; i++)
		explain_add_line(explanation, lines.items[i]);
	explain_finish(explanation);
	explain_prove(&verb->files, &verb->verify, explanation);
	explain_add_evidence(explanation);
	if (verb->verify.common.json)
		print_json(explanation);
	else
		print_text(verb);
	if (explanation->count)
		return 0;
	if (verb->texts.count == 1 && !strpbrk(verb->text, " \n"))
		return error_set(
			error, -ENOMSG, "%s: neither a file nor a known error text", verb->text);
	return error_set(error, -ENOMSG,
		"no known error in %zu line%s; slipway explain --list prints the known ones",
		explanation->lines, explanation->lines == 1 ? "" : "s");
}

static void verb_close(struct verb *verb)
{
	explain_free(&verb->explanation);
	explain_close(&verb->files);
	verify_close(&verb->verify);
	strv_free(&verb->texts);
	free(verb->text);
}

/* Also in the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	enum exit_code otherwise = EXIT_CODE_INTERNAL;
	struct error error = { 0 };
	int r = explain_open(&verb->files, &verb->verify, &error);

	/* A failed download has its own exit code; all other errors are in the given input. */
	if (r < 0 && !verb->verify.context.failure)
		return json_fail("explain", NULL, EXIT_CODE_USAGE, &error);
	if (r < 0)
		otherwise = verb->verify.context.failure;
	else
		r = run(verb, &error);
	return r < 0 ? json_fail("explain", NULL, (int) exit_code_for(r, otherwise), &error)
		     : EXIT_CODE_OK;
}

int explain_command(char **argv)
{
	_cleanup_(verb_close) struct verb verb = { .verify = VERIFY_CLOSED };
	struct error error = { 0 };
	int code, r;

	if (!options_start(&explain_options, argv, &verb, &code))
		return code;
	if (verb.list) {
		print_known();
		return EXIT_CODE_OK;
	}
	r = read_texts(&verb, &error);
	if (r < 0)
		return json_fail(
			"explain", NULL, (int) exit_code_for(r, EXIT_CODE_INTERNAL), &error);
	return verify_supervise(&verb.verify, "explain", "nothing was explained", work, &verb);
}

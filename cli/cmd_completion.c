/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shells' scripts ask this program for the words that may follow: `slipway completion words
 * WORD…` gets the words of the command line behind "slipway", the last one as far as it is typed.
 * It prints a candidate a line, a tab and what it is; and a line "<tab>files" or "<tab>folders"
 * where the shell may offer these, too.
 */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "common/arch.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/catalogue.h"
#include "kernels/krel.h"

struct verb {
	struct common_options options;
	struct strv words;
};

/* --- the scripts --- */

static const struct shell {
	const char *name;
	const char *script;
} shells[] = {
	{ "bash",
		"# bash completion for slipway: source <(slipway completion bash)\n"
		"_slipway() {\n"
		"    local line kind=''\n"
		"    COMPREPLY=()\n"
		"    while IFS= read -r line; do\n"
		"        case $line in\n"
		"            $'\\tfiles') kind=-f ;;\n"
		"            $'\\tfolders') kind=-d ;;\n"
		"            *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
		"        esac\n"
		"    done < <(\"${COMP_WORDS[0]}\" completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
		"    [[ -n $kind ]] || return 0\n"
		"    compopt -o filenames 2>/dev/null\n"
		"    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen \"$kind\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
		"}\n"
		"complete -F _slipway slipway\n" },
	{ "zsh",
		"#compdef slipway\n"
		"# zsh completion for slipway: slipway completion zsh >FOLDER-OF-FPATH/_slipway\n"
		"_slipway() {\n"
		"    local line kind=''\n"
		"    local -a found\n"
		"    while IFS= read -r line; do\n"
		"        case $line in\n"
		"            $'\\tfiles') kind=files ;;\n"
		"            $'\\tfolders') kind=folders ;;\n"
		"            *) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
		"        esac\n"
		"    done < <($words[1] completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
		"    (($#found)) && _describe slipway found\n"
		"    [[ $kind == files ]] && _files\n"
		"    [[ $kind == folders ]] && _files -/\n"
		"    return 0\n"
		"}\n"
		"[[ ${funcstack[1]} != _slipway ]] || _slipway \"$@\"\n"
		"(($+functions[compdef])) && compdef _slipway slipway\n"
		"true\n" },
	{ "fish", "# fish completion for slipway: slipway completion fish | source\n"
		  "function __slipway_complete\n"
		  "    set -l words (commandline -opc) (commandline -ct)\n"
		  "    for line in ($words[1] completion words -- $words[2..-1] 2>/dev/null)\n"
		  "        switch $line\n"
		  "            case \\tfiles\n"
		  "                __fish_complete_path (commandline -ct)\n"
		  "            case \\tfolders\n"
		  "                __fish_complete_directories (commandline -ct)\n"
		  "            case '*'\n"
		  "                echo $line\n"
		  "        end\n"
		  "    end\n"
		  "end\n"
		  "complete -c slipway -f -a '(__slipway_complete)'\n" },
};

/* --- values --- */

static void list_os(const struct strv *words, struct strv *ret)
{
	const struct common_options options = { 0 };
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	struct error error = { 0 };

	(void) words;
	if (context_open(&options, &context, &error) == 0)
		(void) !catalogue_names(context.catalogues, ret, &error);
}

static void list_arch(const struct strv *words, struct strv *ret)
{
	_cleanup_strv_ struct strv built = { 0 };

	for (const struct arch *arch = archs; arch->uname; arch++) {
		xstrv_push(ret, arch->uname);
		if (*arch->redist)
			xstrv_push(&built, arch->uname);
	}
	/* Verbs that take a list, of those that images are built for. */
	if (strv_contains(words, "build") || strv_contains(words, "plan")) {
		_cleanup_free_ char *all = xstrv_join(&built, ",");

		xstrv_push(ret, all);
	}
}

/* This machine's, and those of the lists that the cache has of the distribution. */
static void list_kernels(const struct strv *words, struct strv *ret)
{
	struct common_options options = { .offline = true };
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	struct resolve_answer answer = { 0 };
	struct error error = { 0 };
	struct utsname machine;

	xstrv_push(ret, KREL_NEWEST);
	if (uname(&machine) == 0)
		xstrv_push_unique(ret, machine.release);
	for (size_t i = 0; i + 1 < words->count; i++)
		if (strcmp(words->items[i], "--os") == 0)
			options.os = words->items[i + 1];
	if (context_open(&options, &context, &error) == 0 &&
		context_choose_os(&context, CONTEXT_DEFAULT_OS, NULL, &error) == 0)
		(void) !context_list(&context, ret, &answer, &error);
	resolve_answer_free(&answer);
}

/* Values of an option: by its name, else by the name that --help has for them. */
static const struct value_row {
	const char *name;
	const char *words; /* or NULL */
	void (*list)(const struct strv *words, struct strv *ret);
	const char *kind; /* "files", "folders"; NULL: neither */
} value_rows[] = {
	{ "ofed", "reference", NULL, "files" },
	{ "nvidia", "debian none", NULL, "files" },
	{ "kernel-module-type", "open proprietary", NULL, NULL },
	{ "drivers", "ofed nvidia ofed,nvidia", NULL, NULL },
	{ "recipe", "nvidia peermem ofed", NULL, NULL },
	{ "sign-hash", "sha256 sha384 sha512", NULL, NULL },
	{ "hash", "sha256 sha384 sha512", NULL, NULL },
	{ "as", "layer tar sysext", NULL, NULL },
	{ "without", "userspace", NULL, NULL },
	{ "gpu-operator", "24.9 25.3 25.10 26.3 26.7", NULL, NULL },
	{ "kernel", NULL, list_kernels, "files" },
	{ "ID", NULL, list_os, NULL },
	{ "OS", NULL, list_os, NULL },
	{ "ARCH", NULL, list_arch, NULL },
	{ "KREL", NULL, list_kernels, NULL },
	{ "PATH|KREL", NULL, list_kernels, "files" },
	{ "WHERE", "containers-storage: oci-archive:", NULL, "folders" },
	{ "DIR", NULL, NULL, "folders" },
	{ "FILE", NULL, NULL, "files" },
	{ "PATH", NULL, NULL, "files" },
	{ "CERT", NULL, NULL, "files" },
	{ "KEY", NULL, NULL, "files" },
	{ "SRC", NULL, NULL, "files" },
	{ "WHAT", NULL, NULL, "files" },
};

/* --- candidates --- */

/* @before: what a shell wants in front of each, "--os=". */
static void print_behind(const char *before, const char *word, const char *typed, const char *text)
{
	if (strncmp(word, typed, strlen(typed)) != 0)
		return;
	text_print(stdout, "%s%s", before, word);
	(void) putchar('\t');
	text_print(stdout, "%.*s\n", (int) strcspn(text, "\n"), text);
}

static void print_candidate(const char *word, const char *typed, const char *text)
{
	print_behind("", word, typed, text);
}

static void print_values(const struct option_row *row, const struct strv *words, const char *before,
	const char *typed)
{
	_cleanup_strv_ struct strv values = { 0 };
	const struct value_row *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(value_rows) && !found && row->argument; i++)
		if ((row->name && strcmp(row->name, value_rows[i].name) == 0) ||
			strcmp(row->argument, value_rows[i].name) == 0)
			found = &value_rows[i];
	if (!found)
		return;
	if (found->words)
		xstrv_split(&values, found->words, " ");
	if (found->list)
		found->list(words, &values);
	for (size_t i = 0; i < values.count; i++)
		print_behind(before, values.items[i], typed, "");
	if (found->kind)
		(void) printf("\t%s\n", found->kind);
}

/* The text of a row without one is the next row's. */
static const char *text_of(const struct option_table *table, size_t i)
{
	const struct option_row *row;

	do
		row = options_row(table, i++);
	while (row && !row->help);
	return row ? row->help + strspn(row->help, " ") : "";
}

static void print_options(const struct option_table *table, const char *typed)
{
	for (size_t i = 0; i < options_row_count(table); i++) {
		const struct option_row *row = options_row(table, i);
		_cleanup_free_ char *name = NULL;

		if (!row || row->kind == OPTION_GROUP || row->kind == OPTION_WORD ||
			(row->help && !*row->help))
			continue;
		name = row->name ? xasprintf("--%s", row->name) : xasprintf("-%c", row->letter);
		print_candidate(name, typed, text_of(table, i));
	}
}

/* The row of an option that @word is, when it takes a value. */
static const struct option_row *takes_value(const struct option_table *table, const char *word)
{
	for (size_t i = 0; i < options_row_count(table); i++) {
		const struct option_row *row = options_row(table, i);

		if (!row || !row->argument || row->kind == OPTION_WORD)
			continue;
		if (row->name && strncmp(word, "--", 2) == 0 && strcmp(word + 2, row->name) == 0)
			return row;
		if (row->letter && word[0] == '-' && word[1] == row->letter && !word[2])
			return row;
	}
	return NULL;
}

/* Actions, such as cache's; a kernel, where the verb takes one without --kernel; and files. */
static void print_arguments(
	const struct option_table *table, const struct strv *words, const char *typed)
{
	bool has_actions = false;

	for (size_t i = 0; i < table->count; i++) {
		const struct option_row *row = &table->rows[i];
		bool stands_for =
			row->argument && row->argument[0] >= 'A' && row->argument[0] <= 'Z';

		if (row->kind == OPTION_WORD && row->argument && !stands_for) {
			print_candidate(row->argument, typed, text_of(table, i));
			has_actions = true;
		}
		if (table->take_argument && row->name && strcmp(row->name, "kernel") == 0 &&
			row->kind == OPTION_TAKE)
			print_values(row, words, "", typed);
	}
	if (table->take_argument && !has_actions)
		(void) printf("\tfiles\n");
}

static void print_words(const struct strv *words)
{
	size_t before = options_count_common(words->items);
	const char *typed = words->items[words->count - 1];
	const struct verb_row *verb = NULL;
	const struct option_row *row = NULL;

	/* The value of a common option before the verb: every verb has it. */
	if (words->count > 1)
		row = takes_value(verb_rows[0].options, words->items[words->count - 2]);
	if (row && before == words->count) {
		print_values(row, words, "", typed);
		return;
	}
	row = NULL;
	if (before + 2 == words->count && strcmp(words->items[before], "help") == 0)
		before++;
	if (before + 1 < words->count) {
		verb = verb_find(words->items[before]);
		if (!verb)
			return;
	}
	if (!verb) {
		for (verb = verb_rows; verb->name; verb++)
			print_candidate(verb->name, typed, verb->text);
		print_candidate("help", typed, "show the options of a verb");
		print_candidate("version", typed, "show the version");
		print_candidate("--help", typed, "list the verbs");
		print_candidate("--version", typed, "show the version");
		return;
	}
	if (words->count >= before + 3)
		row = takes_value(verb->options, words->items[words->count - 2]);
	/* "--os=de"; bash has made three words of it. */
	if (!row && words->count >= before + 4 && strcmp(words->items[words->count - 2], "=") == 0)
		row = takes_value(verb->options, words->items[words->count - 3]);
	if (!row && strncmp(typed, "--", 2) == 0 && strchr(typed, '=')) {
		size_t length = strcspn(typed, "=");
		_cleanup_free_ char *name = xstrndup(typed, length);
		_cleanup_free_ char *behind = xstrndup(typed, length + 1);

		row = takes_value(verb->options, name);
		if (row)
			print_values(row, words, behind, typed + length + 1);
		return;
	}
	if (row)
		print_values(row, words, "", strcmp(typed, "=") == 0 ? "" : typed);
	else if (typed[0] == '-')
		print_options(verb->options, typed);
	else
		print_arguments(verb->options, words, typed);
}

/* --- the verb --- */

static int take_argument(void *target, const char *argument, struct error *error)
{
	(void) error;
	xstrv_push(&((struct verb *) target)->words, argument);
	return 0;
}

static const struct shell *find_shell(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (strcmp(name, shells[i].name) == 0)
			return &shells[i];
	return NULL;
}

static int check(void *target, struct error *error)
{
	const struct strv *words = &((struct verb *) target)->words;

	if (words->count == 1 && find_shell(words->items[0]))
		return 0;
	return error_set(error, -EINVAL, "name one shell: bash, zsh or fish");
}

static const struct option_row rows[] = {
	OPTION_ARGUMENT("bash", "source <(slipway completion bash)"),
	OPTION_ARGUMENT("zsh", "slipway completion zsh >FOLDER/_slipway, in a folder of $fpath"),
	OPTION_ARGUMENT("fish", "slipway completion fish | source"),
	OPTION("help", 'h', NULL, OPTION_FLAG, struct verb, options.help, "show this help"),
};

const struct option_table completion_options = {
	.verb = "completion",
	.usage = "Usage: slipway completion bash|zsh|fish\n"
		 "\n"
		 "Prints what makes the shell complete verbs, options, files, distributions and "
		 "the kernels of\n"
		 "package lists in the cache. make install puts it where each shell looks.\n"
		 "\n",
	OPTION_ROWS(rows),
	.only_common = "",
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

int completion_command(char **argv)
{
	struct verb verb = { 0 };
	int code = EXIT_CODE_OK;

	if (argv[1] && strcmp(argv[1], "words") == 0) {
		for (char **word = argv + 2 + (argv[2] && strcmp(argv[2], "--") == 0); *word;
			word++)
			xstrv_push(&verb.words, *word);
		if (verb.words.count)
			print_words(&verb.words);
	} else if (options_start(&completion_options, argv, &verb, &code)) {
		(void) fputs(find_shell(verb.words.items[0])->script, stdout);
	}
	strv_free(&verb.words);
	common_options_free(&verb.options);
	return code;
}

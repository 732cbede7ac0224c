/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"
#include "cli/message.h"

#include <limits.h>
#include <string.h>

#include "cli/exit_code.h"
#include "common/arch.h"
#include "common/nearest.h"
#include "common/xalloc.h"

#define COLUMN 19

/* @form: a 0 stands for any digit. */
static bool has_form(const char *value, const char *form)
{
	bool fits = strlen(value) == strlen(form);

	for (size_t i = 0; fits && form[i]; i++)
		fits = form[i] == '0' ? value[i] >= '0' && value[i] <= '9' : value[i] == form[i];
	return fits;
}

static int take_snapshot(void *target, const char *value, struct error *error)
{
	/* Debian's and Ubuntu's; Tumbleweed's; CentOS Stream's (docs/kernels.md). */
	static const char *const forms[] = { "00000000T000000Z", "00000000",
		"CentOS-Stream-9-00000000.0", "CentOS-Stream-10-00000000.0" };
	bool fits = false;

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		fits |= has_form(value, forms[i]);
	if (!fits)
		return error_set(error, -EINVAL,
			"--snapshot %s: neither a time such as 20260901T000000Z nor an archive's "
			"name of one (docs/kernels.md)",
			value);
	((struct common_options *) target)->snapshot = value;
	return 0;
}

static int refuse_arch(const char *value, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *known = NULL;

	for (const struct arch *arch = archs; arch->uname; arch++)
		xstrv_push(&names, arch->uname);
	known = xstrv_join(&names, ", ");
	return error_set(error, -EINVAL,
		"--arch %s: unknown architecture; give what uname -m prints on the node, or "
		"Debian's name for it: %s",
		value, known);
}

/* It becomes a part of URLs and of cache keys: another name for a machine must not be another one.
 */
static int take_arch(void *target, const char *value, struct error *error)
{
	struct common_options *options = target;
	_cleanup_strv_ struct strv words = { 0 };

	/* A comma with nothing beside it is a slip: one architecture alone gets no index. */
	if (!*value || *value == ',' || value[strlen(value) - 1] == ',' || strstr(value, ",,"))
		return refuse_arch(value, error);
	xstrv_split(&words, value, ",");
	for (size_t i = 0; i < words.count; i++) {
		const struct arch *arch = arch_find(words.items[i]);

		if (!arch)
			return refuse_arch(words.items[i], error);
		if (strv_contains(&options->archs, arch->uname))
			return error_set(error, -EINVAL, "--arch: %s is given twice", arch->uname);
		xstrv_push(&options->archs, arch->uname);
	}
	options->arch = options->archs.items[0];
	return 0;
}

static int take_accepted_key(void *target, const char *value, struct error *error)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	size_t count = 0, others = 0;

	for (const char *c = value + (strncmp(value, "0x", 2) == 0 ? 2 : 0); *c; c++) {
		count += strchr(digits, *c) != NULL;
		others += !strchr(digits, *c) && *c != ' ' && *c != ':';
	}
	if (count != 40 || others)
		return error_set(error, -EINVAL,
			"--accept-key %s: not the fingerprint of an OpenPGP key (40 hexadecimal "
			"digits)",
			value);
	xstrv_push(&((struct common_options *) target)->accept_keys, value);
	return 0;
}

#define COMMON(name, letter, argument, kind, member, help)                                         \
	OPTION(name, letter, argument, kind, struct common_options, member, help)

/* The same, of options about package lists, mirrors and keys. */
#define LISTS(name_, argument_, kind_, member, folded_, help_)                                     \
	{                                                                                          \
		.name = (name_), .argument = (argument_), .help = (help_), .kind = (kind_),        \
		.offset = offsetof(struct common_options, member), .about_lists = true,            \
		.folded = (folded_)                                                                \
	}
#define LISTS_CALL(name_, argument_, function, folded_, help_)                                     \
	{                                                                                          \
		.name = (name_), .argument = (argument_), .help = (help_), .kind = OPTION_TAKE,    \
		.take = (function), .about_lists = true, .folded = (folded_)                       \
	}

#define ARCH_HELP    "the node's architecture, as uname -m prints it, or Debian's name for it"
#define ARCH_DEFAULT "[that of the kernel or the images, else this machine's"

static const struct option_row common_rows[] = {
	LISTS("os", "ID", OPTION_TEXT, os, false,
		"the node's distribution [that of the images, else guessed from the kernel\n"
		"release]"),
	{ .name = "arch",
		.argument = "ARCH",
		.kind = OPTION_TAKE,
		.take = take_arch,
		.about_lists = true,
		.help = ARCH_HELP "\n" ARCH_DEFAULT "]",
		.help_several = ARCH_HELP ";\nor a list, x86_64,aarch64 " ARCH_DEFAULT
					  ";\nplan: of each node]" },
	LISTS("mirror", "URL", OPTION_LIST, mirrors, true,
		"mirror of the distribution's packages; NAME=URL sets only the catalogue's\n"
		"mirror NAME; may be repeated [mirrors.ini, then the system's apt sources,\n"
		"then the official mirrors, except for Debian]"),
	LISTS("keyring", "FILE", OPTION_TEXT, keyring, true,
		"check package lists with these OpenPGP keys [the distribution's]"),
	LISTS_CALL("accept-key", "FINGERPRINT", take_accepted_key, true,
		"trust the distribution's key with this fingerprint; it is fetched if this\n"
		"machine does not have it; may be repeated"),
	LISTS("allow-unsigned", NULL, OPTION_FLAG, allow_unsigned, true,
		"accept package lists and packages whose signature is missing or cannot be\n"
		"checked; a wrong signature is never accepted"),
	LISTS("allow-expired", NULL, OPTION_FLAG, allow_expired, true,
		"accept package lists past their Valid-Until date"),
	LISTS_CALL("snapshot", "TIME", take_snapshot, true,
		"use the distribution's archive as of this time: 20260901T000000Z"),
	COMMON("cache", 0, "DIR", OPTION_TEXT, cache,
		"folder for downloads and finished build stages [~/.cache/slipway]"),
	COMMON("offline", 0, NULL, OPTION_FLAG, offline, "use only the cache and open no socket"),
	LISTS("refresh", NULL, OPTION_FLAG, refresh, false,
		"refetch package lists even if the cached ones are recent"),
	COMMON("json", 0, NULL, OPTION_FLAG, json, "print JSON to stdout"),
	COMMON("quiet", 'q', NULL, OPTION_FLAG, quiet,
		"print no progress: only the result and errors"),
	COMMON("verbose", 'v', NULL, OPTION_FLAG, verbose,
		"print each step and compiled file, and where the logs are"),
	COMMON("help", 'h', NULL, OPTION_FLAG, help, "show this help"),
	COMMON("help-all", 0, NULL, OPTION_FLAG, help_all,
		"also show the options about mirrors, keys and package lists"),
};

void common_options_free(struct common_options *options)
{
	strv_free(&options->archs);
	strv_free(&options->mirrors);
	strv_free(&options->accept_keys);
}

/* One of the words of a list, "cache json help"; @length bytes at @word. */
static bool has_word(const char *list, const char *word, size_t length)
{
	for (; *list; list += strspn(list, " ")) {
		size_t size = strcspn(list, " ");

		if (size == length && strncmp(list, word, size) == 0)
			return true;
		list += size;
	}
	return false;
}

static bool takes_common(const struct option_table *table, const struct option_row *row)
{
	return !table->only_common || has_word(table->only_common, row->name, strlen(row->name));
}

size_t options_count_common(char *const *argv)
{
	size_t count = 0;

	for (size_t i = 0; argv[count] && i < ARRAY_SIZE(common_rows);) {
		const struct option_row *row = &common_rows[i++];
		const char *word = argv[count];
		size_t length = strlen(row->name);
		bool by_letter =
			row->letter && word[0] == '-' && word[1] == row->letter && !word[2];
		bool by_name = strncmp(word, "--", 2) == 0 &&
			       strncmp(word + 2, row->name, length) == 0 &&
			       (!word[2 + length] || word[2 + length] == '=');

		if (!by_letter && !by_name)
			continue;
		count += 1 + (row->argument && !strchr(word, '=') && argv[count + 1]);
		i = 0;
	}
	return count;
}

int common_options_refuse_lists(
	const struct common_options *options, const char *why, struct error *error)
{
	if (!options->about_lists)
		return 0;
	(void) error_set(error, -EINVAL, "--%s: %s", options->about_lists, why);
	return error_try(error, -EINVAL, "leave out --%s", options->about_lists);
}

/* --- --help --- */

static size_t print_name(const struct option_row *row)
{
	char text[128];

	if (row->kind == OPTION_WORD)
		(void) snprintf(text, sizeof(text), "%s", row->argument);
	else
		(void) snprintf(text, sizeof(text), "%s%.1s%s%s%s%s%s", row->letter ? "-" : "",
			row->letter ? &row->letter : "", row->letter && row->name ? ", " : "",
			row->name ? "--" : "", row->name ? row->name : "", row->argument ? " " : "",
			row->argument ? row->argument : "");
	(void) fputs(text, stdout);
	return strlen(text);
}

static void print_rows(const struct option_row *rows, size_t count, size_t column, bool with_folded)
{
	size_t width = 0;

	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *own = message_paths(rows[i].help ? rows[i].help : "");
		const char *help = rows[i].help ? own : NULL;

		if ((help && !*help) || (rows[i].folded && !with_folded))
			continue;
		if (rows[i].kind == OPTION_GROUP) {
			(void) printf("%s%s:\n", i ? "\n" : "", help);
			continue;
		}
		width += (size_t) printf("%s", width ? ", " : "  ");
		width += print_name(&rows[i]);
		if (!help)
			continue;
		if (width >= column && *help != ' ')
			(void) printf("\n%*s", (int) column, "");
		else if (width < column)
			(void) printf("%*s", (int) (column - width), "");
		for (; *help; help++)
			if (*help == '\n')
				(void) printf("\n%*s", help[1] ? (int) column : 0, "");
			else
				(void) putchar(*help);
		(void) putchar('\n');
		width = 0;
	}
}

static void print_help(const struct option_table *table, bool all)
{
	_cleanup_free_ char *usage = message_paths(table->usage);

	(void) fputs(usage, stdout);
	print_rows(table->rows, table->count, table->column ? table->column : COLUMN, all);
	if (table->notes)
		(void) fputs(table->notes, stdout);
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++) {
		struct option_row row = common_rows[i];

		if (table->several_archs && row.help_several)
			row.help = row.help_several;
		if (takes_common(table, &common_rows[i]))
			print_rows(&row, 1, COLUMN, all);
	}
	if (table->examples)
		(void) printf("\nExamples:\n%s", table->examples);
}

/* --- arguments --- */

struct parser {
	const struct option_table *table;
	char **argv;  /* what is left of it */
	char **words; /* behind the last one that is no option: they take the places of what was
			 read */
	void *target;
	const char **given; /* of each row that was given its last value, "" where it takes none */
	const char *argument; /* the first that is no option, or NULL */
};

size_t options_row_count(const struct option_table *table)
{
	return table->count + ARRAY_SIZE(common_rows);
}

const struct option_row *options_row(const struct option_table *table, size_t i)
{
	const struct option_row *row =
		i < table->count ? &table->rows[i] : &common_rows[i - table->count];

	return i < table->count || takes_common(table, row) ? row : NULL;
}

/* Is it the row of a name of @length bytes, or else of a letter? */
static bool is_row(const struct option_row *row, const char *name, size_t length, char letter)
{
	if (!row || row->kind == OPTION_WORD || row->kind == OPTION_GROUP)
		return false;
	return name ? row->name && strncmp(row->name, name, length) == 0 && !row->name[length]
		    : row->letter == letter;
}

static const struct option_row *find_row(const struct option_table *table, const char *name,
	size_t length, char letter, size_t *ret_index)
{
	for (size_t i = 0; i < options_row_count(table); i++)
		if (is_row(options_row(table, i), name, length, letter)) {
			*ret_index = i;
			return options_row(table, i);
		}
	return NULL;
}

/*
 * Other programs have options of these names. The cure does the same here, and is for verbs that
 * have @option; NULL: for all.
 */
static const struct {
	const char *words; /* each with a blank before and behind it */
	const char *option;
	const char *cure;
} known_elsewhere[] = {
	{ " --debug ", "verbose", "--verbose" },
	{ " -v --verbose ", "json", "--json has everything that is known" },
	{ " -q --quiet ", NULL, "2>/dev/null hides the progress: only the result goes to stdout" },
	{ " -j ", "jobs", "--jobs" },
	{ " -t --tag ", "output",
		"buildah tag IMAGE NAME adds another; the operators ask for the tag that slipway "
		"sets" },
	{ " -c --config ", NULL,
		"mirrors and keys are set in /etc/slipway/mirrors.ini; everything else is an "
		"option" },
};

static bool has_option(const struct option_table *table, const char *name)
{
	size_t index;

	return find_row(table, name, strlen(name), 0, &index);
}

/* @near: the option that may have been meant, or NULL. */
static int refuse(
	const struct option_table *table, const char *word, const char *near, struct error *error)
{
	_cleanup_free_ char *sought = xasprintf(" %s ", word);

	for (size_t i = 0; i < ARRAY_SIZE(known_elsewhere); i++) {
		const char *option = known_elsewhere[i].option;

		if (!strstr(known_elsewhere[i].words, sought) ||
			(option && !has_option(table, option)))
			continue;
		(void) error_set(error, -EINVAL, "%s: no such option", word);
		return error_try(error, -EINVAL, "%s", known_elsewhere[i].cure);
	}
	return error_set(error, -EINVAL, "%s: no such option%s%s%s", word,
		near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

static int refuse_name(
	const struct option_table *table, const char *word, size_t length, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = xstrndup(word, length + 2);
	const char *near;

	/* nearest_word() takes the last of several that begin so: here the table's first. */
	for (size_t i = options_row_count(table); i-- > 0;)
		if (options_row(table, i) && options_row(table, i)->name)
			xstrv_push(&names, options_row(table, i)->name);
	near = nearest_word(&names, text + 2);
	return refuse(table, text, near, error);
}

static int take_number(const struct option_row *row, const char *name, const char *text, void *slot,
	struct error *error)
{
	char *end;
	unsigned long number;
	bool jobs = row->kind == OPTION_JOBS;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || number > (jobs ? 4096 : INT_MAX) ||
		number < (unsigned long) jobs)
		return error_set(error, -EINVAL, "%s %s: not a number%s", name, text,
			jobs ? " from 1 to 4096" : "");
	if (jobs)
		*(unsigned int *) slot = (unsigned int) number;
	else
		*(int *) slot = (int) number;
	return 0;
}

static int store(struct parser *parser, size_t index, const char *name, const char *value,
	struct error *error)
{
	const struct option_table *table = parser->table;
	const struct option_row *row = options_row(table, index);
	void *target = (char *) parser->target + (index < table->count ? 0 : table->common);
	void *slot = (char *) target + row->offset;

	if (parser->given[index] && (row->kind == OPTION_TEXT || row->kind == OPTION_NUMBER ||
					    row->kind == OPTION_JOBS))
		return error_set(error, -EINVAL, "%s is given twice: %s and %s", name,
			parser->given[index], value);
	parser->given[index] = value ? value : "";
	if (row->about_lists && !((struct common_options *) target)->about_lists)
		((struct common_options *) target)->about_lists = row->name;
	if (!value) { /* OPTION_FLAG */
		*(bool *) slot = true;
		return 0;
	}
	if (!*value)
		return error_set(error, -EINVAL, "%s: the value is empty", name);
	if (row->kind == OPTION_TAKE)
		return row->take(target, value, error);
	if (row->kind == OPTION_NUMBER || row->kind == OPTION_JOBS)
		return take_number(row, name, value, slot, error);
	if (row->kind == OPTION_LIST)
		return strv_push(slot, value) < 0 ? error_set_errno(error, -ENOMEM, "%s", name) : 0;
	*(const char **) slot = value;
	return 0;
}

/* "--name", "--name=VALUE" or "--name VALUE" */
static int parse_name(struct parser *parser, struct error *error)
{
	char *word = *parser->argv++;
	size_t length = strcspn(word + 2, "=");
	const char *value = word[2 + length] ? word + 3 + length : NULL;
	size_t index;
	const struct option_row *row = find_row(parser->table, word + 2, length, 0, &index);
	char name[64];

	if (!row)
		return refuse_name(parser->table, word, length, error);
	if (value && !row->argument)
		return error_set(error, -EINVAL, "%s: this option takes no value", word);
	if (!value && row->argument)
		value = *parser->argv;
	if (!value && row->argument)
		return error_set(error, -EINVAL, "%s needs a value", word);
	parser->argv += row->argument && value == *parser->argv;
	(void) snprintf(name, sizeof(name), "--%s", row->name);
	return store(parser, index, name, value, error);
}

/* "-n", "-oVALUE", "-o VALUE", and several that take none: "-nh" */
static int parse_letters(struct parser *parser, struct error *error)
{
	const char *letters = *parser->argv++ + 1;

	for (; *letters; letters++) {
		size_t index;
		const struct option_row *row = find_row(parser->table, NULL, 0, *letters, &index);
		const char name[] = { '-', *letters, '\0' };
		const char *value = row && row->argument ? letters + 1 : NULL;
		int r;

		if (!row)
			return refuse(parser->table, name, NULL, error);
		if (value && !*value)
			value = *parser->argv ? *parser->argv++ : NULL;
		if (row->argument && !value)
			return error_set(error, -EINVAL, "%s needs a value", name);
		r = store(parser, index, name, value, error);
		if (r < 0 || row->argument)
			return r;
	}
	return 0;
}

/* --- what goes together --- */

/*
 * The first of the words of a rule that is on the command line, as it is written there, freed by
 * the caller; NULL when none is.
 */
static char *find_given(const struct parser *parser, const char *words)
{
	_cleanup_strv_ struct strv list = { 0 };

	if (words)
		xstrv_split(&list, words, " ");
	for (size_t k = 0; k < list.count; k++) {
		const char *word = list.items[k];
		size_t length = strcspn(word, "=");
		const char *value = word[length] ? word + length + 1 : NULL;

		if (strcmp(word, OPTION_RULE_ARGUMENT) == 0 && parser->argument)
			return xstrdup(parser->argument);
		for (size_t i = 0; i < options_row_count(parser->table); i++) {
			const char *given = parser->given[i];
			bool letter = length == 1;

			if (!given || (value && strcmp(given, value) != 0) ||
				!is_row(options_row(parser->table, i), letter ? NULL : word, length,
					*word))
				continue;
			return xasprintf("%s%.*s%s%s", letter ? "-" : "--", (int) length, word,
				value ? " " : "", value ? value : "");
		}
	}
	return NULL;
}

/* "--a", "--a or --b", "--a, --b or --c": what a rule needs. */
static char *list_names(const char *words)
{
	_cleanup_strv_ struct strv list = { 0 };
	char *text = xstrdup("");

	xstrv_split(&list, words, " ");
	for (size_t i = 0; i < list.count; i++) {
		char *sign = strchr(list.items[i], '=');
		char *longer;

		if (sign)
			*sign = ' ';
		longer = xasprintf("%s%s--%s", text,
			i == 0                ? ""
			: i + 1 == list.count ? " or "
					      : ", ",
			list.items[i]);
		free(text);
		text = longer;
	}
	return text;
}

static int check_rule(
	const struct parser *parser, const struct option_rule *rule, struct error *error)
{
	_cleanup_free_ char *given = find_given(parser, rule->given);
	_cleanup_free_ char *needed = find_given(parser, rule->needs);
	_cleanup_free_ char *refused = find_given(parser, rule->refuses);
	_cleanup_free_ char *excuse = find_given(parser, rule->unless);
	_cleanup_free_ char *names = NULL;
	int r;

	if ((rule->given && !given) || excuse || (rule->needs ? needed != NULL : !refused))
		return 0;
	if (!rule->given)
		return error_set(error, -EINVAL, "%s", rule->why);
	if (refused) {
		r = error_set(error, -EINVAL, "%s and %s cannot be combined: %s", given, refused,
			rule->why);
		return error_try(error, r, "leave out %s", refused);
	}
	names = list_names(rule->needs);
	return error_set(error, -EINVAL, "%s needs %s: %s", given, names, rule->why);
}

/* These hold for every verb. */
static const struct option_rule common_rules[] = {
	{ .given = "offline", .refuses = "refresh", .why = "--refresh asks the mirrors" },
	{ .given = "quiet", .refuses = "verbose", .why = "one hides what the other shows" },
};

static int check_rules(const struct parser *parser, const struct option_rule *rules, size_t count,
	struct error *error)
{
	for (size_t i = 0; i < count; i++) {
		int r = check_rule(parser, &rules[i], error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* --- all of it --- */

static int parse_words(struct parser *parser, struct error *error)
{
	bool only_words = false;

	while (*parser->argv) {
		const char *word = *parser->argv;
		int r = 0;

		if (!only_words && strcmp(word, "--") == 0) {
			only_words = true;
			parser->argv++;
		} else if (!only_words && strncmp(word, "--", 2) == 0) {
			r = parse_name(parser, error);
		} else if (!only_words && word[0] == '-' && word[1]) {
			r = parse_letters(parser, error);
		} else {
			*parser->words++ = *parser->argv++;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_words(struct parser *parser, char **argv, struct error *error)
{
	const struct option_table *table = parser->table;

	for (; argv < parser->words; argv++) {
		int r;

		if (!**argv)
			return error_set(error, -EINVAL, "an argument is empty");
		if (!parser->argument)
			parser->argument = *argv;
		r = table->take_argument
			    ? table->take_argument(parser->target, *argv, error)
			    : error_set(error, -EINVAL, "%s: unexpected argument", *argv);
		if (r < 0)
			return r;
	}
	return 0;
}

static int refuse_archs(
	const struct option_table *table, const struct common_options *common, struct error *error)
{
	_cleanup_free_ char *names = xstrv_join(&common->archs, ",");

	(void) error_set(error, -EINVAL, "--arch %s: slipway %s takes one architecture at a time",
		names, table->verb);
	return error_try(error, -EINVAL, "--arch %s", common->arch);
}

static int parse(const struct option_table *table, char **argv, void *target, struct error *error)
{
	const struct common_options *common =
		(const void *) ((const char *) target + table->common);
	_cleanup_free_ const char **given = xcalloc(options_row_count(table), sizeof(*given));
	struct parser parser = {
		.table = table, .argv = argv, .words = argv, .target = target, .given = given
	};
	int r = parse_words(&parser, error);

	if (r == 0)
		r = take_words(&parser, argv, error);
	if (r < 0 || common->help || common->help_all)
		return r;
	r = check_rules(&parser, common_rules, ARRAY_SIZE(common_rules), error);
	if (r == 0 && common->archs.count > 1 && !table->several_archs)
		r = refuse_archs(table, common, error);
	if (r == 0)
		r = check_rules(&parser, table->rules, table->rule_count, error);
	return r == 0 && table->check ? table->check(target, error) : r;
}

bool options_is_word(const char *word, const char *name, char letter, bool *ret_follows)
{
	const size_t length = strlen(name);
	const char *place =
		letter && word[0] == '-' && word[1] != '-' ? strchr(word, letter) : NULL;

	*ret_follows = !(place ? place + 1 : word + strnlen(word, length))[0];
	return place ||
	       (strncmp(word, name, length) == 0 && (!word[length] || word[length] == '='));
}

bool options_start(const struct option_table *table, char **argv, void *target, int *ret_code)
{
	const struct common_options *common =
		(const void *) ((const char *) target + table->common);
	struct error error = { 0 };

	if (parse(table, argv + 1, target, &error) < 0) {
		_cleanup_free_ char *who = xasprintf("slipway %s", table->verb);

		message_error(stderr, who, &error);
		(void) fprintf(stderr, "See slipway %s --help for the options\n", table->verb);
		*ret_code = EXIT_CODE_USAGE;
		return false;
	}
	if (common->help || common->help_all) {
		print_help(table, common->help_all);
		*ret_code = EXIT_CODE_OK;
		return false;
	}
	return true;
}

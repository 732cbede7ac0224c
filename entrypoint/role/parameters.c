/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/parameters.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "entrypoint/role/modset.h"

#define NAME_SIZE 128

/* What the kernel takes for a string at most: param_set_charp(). */
#define STRING_MAX 1024

static const char white_space[] = " \t\r\v\f";

/* The end of the word at @word: the next blank that is not between '"'. NULL when a '"' is open. */
static const char *word_end(const char *word, const char *line_end)
{
	bool quoted = false;

	for (; word < line_end && (quoted || !strchr(white_space, *word)); word++)
		if (*word == '"')
			quoted = !quoted;
	return quoted ? NULL : word;
}

static bool is_writable(const char *word, const char *end)
{
	for (; word < end; word++)
		if (iscntrl((unsigned char) *word))
			return false;
	return end[-1] != '\\'; /* modprobe.d would go on with the next line */
}

static bool same_letters(const char *one, const char *other, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((one[i] == '-' ? '_' : one[i]) != (other[i] == '-' ? '_' : other[i]))
			return false;
	return true;
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && strchr(white_space, *at))
		at++;
	return at;
}

static bool is_word(const char *at, const char *end, const char *word)
{
	size_t length = strlen(word);

	return (size_t) (end - at) == length && same_letters(at, word, length);
}

/* "options nvidia NVreg_…=…": people know that form from modprobe.d. */
static const char *skip_options(const char *line, const char *end, const char *module)
{
	const char *first = word_end(line, end);
	const char *name = first ? skip_blanks(first, end) : NULL;
	const char *rest = name ? word_end(name, end) : NULL;

	return rest && is_word(line, first, "options") && is_word(name, rest, module)
		       ? skip_blanks(rest, end)
		       : line;
}

static int split_line(const char *at, const char *end, unsigned number, struct strv *parameters,
	struct error *error)
{
	while ((at = skip_blanks(at, end)) < end) {
		const char *rest = word_end(at, end);

		if (!rest)
			return error_set(error, -EINVAL, "line %u: a \" has no other", number);
		if (!is_writable(at, rest))
			return error_set(error, -EINVAL,
				"line %u: a control character, or a \\ at a word's end", number);
		if (strv_pushf(parameters, "%.*s", (int) (rest - at), at) < 0)
			return error_set_errno(error, -ENOMEM, "line %u", number);
		at = rest;
	}
	return 0;
}

int parameter_split(
	const char *text, const char *module, struct strv *parameters, struct error *error)
{
	for (unsigned number = 1; *text; number++) {
		const char *end = text + strcspn(text, "\n");
		const char *line = skip_blanks(text, end);
		int r = *line == '#' ? 0
				     : split_line(skip_options(line, end, module), end, number,
					       parameters, error);

		if (r < 0)
			return r;
		text = end + (*end == '\n');
	}
	return 0;
}

bool parameter_is(const char *parameter, const char *name)
{
	size_t length = strcspn(parameter, "=");

	return strlen(name) == length && same_letters(parameter, name, length);
}

void parameters_taken_free(struct parameters_taken *taken)
{
	strv_free(&taken->types);
	strv_free(&taken->described);
}

/* Appends the part before ':' of "name:what". */
static int push_names(const struct strv *entries, struct strv *names)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < entries->count; i++) {
		const char *entry = entries->items[i];
		char name[NAME_SIZE];

		(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(entry, ":"), entry);
		r = strv_push_unique(names, name);
	}
	return r;
}

/* module_param() writes a type for each, a parameter of the kernel's own has none. */
const char *parameter_type(const struct parameters_taken *taken, const char *parameter)
{
	size_t length = strcspn(parameter, "=");

	for (size_t i = 0; i < taken->types.count; i++) {
		const char *entry = taken->types.items[i];

		if (strcspn(entry, ":") == length && entry[length] == ':' &&
			same_letters(entry, parameter, length))
			return entry + length + 1;
	}
	return NULL;
}

bool parameter_exists(const struct parameters_taken *taken, const char *name)
{
	return parameter_type(taken, name) != NULL;
}

struct number_type {
	const char *name;
	bool has_sign;
	int bits;
	int base; /* 0: by its prefix */
};

static const struct number_type number_types[] = {
	{ "byte", false, 8, 0 },
	{ "short", true, 16, 0 },
	{ "ushort", false, 16, 0 },
	{ "int", true, 32, 0 },
	{ "uint", false, 32, 0 },
	{ "long", true, 64, 0 },
	{ "ulong", false, 64, 0 },
	{ "ullong", false, 64, 0 },
	{ "hexint", false, 32, 16 },
};

/* As kstrtoint() and its like read it: one sign at most, nothing before or after. */
static bool is_number(const char *value, const struct number_type *type)
{
	bool negative = *value == '-';
	const char *digits = value + (negative || *value == '+');
	uint64_t limit = type->bits == 64 ? UINT64_MAX : (UINT64_C(1) << type->bits) - 1;
	unsigned long long number;
	char *end;

	if ((negative && !type->has_sign) || !isxdigit((unsigned char) *digits))
		return false;
	if (type->has_sign)
		limit = limit / 2 + negative;
	errno = 0;
	number = strtoull(digits, &end, type->base);
	return !errno && !*end && number <= limit;
}

static bool is_truth(const char *value)
{
	if (tolower((unsigned char) *value) == 'o')
		return strchr("nNfF", value[1]) && value[1];
	return *value && strchr("yYtT1nNfF0", *value);
}

static bool is_truth_type(const char *type)
{
	return strcmp(type, "bool") == 0 || strcmp(type, "invbool") == 0 ||
	       strcmp(type, "bint") == 0;
}

static bool fits_type(const char *value, const char *type)
{
	if (is_truth_type(type))
		return is_truth(value);
	if (strcmp(type, "charp") == 0)
		return strlen(value) <= STRING_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(number_types); i++)
		if (strcmp(type, number_types[i].name) == 0)
			return is_number(value, &number_types[i]);
	return true;
}

/* The value without the '"' that may stand around it, as next_arg() takes them off. */
static const char *strip_quotes(char *value)
{
	size_t length = strlen(value);

	if (length < 2 || value[0] != '"' || value[length - 1] != '"')
		return value;
	value[length - 1] = '\0';
	return value + 1;
}

static int check_value(const char *parameter, const char *type, struct error *error)
{
	const char *equals = strchr(parameter, '=');
	_cleanup_free_ char *value = equals ? strdup(equals + 1) : NULL;

	if (!equals && is_truth_type(type))
		return 0;
	if (!equals)
		return error_set(error, -EINVAL,
			"%.100s has no value: write %.100s=VALUE, of type %s", parameter, parameter,
			type);
	if (!value)
		return error_set_errno(error, -ENOMEM, "%s", parameter);
	if (fits_type(strip_quotes(value), type))
		return 0;
	return error_set(error, -EINVAL, "%.100s: the kernel takes no such value: it is of type %s",
		parameter, type);
}

/* The kernel's own, of every module: unknown_module_param_cb() in kernel/module/main.c. */
static bool is_kernels_own(const char *parameter)
{
	return parameter_is(parameter, "async_probe") || parameter_is(parameter, "dyndbg");
}

static int refuse_name(
	const struct parameters_taken *taken, const char *parameter, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	char name[NAME_SIZE];
	const char *nearest;
	int r;

	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(parameter, "="), parameter);
	r = push_names(&taken->types, &names);
	if (r == 0)
		r = push_names(&taken->described, &names);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	for (size_t i = 0; i < names.count; i++)
		if (parameter_is(name, names.items[i]))
			return 0; /* described, but without a type */
	nearest = nearest_word(&names, name);
	if (nearest)
		return error_set(error, -EINVAL, "the module has no parameter %s: did you mean %s?",
			name, nearest);
	return error_set(error, -EINVAL,
		"the module has no parameter %s: modinfo -p lists the %zu that it has", name,
		names.count);
}

int parameter_check(
	const struct parameters_taken *taken, const char *parameter, struct error *error)
{
	const char *type = parameter_type(taken, parameter);

	if (type)
		return check_value(parameter, type, error);
	return is_kernels_own(parameter) ? 0 : refuse_name(taken, parameter, error);
}

/* ---- of a loaded module */

/* What param_get_charp() prints for a string that was never set. */
#define NEVER_SET "(null)"

static bool is_passable(const char *value)
{
	for (; *value; value++)
		if (*value == '"' || iscntrl((unsigned char) *value))
			return false;
	return true;
}

static int push_parameter(int root_fd, const char *module, const char *name, struct strv *words)
{
	_cleanup_free_ char *value = NULL;
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters/%s", module, name);
	r = fs_read_line(root_fd, path, &value);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || strcmp(value, NEVER_SET) == 0 || !is_passable(value))
		return 0;
	return strv_pushf(words, strpbrk(value, " \t") ? "%s=\"%s\"" : "%s=%s", name, value);
}

static char *join_words(const struct strv *words)
{
	return words->count ? strv_join(words, " ") : strdup("");
}

int parameters_now(int root_fd, const char *module, char **ret_options)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters", module);
	if (fs_list(root_fd, path, &names) == -ENOMEM) /* most modules have no such folder */
		return -ENOMEM;
	for (size_t i = 0; i < names.count; i++) {
		r = push_parameter(root_fd, module, names.items[i], &words);
		if (r < 0)
			return r;
	}
	*ret_options = join_words(&words);
	return *ret_options ? 0 : -ENOMEM;
}

/*
 * Types whose set function reads what the get function shows: those of kernel/params.c. A type of
 * the module's own making may show one thing and take another.
 */
static bool is_plain_type(const char *type)
{
	static const char *const plain[] = { "bool", "invbool", "bint", "byte", "short", "ushort",
		"int", "uint", "long", "ulong", "ullong", "hexint", "charp", "string" };
	static const char array[] = "array of ";

	if (strncmp(type, array, strlen(array)) == 0)
		type += strlen(array);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (strcmp(type, plain[i]) == 0)
			return true;
	return false;
}

static bool is_taken(const struct parameters_taken *taken, const char *word)
{
	const char *type = parameter_type(taken, word);
	struct error ignored;

	return type && is_plain_type(type) && parameter_check(taken, word, &ignored) == 0;
}

static int choose(const struct parameters_taken *taken, const struct strv *words,
	struct strv *chosen, struct strv *left_out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < words->count; i++) {
		if (is_taken(taken, words->items[i]))
			r = strv_push(chosen, words->items[i]);
		else if (left_out)
			r = strv_push(left_out, words->items[i]);
	}
	return r;
}

int parameters_for_file(const struct elf_module *file, const char *options, char **ret_options,
	struct strv *left_out)
{
	_cleanup_(parameters_taken_free) struct parameters_taken taken = { 0 };
	_cleanup_strv_ struct strv chosen = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	struct error ignored;
	int r = parameter_split(options, "", &words, &ignored);

	if (r == -EINVAL)
		strv_free(&words); /* damaged: better none than half of them */
	else if (r < 0)
		return r;
	r = elf_module_info_all(file, "parmtype", &taken.types);
	if (r >= 0)
		r = choose(&taken, &words, &chosen, left_out);
	if (r < 0)
		return r;
	*ret_options = join_words(&chosen);
	return *ret_options ? 0 : -ENOMEM;
}

/* ---- of the image's modules */

int role_parameters_remember(const struct role *role, struct loader *loader, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };

	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *module = role->driver_modules.items[i];
		_cleanup_free_ char *options = NULL;
		int r = loader_options(loader, module, &options, error);

		if (r < 0)
			return r;
		if (strv_pushf(&lines, "%s %s", module, options) < 0)
			return error_set_errno(error, -ENOMEM, "%s", module);
	}
	return role_list_write(role, ROLE_PARAMETERS_LIST, &lines, error);
}

const char *role_parameters_find(const struct strv *lines, const char *module)
{
	size_t length = strlen(module);

	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], module, length) == 0 && lines->items[i][length] == ' ')
			return lines->items[i] + length + 1;
	return NULL;
}

int role_parameters_changed(const struct role *role, struct loader *loader,
	const struct strv *present, struct worker *worker, bool *ret, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &lines);

	*ret = false;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set_errno(error, r, "list of parameters");
	for (size_t i = 0; i < present->count; i++) {
		const char *module = present->items[i];
		const char *then = role_parameters_find(&lines, module);
		_cleanup_free_ char *now = NULL;

		r = loader_options(loader, module, &now, error);
		if (r < 0)
			return r;
		if (!then || strcmp(then, now) == 0)
			continue;
		*ret = true;
		worker_report(worker, WORKER_NOTE, 0,
			"%s was loaded with \"%s\" and shall have \"%s\": it is loaded anew",
			module, then, now);
	}
	return 0;
}

int role_parameters_write(
	const struct role *role, const char *path, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = strv_push(lines, ""); /* the last line ends too */

	text = r < 0 ? NULL : strv_join(lines, "\n");
	r = text ? fs_mkdir_parents(role->root_fd, "etc/modprobe.d", 0755) : -ENOMEM;
	if (r == 0)
		r = fs_write_atomic(role->root_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path) : 0;
}

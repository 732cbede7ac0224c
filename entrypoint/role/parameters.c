/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/parameters.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "module/symvers.h"

#define NAME_SIZE   128
#define CONF_LIMIT  (64UL * 1024)
#define CONF_SUFFIX ".conf"

/* The longest string that the kernel takes: param_set_charp(). */
#define STRING_MAX 1024

static const char blanks[] = " \t\r\v\f";

static bool same_letters(const char *one, const char *other, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((one[i] == '-' ? '_' : one[i]) != (other[i] == '-' ? '_' : other[i]))
			return false;
	return true;
}

bool parameter_is(const char *parameter, const char *name)
{
	size_t length = strcspn(parameter, "=");

	return strlen(name) == length && same_letters(parameter, name, length);
}

/* Appends the words of a line; one ends at the next blank that is not between '"'. */
static int split_line(
	const char *at, const char *end, unsigned number, struct strv *words, struct error *error)
{
	for (;;) {
		const char *word;
		bool quoted = false;
		bool control = false;

		while (at < end && strchr(blanks, *at))
			at++;
		if (at == end)
			return 0;
		for (word = at; at < end && (quoted || !strchr(blanks, *at)); at++) {
			if (*at == '"')
				quoted = !quoted;
			control = control || iscntrl((unsigned char) *at);
		}
		if (quoted)
			return error_set(error, -EINVAL, "line %u: a \" is not closed", number);
		/* After a '\\', modprobe.d would go on with the next line. */
		if (control || at[-1] == '\\')
			return error_set(error, -EINVAL,
				"line %u: a control character, or a \\ at a word's end", number);
		if (strv_pushf(words, "%.*s", (int) (at - word), word) < 0)
			return error_set_errno(error, -ENOMEM, "line %u", number);
	}
}

int parameter_split(
	const char *text, const char *module, struct strv *parameters, struct error *error)
{
	for (unsigned number = 1; *text; number++) {
		const char *end = text + strcspn(text, "\n");
		_cleanup_strv_ struct strv words = { 0 };
		size_t i = 0;
		int r = 0;

		if (text[strspn(text, blanks)] != '#')
			r = split_line(text, end, number, &words, error);
		if (r < 0)
			return r;
		/* "options nvidia NVreg_…=…": people know that form from modprobe.d. */
		if (words.count > 1 && strcmp(words.items[0], "options") == 0 &&
			!strchr(words.items[1], '=') && parameter_is(words.items[1], module))
			i = 2;
		for (; i < words.count; i++)
			if (strv_push(parameters, words.items[i]) < 0)
				return error_set_errno(error, -ENOMEM, "line %u", number);
		text = end + (*end == '\n');
	}
	return 0;
}

bool parameters_conf_module(const char *file, char module[PARAMETERS_MODULE_SIZE])
{
	size_t length = strlen(file);
	size_t suffix = strlen(CONF_SUFFIX);

	if (length <= suffix || length - suffix >= PARAMETERS_MODULE_SIZE ||
		strcmp(file + length - suffix, CONF_SUFFIX) != 0)
		return false;
	module_name_copy(file, length - suffix, module, PARAMETERS_MODULE_SIZE);
	return true;
}

int parameters_read_conf(int root_fd, const char *module, struct strv *parameters,
	struct strv *paths, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(root_fd, CONTRACT_MODULE_CONF, &files);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "/" CONTRACT_MODULE_CONF);
	for (size_t i = 0; i < files.count; i++) {
		char about[PARAMETERS_MODULE_SIZE];
		_cleanup_free_ char *text = NULL;
		char path[512];

		if (!parameters_conf_module(files.items[i], about) || strcmp(about, module) != 0)
			continue;
		(void) snprintf(path, sizeof(path), CONTRACT_MODULE_CONF "/%s", files.items[i]);
		r = fs_read(root_fd, path, CONF_LIMIT, &text, NULL);
		if (r < 0)
			return error_set_errno(error, r, "/%s", path);
		r = parameter_split(text, module, parameters, error);
		if (r < 0)
			return error_prefix(error, r, "/%s", path);
		if (paths && strv_pushf(paths, "/%s", path) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", path);
	}
	return 0;
}

void parameters_taken_free(struct parameters_taken *taken)
{
	strv_free(&taken->types);
	strv_free(&taken->described);
}

/* ---- names and types */

/* module_param() writes a type for each, a parameter of the kernel's own has none. */
static const char *find_type(const struct parameters_taken *taken, const char *parameter)
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
	return find_type(taken, name) != NULL;
}

enum type_class { TYPE_TRUTH, TYPE_NUMBER, TYPE_STRING };

/* Types of kernel/params.c whose set function reads what the get function shows. */
static const struct type {
	const char *name;
	enum type_class class;
	bool has_sign;
	int bits;
	int base; /* 0: by its prefix */
} types[] = {
	{ "bool", TYPE_TRUTH, false, 0, 0 },
	{ "invbool", TYPE_TRUTH, false, 0, 0 },
	{ "bint", TYPE_TRUTH, false, 0, 0 },
	{ "charp", TYPE_STRING, false, 0, 0 },
	{ "byte", TYPE_NUMBER, false, 8, 0 },
	{ "short", TYPE_NUMBER, true, 16, 0 },
	{ "ushort", TYPE_NUMBER, false, 16, 0 },
	{ "int", TYPE_NUMBER, true, 32, 0 },
	{ "uint", TYPE_NUMBER, false, 32, 0 },
	{ "long", TYPE_NUMBER, true, 64, 0 },
	{ "ulong", TYPE_NUMBER, false, 64, 0 },
	{ "ullong", TYPE_NUMBER, false, 64, 0 },
	{ "hexint", TYPE_NUMBER, false, 32, 16 },
};

/* NULL for a type of the module's own making, an array, or a string of fixed size. */
static const struct type *type_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

/* As kstrtoint() and its like read it: one sign at most, nothing before or after. */
static bool is_number(const char *value, const struct type *type)
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

/* The '"' that may stand around a value are taken off first, as next_arg() does. */
static bool fits_type(char *value, const struct type *type)
{
	size_t length = strlen(value);

	if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
		value[length - 1] = '\0';
		value++;
	}
	switch (type->class) {
	case TYPE_TRUTH:
		return is_truth(value);
	case TYPE_STRING:
		return strlen(value) <= STRING_MAX;
	default:
		return is_number(value, type);
	}
}

static int check_value(const char *parameter, const char *type_name, struct error *error)
{
	const struct type *type = type_of(type_name);
	const char *equals = strchr(parameter, '=');
	_cleanup_free_ char *value = equals ? strdup(equals + 1) : NULL;

	if (!equals && type && type->class == TYPE_TRUTH)
		return 0;
	if (!equals)
		return error_set(error, -EINVAL,
			"%.100s has no value: write %.100s=VALUE, of type %s", parameter, parameter,
			type_name);
	if (!value)
		return error_set_errno(error, -ENOMEM, "%s", parameter);
	if (!type || fits_type(value, type))
		return 0;
	return error_set(error, -EINVAL,
		"%.100s: the kernel does not accept this value: the parameter is of type %s",
		parameter, type_name);
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

int parameter_check(
	const struct parameters_taken *taken, const char *parameter, struct error *error)
{
	const char *type = find_type(taken, parameter);
	_cleanup_strv_ struct strv names = { 0 };
	char name[NAME_SIZE];
	const char *nearest;

	if (type)
		return check_value(parameter, type, error);
	/* The kernel's own, of every module: unknown_module_param_cb() in kernel/module/main.c. */
	if (parameter_is(parameter, "async_probe") || parameter_is(parameter, "dyndbg"))
		return 0;
	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(parameter, "="), parameter);
	if (push_names(&taken->types, &names) < 0 || push_names(&taken->described, &names) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	for (size_t i = 0; i < names.count; i++)
		if (parameter_is(name, names.items[i]))
			return 0; /* described, but without a type */
	nearest = nearest_word(&names, name);
	if (nearest)
		return error_set(error, -ENOENT, "the module has no parameter %s: did you mean %s?",
			name, nearest);
	return error_set(error, -ENOENT,
		"the module has no parameter %s: modinfo -p lists the %zu that it has", name,
		names.count);
}

/* ---- of a loaded module */

/* param_get_charp() prints this for a string that was never set. */
#define NEVER_SET "(null)"

static bool is_passable(const char *value)
{
	for (; *value; value++)
		if (*value == '"' || iscntrl((unsigned char) *value))
			return false;
	return true;
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

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters", module);
	if (fs_list(root_fd, path, &names) == -ENOMEM) /* most modules have no such folder */
		return -ENOMEM;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *value = NULL;
		int r;

		(void) snprintf(
			path, sizeof(path), "sys/module/%s/parameters/%s", module, names.items[i]);
		r = fs_read_line(root_fd, path, &value);
		if (r == -ENOMEM)
			return r;
		if (r < 0 || strcmp(value, NEVER_SET) == 0 || !is_passable(value))
			continue;
		if (strv_pushf(&words, strpbrk(value, " \t") ? "%s=\"%s\"" : "%s=%s",
			    names.items[i], value) < 0)
			return -ENOMEM;
	}
	*ret_options = join_words(&words);
	return *ret_options ? 0 : -ENOMEM;
}

/* A type of the module's own making may show one thing and take another. */
static bool is_taken(const struct parameters_taken *taken, const char *word)
{
	static const char array[] = "array of ";
	const char *type = find_type(taken, word);
	struct error ignored;

	if (!type || parameter_check(taken, word, &ignored) < 0)
		return false;
	if (strncmp(type, array, strlen(array)) == 0)
		type += strlen(array);
	return type_of(type) || strcmp(type, "string") == 0;
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
	for (size_t i = 0; r >= 0 && i < words.count; i++) {
		if (is_taken(&taken, words.items[i]))
			r = strv_push(&chosen, words.items[i]);
		else if (left_out)
			r = strv_push(left_out, words.items[i]);
	}
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
	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "list of parameters");
	for (size_t i = 0; i < present->count; i++) {
		const char *module = present->items[i];
		const char *then = role_parameters_find(&lines, module);
		_cleanup_free_ char *now = NULL;

		r = loader_options(loader, module, &now, error);
		if (r < 0)
			return r;
		/* The kernel does not show them, and reloading it would stop a probe that loaded
		 * it with these. */
		if (!then && *now)
			worker_report(worker, WORKER_NOTE, 0,
				"%s was not loaded by this container and may have other parameters than \"%s\": set them in the host's modprobe.d, too",
				module, now);
		if (!then || strcmp(then, now) == 0)
			continue;
		*ret = true;
		worker_report(worker, WORKER_NOTE, 0,
			"%s: parameters changed from \"%s\" to \"%s\": reloading it", module, then,
			now);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/parameters_now.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "common/fs.h"

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
	r = fs_list(root_fd, path, &names);
	if (r == -ENOMEM)
		return r;
	r = 0; /* most modules have no such folder */
	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = push_parameter(root_fd, module, names.items[i], &words);
	if (r < 0)
		return r;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/compare.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/role/loaded.h"
#include "entrypoint/role/parameter.h"
#include "entrypoint/role/role_parameters.h"
#include "module/elf.h"
#include "module/sysmodule.h"

static int compare_builds(
	const struct comparison *comparison, const char *module, bool *ret_same, struct error *why)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *path = NULL;
	int r = loader_file(comparison->loader, module, &path, why);

	if (r == 0)
		r = elf_module_open_brief(comparison->root_fd, path, &file, why);
	if (r == 0)
		*ret_same = loaded_compare(comparison->root_fd, module, file) == LOADED_SAME;
	return r;
}

/* bool parameters show Y or N for whatever they were given (Linux kernel/params.c). */
static int truth(const char *value)
{
	if (strcasecmp(value, "y") == 0 || strcmp(value, "1") == 0 || strcasecmp(value, "on") == 0)
		return 1;
	if (strcasecmp(value, "n") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "off") == 0)
		return 0;
	return -1;
}

static bool is_same_number(const char *one, const char *other)
{
	char *one_end;
	char *other_end;
	long long one_value = strtoll(one, &one_end, 0);
	long long other_value = strtoll(other, &other_end, 0);

	return *one && *other && !*one_end && !*other_end && one_value == other_value;
}

static bool is_same_value(const char *wanted, const char *shown)
{
	size_t length = strlen(wanted);

	if (length >= 2 && wanted[0] == '"' && wanted[length - 1] == '"')
		return strlen(shown) == length - 2 && strncmp(wanted + 1, shown, length - 2) == 0;
	return strcmp(wanted, shown) == 0 || is_same_number(wanted, shown) ||
	       (truth(wanted) >= 0 && truth(wanted) == truth(shown));
}

/* What the kernel does not show is taken for the same. @fixed: only what nobody can have written.
 */
static bool shows(const struct comparison *comparison, const char *module, const char *word,
	bool fixed, struct error *why)
{
	const char *value = strchr(word, '=');
	_cleanup_free_ char *shown = NULL;
	struct stat status;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "sys/module/%s/parameters/%.*s", module,
		(int) strcspn(word, "="), word);
	for (char *dash = path + strlen("sys/module/"); (dash = strchr(dash, '-'));)
		*dash = '_';
	if (fstatat(comparison->root_fd, path, &status, 0) < 0 || (fixed && status.st_mode & 0222))
		return true;
	if (fs_read_line(comparison->root_fd, path, &shown) < 0 ||
		is_same_value(value ? value + 1 : "1", shown))
		return true;
	(void) error_set(why, 0, "%s runs with %.*s=%.64s and shall have \"%.200s\"", module,
		(int) strcspn(word, "="), word, shown, word);
	return false;
}

static int compare_shown(const struct comparison *comparison, const char *module,
	const char *options, bool fixed, bool *ret_same, struct error *why)
{
	_cleanup_strv_ struct strv words = { 0 };
	struct error ignored;

	*ret_same = true;
	/* Words that are none: the kernel judges them when it comes to that. */
	if (parameter_split(options, module, &words, &ignored) == -ENOMEM)
		return error_set_errno(why, -ENOMEM, "%s", module);
	for (size_t i = 0; *ret_same && i < words.count; i++)
		*ret_same = shows(comparison, module, words.items[i], fixed, why);
	return 0;
}

static int compare_parameters(
	const struct comparison *comparison, const char *module, bool *ret_same, struct error *why)
{
	const char *then = role_parameters_find(comparison->recorded, module);
	_cleanup_free_ char *now = NULL;
	int r = loader_options(comparison->loader, module, &now, why);

	if (r < 0)
		return r;
	if (then && strcmp(then, now) != 0) {
		*ret_same = false;
		(void) error_set(why, 0, "%s was loaded with \"%.300s\" and shall have \"%.300s\"",
			module, then, now);
		return 0;
	}
	return compare_shown(comparison, module, now, then != NULL, ret_same, why);
}

int compare_module(const struct comparison *comparison, const char *module, enum compare *ret,
	struct error *why)
{
	bool same = false;
	int r = 0;

	*ret = COMPARE_ABSENT;
	if (!sysmodule_exists(comparison->root_fd, module))
		return 0;
	*ret = COMPARE_OTHER;
	if (!sysmodule_is_built_in(comparison->root_fd, module))
		r = compare_builds(comparison, module, &same, why);
	if (r < 0) /* a file that cannot be read: the load proof judges it */
		return r == -ENOMEM ? r : 0;
	if (!same) {
		(void) error_set(
			why, 0, "the %s that runs is another build than the image's", module);
		return 0;
	}
	r = compare_parameters(comparison, module, &same, why);
	*ret = same ? COMPARE_SAME : COMPARE_PARAMETERS;
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Options in modprobe.d for parameters that do not exist: the kernel warns, and goes on. */
#include <string.h>

#include "common/nearest.h"
#include "module/proof_set_parts.h"

/* parameq(): '-' and '_' are one. Of "parmtype=name:int" the name is compared. */
static bool names_parameter(const char *entry, const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char wanted = name[i] == '-' ? '_' : name[i];
		char found = entry[i] == '-' ? '_' : entry[i];

		if (wanted != found)
			return false;
	}
	return entry[length] == ':';
}

/* The macros of moduleparam.h write parmtype for each parameter, and parm only with a description.
 */
static bool has_parameter(const struct elf_module *module, const char *name, size_t length)
{
	static const char *const keys[] = { "parmtype", "parm" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *entry = NULL;

		while ((entry = elf_module_info_next(module, keys[i], entry)))
			if (names_parameter(entry, name, length))
				return true;
	}
	return false;
}

/* unknown_module_param_cb() takes these of every module. */
static bool is_for_all(const char *name, size_t length)
{
	return (length == strlen("dyndbg") && strncmp(name, "dyndbg", length) == 0) ||
	       (length == strlen("async_probe") && strncmp(name, "async_probe", length) == 0);
}

static int collect_parameters(const struct elf_module *module, struct strv *names)
{
	const char *entry = NULL;

	while ((entry = elf_module_info_next(module, "parmtype", entry)))
		if (strv_pushf(names, "%.*s", (int) strcspn(entry, ":"), entry) < 0)
			return -ENOMEM;
	return 0;
}

static int report_option(struct set_work *work, uint32_t member, const char *name, size_t length)
{
	const struct proof_draft draft = { .id = "option-unknown", .weight = PROOF_NOTE };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *given = strndup(name, length);
	const char *meant;

	if (!given || collect_parameters(set_module(work, member), &names) < 0)
		return -ENOMEM;
	meant = nearest_word(&names, given);
	return proof_append(&work->set->findings, work->nodes[member].label, &draft,
		"modprobe.d sets %s, which is none of its parameters%s%s%s", given,
		meant ? " (is it " : "", meant ? meant : "", meant ? "?)" : "");
}

/* A value may hold spaces in double quotes. */
static const char *skip_option(const char *text)
{
	bool quoted = false;

	for (; *text && (quoted || !strchr(" \t", *text)); text++)
		quoted = quoted != (*text == '"');
	return text;
}

static int judge_line(struct set_work *work, const char *line)
{
	_cleanup_free_ char *name = strndup(line, strcspn(line, " \t"));
	const char *option = line + strcspn(line, " \t");
	uint32_t member;

	if (!name)
		return -ENOMEM;
	for (char *dash = name; (dash = strchr(dash, '-'));)
		*dash = '_';
	member = set_table_find(&work->names, name);
	if (member == SET_NONE || !set_module(work, member))
		return 0;
	while (*(option += strspn(option, " \t"))) {
		size_t length = strcspn(option, " \t=");

		if (!is_for_all(option, length) &&
			!has_parameter(set_module(work, member), option, length) &&
			report_option(work, member, option, length) < 0)
			return -ENOMEM;
		option = skip_option(option);
	}
	return 0;
}

int set_judge_options(struct set_work *work)
{
	const struct strv *lines = work->set->options;
	int r = 0;

	for (size_t i = 0; lines && i < lines->count && r == 0; i++)
		r = judge_line(work, lines->items[i] + strspn(lines->items[i], " \t"));
	return r;
}

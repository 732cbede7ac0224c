/* SPDX-License-Identifier: Apache-2.0 */
/* Checks between the modules of a set, and of what the set leaves to the kernel. */
#include "module/proof_internal.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"

#define WORD_SIZE   256 /* longer than any module's name */
#define NAMES_SHOWN 12
#define UNCHECKED   "signature-unchecked"
#define LEAVE_OUT   "leave out one of the two"

/* Does something with a name ('_') that a member depends on. 0 or -ENOMEM. */
typedef int visit_name(struct set_work *work, uint32_t member, const char *name);

/*
 * The next word of @text, '-' as '_', into @word; returns what follows it, or NULL at the end. What
 * does not fit is cut: no module has such a name.
 */
static const char *next_word(const char *text, const char *separators, char word[WORD_SIZE])
{
	size_t length, size;

	text += strspn(text, separators);
	length = strcspn(text, separators);
	if (!length)
		return NULL;
	size = length < WORD_SIZE ? length : WORD_SIZE - 1;
	for (size_t i = 0; i < size; i++)
		word[i] = text[i] == '-' ? '_' : text[i];
	word[size] = '\0';
	return text + length;
}

static int visit_depends(struct set_work *work, uint32_t member, visit_name *function)
{
	const char *text = elf_module_info(set_module(work, member), "depends");
	char name[WORD_SIZE];

	while (text && (text = next_word(text, ",", name)))
		if (function(work, member, name) < 0)
			return -ENOMEM;
	return 0;
}

/* modprobe.d(5): "softdep=pre: a b post: c"; what comes after cannot be missed before. */
static int visit_softdeps(struct set_work *work, uint32_t member, visit_name *function)
{
	const struct elf_module *module = set_module(work, member);
	const char *text = NULL;
	char word[WORD_SIZE];

	while ((text = elf_module_info_next(module, "softdep", text))) {
		const char *rest = text;
		bool before = false;

		while ((rest = next_word(rest, " \t", word))) {
			if (strcmp(word, "pre:") == 0 || strcmp(word, "post:") == 0)
				before = word[1] == 'r';
			else if (before && function(work, member, word) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int add_soft_edge(struct set_work *work, uint32_t member, const char *name)
{
	uint32_t wanted = name_table_find(&work->names, name);

	if (wanted == NAME_NONE)
		work->nodes[member].has_other_needs = true;
	return wanted == NAME_NONE || wanted == member ? 0
						       : set_add_edge(work, member, wanted, false);
}

int set_add_soft_edges(struct set_work *work, uint32_t member)
{
	int r = visit_depends(work, member, add_soft_edge);

	return r < 0 ? r : visit_softdeps(work, member, add_soft_edge);
}

/* Without a list of the kernel's modules: those that export anything are known all the same. */
static bool kernel_exports_of(const struct set_work *work, const char *name)
{
	const struct symvers *symvers = work->set->kernel->symvers;
	size_t count = symvers && !work->set->kernel_modules ? symvers_count(symvers) : 0;

	for (size_t i = 0; i < count; i++)
		if (proof_same_module(symvers_at(symvers, i)->module, name))
			return true;
	return false;
}

static bool is_there(const struct set_work *work, const char *name)
{
	return name_table_find(&work->names, name) != NAME_NONE ||
	       name_table_find(&work->kernel, name) != NAME_NONE;
}

/* The kernel goes by symbols, modprobe by modules.dep, which depmod makes of symbols too. */
static int judge_depends(struct set_work *work, uint32_t member, const char *name)
{
	bool refused = work->set->members[member].proof.verdict == PROOF_WILL_NOT_LOAD;
	const struct proof_about about = { .exporter = name };

	if (is_there(work, name) || kernel_exports_of(work, name))
		return 0;
	return proof_append(&work->set->findings, work->nodes[member].label,
		refused ? PROOF_REFUSAL : PROOF_NOTE, "depends-missing", ENOENT,
		"add that module to the set", &about,
		refused ? "depends on %s, which neither the set nor the kernel has"
			: "depends on %s, which neither the set nor the kernel has, but uses no "
			  "symbol of it",
		name);
}

/* As kmod compares them: '-' is '_', but for that in brackets. */
static int push_alias(struct strv *aliases, const char *alias)
{
	char pattern[WORD_SIZE];
	bool bracket = false;
	size_t i;

	for (i = 0; i < sizeof(pattern) - 1 && alias[i]; i++) {
		bracket = alias[i] == '[' || (bracket && alias[i] != ']');
		pattern[i] = alias[i] == '-' && !bracket ? '_' : alias[i];
	}
	pattern[i] = '\0';
	return alias[i] ? 0 : strv_push(aliases, pattern);
}

static int list_aliases(struct set_work *work)
{
	const struct strv *of_kernel = work->set->kernel_aliases;

	for (size_t i = 0; i < of_kernel->count; i++)
		if (push_alias(&work->aliases, of_kernel->items[i]) < 0)
			return -ENOMEM;
	for (uint32_t i = 0; i < work->set->member_count; i++) {
		const struct elf_module *module = set_module(work, i);
		const char *alias = NULL;

		while (module && (alias = elf_module_info_next(module, "alias", alias)))
			if (push_alias(&work->aliases, alias) < 0)
				return -ENOMEM;
	}
	return 0;
}

static bool is_alias(const struct set_work *work, const char *name)
{
	for (size_t i = 0; i < work->aliases.count; i++)
		if (fnmatch(work->aliases.items[i], name, 0) == 0)
			return true;
	return false;
}

/* The kernel's own modules may be what is judged: then all their aliases are there. */
static bool has_all_modules(const struct set_work *work)
{
	const struct strv *names = work->set->kernel_modules;

	for (size_t i = 0; i < names->count; i++)
		if (name_table_find(&work->kernel, names->items[i]) == SET_LOADABLE &&
			name_table_find(&work->names, names->items[i]) == NAME_NONE)
			return false;
	return true;
}

/* modprobe takes the name of a module, a built-in one too, and else their aliases. */
static int judge_softdep(struct set_work *work, uint32_t member, const char *name)
{
	const struct proof_set *set = work->set;
	const struct proof_about about = { .exporter = name };

	if (!set->kernel_modules || !set->kernel_aliases || is_there(work, name))
		return 0;
	if (!work->aliases.count && list_aliases(work) < 0)
		return -ENOMEM;
	if (is_alias(work, name) || (!set->aliases_known && !has_all_modules(work)))
		return 0;
	return proof_append(&work->set->findings, work->nodes[member].label, PROOF_NOTE,
		"softdep-missing", 0, NULL, &about,
		"asks for %s to be loaded before it, but there is no such module", name);
}

int set_judge_facts(struct set_work *work)
{
	const struct proof_set *set = work->set;

	for (uint32_t i = 0; i < set->member_count; i++) {
		const struct elf_module *module = set_module(work, i);
		const char *name = NULL;

		if (!module || work->nodes[i].shadowed)
			continue;
		if (work->nodes[i].has_other_needs &&
			(visit_depends(work, i, judge_depends) < 0 ||
				visit_softdeps(work, i, judge_softdep) < 0))
			return -ENOMEM;
		while (set->firmware_there &&
			(name = elf_module_info_next(module, "firmware", name)))
			if (!set->firmware_there(set->firmware_context, name) &&
				proof_append(&work->set->findings, work->nodes[i].label, PROOF_NOTE,
					"firmware-missing", 0, NULL, NULL,
					"may ask for the firmware %s, which is missing", name) < 0)
				return -ENOMEM;
	}
	return 0;
}

static int refuse_later(struct set_work *work, const struct set_duplicate *duplicate)
{
	bool second_later =
		work->nodes[duplicate->first].position <= work->nodes[duplicate->second].position;
	uint32_t later = second_later ? duplicate->second : duplicate->first;
	uint32_t earlier = second_later ? duplicate->first : duplicate->second;
	struct proof *proof = &work->set->members[later].proof;
	const char *first = work->nodes[earlier].label, *second = work->nodes[later].label;
	const struct proof_about about = { .symbol = duplicate->symbol, .exporter = first };

	if (work->set->members[earlier].proof.verdict == PROOF_WILL_NOT_LOAD)
		return 0;
	if (proof_append(proof, second, PROOF_REFUSAL, "duplicate-export", ENOEXEC, LEAVE_OUT,
		    &about, "exports %s, which %s already exports", duplicate->symbol, first) < 0)
		return -ENOMEM;
	proof_conclude(proof);
	return proof_append(&work->set->findings, "", PROOF_REFUSAL, "duplicate-export", ENOEXEC,
		LEAVE_OUT, &about, "%s and %s both export %s: the kernel loads only the first",
		first, second, duplicate->symbol);
}

/* The member that uses a kernel's module, which then will be loaded; or NAME_NONE. */
static uint32_t find_user(const struct set_work *work, const char *kernel_module)
{
	for (uint32_t i = 0; i < work->set->member_count; i++) {
		size_t count = 0;
		const struct elf_undefined *symbols =
			set_module(work, i)
				? elf_module_undefined_symbols(set_module(work, i), &count)
				: NULL;

		for (size_t j = 0; j < count; j++) {
			const struct symvers_entry *entry =
				symvers_find(work->set->kernel->symvers, symbols[j].name);

			if (entry && proof_same_module(entry->module, kernel_module) &&
				name_table_find(&work->symbols, symbols[j].name) == NAME_NONE)
				return i;
		}
	}
	return NAME_NONE;
}

/* One a member is enough: the kernel stops at the first too. */
static int harden_note(struct set_work *work, uint32_t member)
{
	struct proof *proof = &work->set->members[member].proof;

	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_finding *noted = &proof->findings[i];
		const struct proof_about about = { .symbol = noted->symbol,
			.exporter = noted->exporter };
		uint32_t user;

		if (noted->weight != PROOF_NOTE || strcmp(noted->id, "duplicate-export") != 0)
			continue;
		user = find_user(work, noted->exporter);
		if (user == NAME_NONE)
			continue;
		if (proof_append(proof, work->nodes[member].label, PROOF_REFUSAL,
			    "duplicate-export", ENOEXEC, LEAVE_OUT, &about,
			    "exports %s, like the kernel's own %s, which is loaded for %s",
			    about.symbol, about.exporter, work->nodes[user].label) < 0)
			return -ENOMEM;
		proof_conclude(proof);
		return 0;
	}
	return 0;
}

int set_judge_duplicates(struct set_work *work)
{
	const struct set_duplicate *before = NULL;

	for (size_t i = 0; i < work->duplicate_count; i++) {
		const struct set_duplicate *duplicate = &work->duplicates[i];

		/* The first of many symbols that two have in common stands for all. */
		if ((!before || before->first != duplicate->first ||
			    before->second != duplicate->second) &&
			refuse_later(work, duplicate) < 0)
			return -ENOMEM;
		before = duplicate;
	}
	for (uint32_t i = 0; i < work->set->member_count; i++)
		if (harden_note(work, i) < 0)
			return -ENOMEM;
	return 0;
}

/* ---- what a set leaves to the kernel: modules that it relies on and does not have, signatures */

/* When the exporters are not known, "depends" still tells, as the build wrote it. */
static int rely_on_depends(struct set_work *work, uint32_t member, const char *name)
{
	if (name_table_find(&work->names, name) != NAME_NONE ||
		name_table_find(&work->kernel, name) != SET_LOADABLE)
		return 0;
	return strv_push_unique(&work->nodes[member].relied, name);
}

static int collect_relied(struct set_work *work)
{
	struct proof_set *set = work->set;
	bool by_symbols = proof_exports_known(set->kernel);

	for (uint32_t i = 0; i < set->member_count; i++) {
		const struct strv *relied = &work->nodes[i].relied;

		if (!set_module(work, i) || work->nodes[i].shadowed ||
			set->members[i].proof.verdict == PROOF_WILL_NOT_LOAD)
			continue;
		if (!by_symbols && visit_depends(work, i, rely_on_depends) < 0)
			return -ENOMEM;
		for (size_t j = 0; j < relied->count; j++)
			if (strv_push_unique(&set->relied, relied->items[j]) < 0)
				return -ENOMEM;
	}
	strv_sort(&set->relied);
	return 0;
}

static int note_relied(struct set_work *work)
{
	const struct strv *names = &work->set->relied;
	const struct strv shown = { .items = names->items,
		.count = names->count < NAMES_SHOWN ? names->count : NAMES_SHOWN };
	_cleanup_free_ char *listed = strv_join(&shown, ", ");
	char more[32] = "";

	if (!names->count)
		return 0;
	if (!listed)
		return -ENOMEM;
	if (names->count > NAMES_SHOWN)
		(void) snprintf(more, sizeof(more), " and %zu more", names->count - NAMES_SHOWN);
	return proof_append(&work->set->findings, "", PROOF_NOTE, "kernel-modules", 0, NULL, NULL,
		work->set->kernel->running
			? "relies on modules outside the set that are already loaded: %s%s"
			: "relies on modules outside the set that must be on the node, from the "
			  "kernel's own tree or from --with: %s%s",
		listed, more);
}

static bool says_so_itself(const struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		if (strcmp(proof->findings[i].id, UNCHECKED) == 0)
			return true;
	return false;
}

/*
 * Notes the unchecked signatures that the proof of the module itself leaves to us: those of modules
 * of the kernel's tree, or of another kernel's.
 */
static int note_unchecked(struct set_work *work)
{
	size_t count = 0, foreign = 0;

	for (size_t i = 0; i < work->set->member_count; i++) {
		const struct proof_member *member = &work->set->members[i];

		if (!member->proof.unchecked || says_so_itself(&member->proof))
			continue;
		count++;
		foreign += proof_of_other_release(member->module, work->set->kernel);
	}
	if (!count)
		return 0;
	return proof_append(&work->set->findings, "", PROOF_NOTE, UNCHECKED, 0, NULL, NULL,
		"the %s of %zu module%s%s %s not checked: give a certificate with --trust CERT",
		count == 1 ? "signature" : "signatures", count, count == 1 ? "" : "s",
		foreign ? "" : " of the kernel's tree", count == 1 ? "was" : "were");
}

int set_judge_kernel(struct set_work *work)
{
	if (collect_relied(work) < 0 || note_relied(work) < 0)
		return -ENOMEM;
	return note_unchecked(work);
}

/* ---- options in modprobe.d for parameters that do not exist: the kernel warns, and goes on */

/* The macros of moduleparam.h write parmtype for each parameter, and parm only with a description.
 */
static bool has_parameter(const struct elf_module *module, const char *name, size_t length)
{
	static const char *const keys[] = { "parmtype", "parm" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *entry = NULL;

		while ((entry = elf_module_info_next(module, keys[i], entry)))
			/* "parmtype=name:int" */
			if (strcspn(entry, ":") == length && entry[length] &&
				proof_same_chars(entry, name, length))
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

static int report_option(struct set_work *work, uint32_t member, const char *name, size_t length)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *given = strndup(name, length);
	const char *entry = NULL, *meant;

	while ((entry = elf_module_info_next(set_module(work, member), "parmtype", entry)))
		if (strv_pushf(&names, "%.*s", (int) strcspn(entry, ":"), entry) < 0)
			return -ENOMEM;
	if (!given)
		return -ENOMEM;
	meant = nearest_word(&names, given);
	return proof_append(&work->set->findings, work->nodes[member].label, PROOF_NOTE,
		"option-unknown", 0, NULL, NULL,
		"modprobe.d sets %s, which is not one of its parameters%s%s%s", given,
		meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "");
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
	size_t name_length = strcspn(line, " \t");
	const char *option = line + name_length;
	char name[NAME_MAX];
	uint32_t member;

	module_name_copy(line, name_length, name, sizeof(name));
	member = name_table_find(&work->names, name);
	if (member == NAME_NONE || !set_module(work, member))
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

	for (size_t i = 0; lines && i < lines->count; i++)
		if (judge_line(work, lines->items[i] + strspn(lines->items[i], " \t")) < 0)
			return -ENOMEM;
	return 0;
}

int set_judge_images(struct set_work *work)
{
	const struct proof_set *set = work->set;
	const char *krel = set->kernel->krel;
	_cleanup_free_ char *cure = NULL;

	if (set->other_image_count == 0)
		return 0;
	if (asprintf(&cure, "slipway build --kernel %s, with the same --ofed and --nvidia", krel) <
		0)
		return -ENOMEM;
	for (size_t i = 0; i < set->other_image_count; i++)
		if (proof_append(&work->set->findings, set->other_images[i].name, PROOF_REFUSAL,
			    "no-modules", ENOENT, cure, NULL, PROOF_OTHER_IMAGE,
			    set->other_images[i].releases, krel) < 0)
			return -ENOMEM;
	return 0;
}

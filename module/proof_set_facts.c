/* SPDX-License-Identifier: Apache-2.0 */
/* What only shows between modules: wishes that nothing fulfils, and symbols exported twice. */
#include <stdlib.h>
#include <string.h>

#include "module/proof_set_parts.h"

#define WORD_SIZE 256 /* longer than any module's name */

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

int set_visit_depends(struct set_work *work, uint32_t member, set_visit *function)
{
	const char *text = elf_module_info(set_module(work, member), "depends");
	char name[WORD_SIZE];
	int r = 0;

	while (text && r == 0 && (text = next_word(text, ",", name)))
		r = function(work, member, name);
	return r;
}

/* modprobe.d(5): "softdep=pre: a b post: c"; what comes after cannot be missed before. */
static int visit_softdeps(struct set_work *work, uint32_t member, set_visit *function)
{
	const struct elf_module *module = set_module(work, member);
	const char *text = NULL;
	char word[WORD_SIZE];
	int r = 0;

	while (r == 0 && (text = elf_module_info_next(module, "softdep", text))) {
		const char *rest = text;
		bool before = false;

		while (r == 0 && (rest = next_word(rest, " \t", word))) {
			if (strcmp(word, "pre:") == 0 || strcmp(word, "post:") == 0)
				before = word[1] == 'r';
			else if (before)
				r = function(work, member, word);
		}
	}
	return r;
}

static int add_wish(struct set_work *work, uint32_t member, const char *name)
{
	uint32_t wanted = set_table_find(&work->names, name);

	if (wanted == SET_NONE)
		work->nodes[member].wishes_more = true;
	return wanted == SET_NONE || wanted == member ? 0
						      : set_add_edge(work, member, wanted, false);
}

int set_add_wishes(struct set_work *work, uint32_t member)
{
	int r = set_visit_depends(work, member, add_wish);

	return r < 0 ? r : visit_softdeps(work, member, add_wish);
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
	return set_table_find(&work->names, name) != SET_NONE ||
	       set_table_find(&work->kernel, name) != SET_NONE;
}

/* The kernel goes by symbols, modprobe by modules.dep, which depmod makes of symbols too. */
static int judge_depends(struct set_work *work, uint32_t member, const char *name)
{
	bool refused = work->set->members[member].proof.verdict == PROOF_WILL_NOT_LOAD;
	const struct proof_draft draft = { .id = "depends-missing",
		.weight = refused ? PROOF_REFUSAL : PROOF_NOTE,
		.answer = ENOENT,
		.exporter = name,
		.cure = "add that module to the set" };

	if (is_there(work, name) || kernel_exports_of(work, name))
		return 0;
	return proof_append(&work->set->findings, work->nodes[member].label, &draft,
		refused ? "depends on %s, which neither the set nor the kernel has"
			: "depends on %s, which neither the set nor the kernel has, but needs no "
			  "symbol of it",
		name);
}

static int collect_wish(struct set_work *work, uint32_t member, const char *name)
{
	(void) member;
	return is_there(work, name) ? 0 : strv_push(&work->wishes, name);
}

/* Only what looks like a module's name can be wished for: not "pci:v…" and not "snd-card-*". */
static uint32_t find_wish(const struct set_work *work, const char *alias)
{
	char name[PROOF_NAME_SIZE];
	size_t length = 0;

	for (; alias[length]; length++) {
		if (length + 1 >= sizeof(name) || alias[length] == ':' || alias[length] == '*')
			return SET_NONE;
		name[length] = alias[length] == '-' ? '_' : alias[length];
	}
	name[length] = '\0';
	return set_table_find(&work->wished, name);
}

/* Wishes that no module's name fulfils may be aliases: all are looked for in one go. */
static int fulfil_wishes(struct set_work *work)
{
	size_t count;

	for (uint32_t i = 0; work->set->kernel_modules && i < work->set->member_count; i++)
		if (work->nodes[i].wishes_more && visit_softdeps(work, i, collect_wish) < 0)
			return -ENOMEM;
	count = work->wishes.count;
	work->fulfilled = calloc(count + 1, sizeof(*work->fulfilled));
	if (!work->fulfilled || set_table_init(&work->wished, count) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		(void) set_table_put(&work->wished, work->wishes.items[i], i);
	for (uint32_t i = 0; count && i < work->set->member_count; i++) {
		const struct elf_module *module = set_module(work, i);
		const char *alias = NULL;

		while (module && (alias = elf_module_info_next(module, "alias", alias))) {
			uint32_t wish = find_wish(work, alias);

			if (wish != SET_NONE)
				work->fulfilled[wish] = true;
		}
	}
	return 0;
}

/* Of a name that is no module's it takes the kernel's aliases to tell, which we have not. */
static int judge_softdep(struct set_work *work, uint32_t member, const char *name)
{
	const struct proof_draft draft = {
		.id = "softdep-missing", .weight = PROOF_NOTE, .exporter = name
	};
	uint32_t wish = set_table_find(&work->wished, name);

	if (wish == SET_NONE || work->fulfilled[wish])
		return 0;
	return proof_append(&work->set->findings, work->nodes[member].label, &draft,
		"wishes for %s before it, which is the name of no module", name);
}

static int judge_firmware(struct set_work *work, uint32_t member)
{
	const struct proof_set *set = work->set;
	const struct elf_module *module = set_module(work, member);
	const char *name = NULL;
	const struct proof_draft draft = { .id = "firmware-missing", .weight = PROOF_NOTE };

	while (set->firmware_there && (name = elf_module_info_next(module, "firmware", name)))
		if (!set->firmware_there(set->firmware_context, name) &&
			proof_append(&work->set->findings, work->nodes[member].label, &draft,
				"may ask for the firmware %s, which is not there", name) < 0)
			return -ENOMEM;
	return 0;
}

int set_judge_facts(struct set_work *work)
{
	int r = fulfil_wishes(work);

	for (uint32_t i = 0; i < work->set->member_count && r == 0; i++) {
		if (!set_module(work, i) || work->nodes[i].shadowed)
			continue;
		if (work->nodes[i].wishes_more)
			r = set_visit_depends(work, i, judge_depends);
		if (r == 0 && work->nodes[i].wishes_more)
			r = visit_softdeps(work, i, judge_softdep);
		if (r == 0)
			r = judge_firmware(work, i);
	}
	return r;
}

static int refuse_later(struct set_work *work, const struct set_duplicate *duplicate)
{
	bool second_later =
		work->nodes[duplicate->first].position <= work->nodes[duplicate->second].position;
	uint32_t later = second_later ? duplicate->second : duplicate->first;
	uint32_t earlier = second_later ? duplicate->first : duplicate->second;
	struct proof *proof = &work->set->members[later].proof;
	const struct proof_draft draft = { .id = "duplicate-export",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.symbol = duplicate->symbol,
		.exporter = work->nodes[earlier].label,
		.cure = "leave one of both out" };

	if (work->set->members[earlier].proof.verdict == PROOF_WILL_NOT_LOAD)
		return 0;
	if (proof_append(proof, work->nodes[later].label, &draft,
		    "exports %s, which %s exports already", duplicate->symbol,
		    work->nodes[earlier].label) < 0)
		return -ENOMEM;
	proof_conclude(proof);
	return proof_append(&work->set->findings, "", &draft,
		"%s and %s both export %s: the kernel takes only the first",
		work->nodes[earlier].label, work->nodes[later].label, duplicate->symbol);
}

static bool is_note_of_twice(const struct proof_finding *finding)
{
	return finding->weight == PROOF_NOTE && strcmp(finding->id, "duplicate-export") == 0;
}

/* Whether a member uses a kernel's module, which then will be loaded: who, or SET_NONE. */
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
				set_table_find(&work->symbols, symbols[j].name) == SET_NONE)
				return i;
		}
	}
	return SET_NONE;
}

/* One a member is enough: the kernel stops at the first too. */
static int harden_note(struct set_work *work, uint32_t member)
{
	struct proof *proof = &work->set->members[member].proof;

	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_finding *noted = &proof->findings[i];
		struct proof_draft draft = { .id = noted->id,
			.weight = PROOF_REFUSAL,
			.answer = ENOEXEC,
			.symbol = noted->symbol,
			.exporter = noted->exporter,
			.cure = "leave one of both out" };
		uint32_t user =
			is_note_of_twice(noted) ? find_user(work, noted->exporter) : SET_NONE;

		if (user == SET_NONE)
			continue;
		if (proof_append(proof, work->nodes[member].label, &draft,
			    "exports %s, which the kernel's %s exports too, and that is loaded for %s",
			    draft.symbol, draft.exporter, work->nodes[user].label) < 0)
			return -ENOMEM;
		proof_conclude(proof);
		return 0;
	}
	return 0;
}

int set_judge_duplicates(struct set_work *work)
{
	const struct set_duplicate *before = NULL;
	int r = 0;

	for (size_t i = 0; i < work->duplicate_count && r == 0; i++) {
		const struct set_duplicate *duplicate = &work->duplicates[i];

		/* The first of many symbols that two have in common stands for all. */
		if (!before || before->first != duplicate->first ||
			before->second != duplicate->second)
			r = refuse_later(work, duplicate);
		before = duplicate;
	}
	for (uint32_t i = 0; i < work->set->member_count && r == 0; i++)
		r = harden_note(work, i);
	return r;
}

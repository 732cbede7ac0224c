/* SPDX-License-Identifier: Apache-2.0 */
/* What a set leaves to the kernel: modules that it relies on and does not have, and signatures. */
#include <stdlib.h>
#include <string.h>

#include "module/proof_set_parts.h"

#define NAMES_SHOWN 12
#define UNCHECKED   "signature-unchecked"

/* By the proof's reading of symbols; one that binds weakly does without. 0 or -ENOMEM. */
int set_rely(struct set_work *work, uint32_t member, const char *exporter)
{
	char name[PROOF_NAME_SIZE];

	if (strcmp(exporter, "vmlinux") == 0)
		return 0;
	proof_exporter_name(exporter, name);
	if (set_table_find(&work->names, name) != SET_NONE)
		return 0;
	return strv_push_unique(&work->nodes[member].relied, name);
}

static bool is_module_of_kernel(const struct set_work *work, const char *name)
{
	const struct strv *builtin = work->set->kernel->builtin;

	return set_table_find(&work->names, name) == SET_NONE &&
	       set_table_find(&work->kernel, name) != SET_NONE &&
	       !(builtin && strv_contains(builtin, name));
}

/* Where nobody tells who exports what there is still what the build wrote down. */
static int rely_on_depends(struct set_work *work, uint32_t member, const char *name)
{
	return is_module_of_kernel(work, name) ? strv_push_unique(&work->nodes[member].relied, name)
					       : 0;
}

static int collect_relied(struct set_work *work)
{
	struct proof_set *set = work->set;
	bool by_symbols = proof_exports_known(set->kernel);
	int r = 0;

	for (uint32_t i = 0; i < set->member_count && r == 0; i++) {
		const struct strv *relied = &work->nodes[i].relied;

		if (!set_module(work, i) || work->nodes[i].shadowed ||
			set->members[i].proof.verdict == PROOF_WILL_NOT_LOAD)
			continue;
		if (!by_symbols)
			r = set_visit_depends(work, i, rely_on_depends);
		for (size_t j = 0; j < relied->count && r == 0; j++)
			r = strv_push_unique(&set->relied, relied->items[j]);
	}
	strv_sort(&set->relied);
	return r;
}

static char *list_names(const struct strv *names)
{
	const struct strv shown = { .items = names->items,
		.count = names->count < NAMES_SHOWN ? names->count : NAMES_SHOWN };
	_cleanup_free_ char *joined = strv_join(&shown, ", ");
	char *listed = NULL;

	if (!joined || names->count <= NAMES_SHOWN)
		return joined ? strdup(joined) : NULL;
	return asprintf(&listed, "%s and %zu more", joined, names->count - NAMES_SHOWN) < 0
		       ? NULL
		       : listed;
}

static int note_relied(struct set_work *work)
{
	const struct proof_draft draft = { .id = "kernel-modules", .weight = PROOF_NOTE };
	_cleanup_free_ char *names = NULL;

	if (!work->set->relied.count)
		return 0;
	names = list_names(&work->set->relied);
	if (!names)
		return -ENOMEM;
	return proof_append(&work->set->findings, "", &draft,
		work->set->kernel->running
			? "relies on modules that are loaded already, and are not in the set: %s"
			: "relies on modules that are not in the set, and have to be on the node, "
			  "of the kernel's own tree or of what --with names: %s",
		names);
}

static bool says_so_itself(const struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		if (strcmp(proof->findings[i].id, UNCHECKED) == 0)
			return true;
	return false;
}

/* Those that the proof of the module itself leaves to us: of the kernel's tree. */
static int note_unchecked(struct set_work *work)
{
	const struct proof_draft draft = { .id = UNCHECKED, .weight = PROOF_NOTE };
	size_t count = 0;

	for (size_t i = 0; i < work->set->member_count; i++) {
		const struct proof *proof = &work->set->members[i].proof;

		count += proof->unchecked && !says_so_itself(proof);
	}
	if (!count)
		return 0;
	return proof_append(&work->set->findings, "", &draft,
		"the %s of %zu module%s of the kernel's tree %s not checked: --trust CERT names a "
		"certificate to check against",
		count == 1 ? "signature" : "signatures", count, count == 1 ? "" : "s",
		count == 1 ? "was" : "were");
}

int set_judge_kernel(struct set_work *work)
{
	int r = collect_relied(work);

	if (r == 0)
		r = note_relied(work);
	return r < 0 ? r : note_unchecked(work);
}

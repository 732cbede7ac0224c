/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What thousands of modules ask for again and again, answered once: who exports a symbol of the
 * kernel's symvers when the set is there.
 */
#include <stdlib.h>
#include <string.h>

#include "module/proof_set_parts.h"

void set_export_of(
	const struct set_work *work, const struct set_export *found, struct proof_export *ret)
{
	*ret = (struct proof_export){
		.symbol = found->export->symbol,
		.exporter = work->nodes[found->member].label,
		.name_space = found->export->name_space,
		.crc = found->export->crc,
		.has_crc = found->export->has_crc,
		.gpl = found->export->gpl,
		.proprietary = work->nodes[found->member].proprietary,
		.member = true,
		.in_name_space = *found->export->name_space,
		.vmlinux = strcmp(work->nodes[found->member].label, "vmlinux") == 0,
	};
}

bool set_replaces(const struct set_work *work, const char *path)
{
	char name[PROOF_NAME_SIZE];
	uint32_t member;

	if (strcmp(path, "vmlinux") == 0)
		return false;
	proof_exporter_name(path, name);
	member = set_table_find(&work->names, name);
	return member != SET_NONE && set_module(work, member);
}

/* Those of modules that a member replaces, and that it does not export any more, stay empty. */
static void know_kernels(struct set_work *work)
{
	const struct proof_kernel *kernel = work->set->kernel;
	size_t count = symvers_count(kernel->symvers);
	const char *module = NULL;
	bool replaced = false;

	for (size_t i = 0; i < count; i++) {
		const struct symvers_entry *entry = symvers_at(kernel->symvers, i);

		if (work->known[i].export.exporter)
			continue;
		/* Entries of one module mostly share its name. */
		if (entry->module != module)
			replaced = set_replaces(work, entry->module);
		module = entry->module;
		if (!replaced)
			proof_export_of(kernel, entry, &work->known[i].export);
		work->known[i].member = SET_NONE;
	}
}

/* In the kernel's symvers, or NULL. */
static const struct symvers_entry *entry_of(
	const struct symvers *symvers, const struct set_work *work, const struct set_export *export)
{
	const struct elf_module_export *found = export->export;

	if (elf_module_known(set_module(work, export->member)) == symvers)
		return found->known;
	return symvers_find_hashed(symvers, found->symbol, found->hash);
}

int set_know(struct set_work *work)
{
	const struct symvers *symvers = work->set->kernel->symvers;
	size_t count = symvers ? symvers_count(symvers) : 0;

	free(work->known);
	work->known = count ? calloc(count, sizeof(*work->known)) : NULL;
	if (!count)
		return 0;
	if (!work->known)
		return -ENOMEM;
	for (size_t i = 0; i < work->export_count; i++) {
		const struct set_export *export = &work->exports[i];
		const struct symvers_entry *entry = entry_of(symvers, work, export);
		struct set_known *known;

		if (!entry)
			continue;
		known = &work->known[entry - symvers_at(symvers, 0)];
		set_export_of(work, export, &known->export);
		known->member = export->member;
	}
	know_kernels(work);
	return 0;
}

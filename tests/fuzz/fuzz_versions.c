/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as __versions, and cut in two as __version_ext_crcs and __version_ext_names: whatever
 * is listed is found by its name.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/hash.h"
#include "module/elf_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* By the index, and without; before the names are copied, and after. */
static void find_all(const struct elf_versions *versions)
{
	for (size_t i = 0; i < versions->count; i++) {
		const struct elf_symbol_version *item = &versions->items[i];

		if (elf_versions_find(versions, item->name, name_hash(item->name)) != item ||
			(i < 64 && elf_versions_search(versions, item->name) != item))
			abort();
	}
	(void) elf_versions_find(versions, "absent", name_hash("absent"));
}

static void keep_and_find(struct elf_versions *versions, const struct elf_memory *memory)
{
	find_all(versions);
	if (elf_versions_keep(versions, memory) < 0)
		abort();
	find_all(versions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 4;
	const struct elf_span all = { (const char *) data, size, true };
	const struct elf_span crcs = { (const char *) data, half, true };
	const struct elf_span names = { (const char *) data + half, size - half, true };
	struct arena arena = { 0 };
	const struct elf_memory memory = { .kept = &arena, .index = &arena };
	struct elf_versions versions = { 0 };

	if (elf_versions_read_basic(&versions, &all, &memory) < 0)
		abort();
	keep_and_find(&versions, &memory);
	if (elf_versions_read_extended(&versions, &crcs, &names, &memory) < 0)
		abort();
	keep_and_find(&versions, &memory);
	arena_free(&arena);
	return 0;
}

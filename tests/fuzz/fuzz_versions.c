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

static void find_all(const struct elf_versions *versions, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct elf_symbol_version *item = &versions->items[i];

		if (elf_versions_find(versions, item->name, name_hash(item->name)) != item)
			abort();
	}
	(void) elf_versions_find(versions, "absent", name_hash("absent"));
}

/* Looks the names up by the index, and then without it. */
static void find_and_free(struct elf_versions *versions)
{
	find_all(versions, versions->count);
	name_table_free(&versions->index);
	find_all(versions, versions->count < 64 ? versions->count : 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 4;
	const struct elf_span all = { (const char *) data, size, true };
	const struct elf_span crcs = { (const char *) data, half, true };
	const struct elf_span names = { (const char *) data + half, size - half, true };
	struct arena memory = { 0 };
	struct elf_versions versions = { 0 };

	if (elf_versions_read_basic(&versions, &all, &memory) < 0)
		abort();
	find_and_free(&versions);
	if (elf_versions_read_extended(&versions, &crcs, &names, &memory) < 0)
		abort();
	find_and_free(&versions);
	arena_free(&memory);
	return 0;
}

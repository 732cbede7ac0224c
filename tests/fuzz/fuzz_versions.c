/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as __versions, and cut in two as __version_ext_crcs and __version_ext_names: whatever
 * is listed is found by its name.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "module/elf_versions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find_all(const struct elf_versions *versions)
{
	for (size_t i = 0; i < versions->count; i++) {
		const char *name = versions->items[i].name;

		if (elf_versions_find(versions, name, elf_versions_hash(name)) !=
			&versions->items[i])
			abort();
	}
	(void) elf_versions_find(versions, "absent", elf_versions_hash("absent"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 4;
	const struct elf_span all = { (const char *) data, size, true };
	const struct elf_span crcs = { (const char *) data, half, true };
	const struct elf_span names = { (const char *) data + half, size - half, true };
	struct elf_versions versions = { 0 };

	if (elf_versions_read_basic(&versions, &all) < 0)
		abort();
	find_all(&versions);
	elf_versions_free(&versions);
	if (elf_versions_read_extended(&versions, &crcs, &names) < 0)
		abort();
	find_all(&versions);
	elf_versions_free(&versions);
	return 0;
}

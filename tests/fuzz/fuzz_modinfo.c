/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .modinfo section: every key of every string is found again, by walking its values.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "module/elf_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count_values(const struct modinfo *info, const char *key)
{
	const char *value = NULL;
	size_t count = 0;

	while ((value = modinfo_next(info, key, value)))
		count += strlen(value) < SIZE_MAX;
	return count;
}

static void find_again(const struct modinfo *info, const char *entry)
{
	size_t length = strcspn(entry, "=");
	char key[64];

	if (!entry[length] || length >= sizeof(key))
		return;
	memcpy(key, entry, length);
	key[length] = '\0';
	if (!count_values(info, key))
		abort();
}

/* The second half is what follows the section in the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena memory = { 0 };
	struct modinfo info;

	if (modinfo_read(&info, (const char *) data, size / 2, size - size / 2, &memory) < 0)
		abort();
	for (size_t i = 0; i < info.count && i < 64; i++)
		find_again(&info, info.text + info.entries[i].offset);
	(void) count_values(&info, "alias");
	(void) count_values(&info, "vermagic");
	arena_free(&memory);
	return 0;
}

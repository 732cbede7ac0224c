// SPDX-License-Identifier: Apache-2.0
/* .modinfo: vermagic, licence, name spaces and the rest of its strings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ENTRIES_MAX   4096

struct entries {
	char *bytes;
	const char *items[ENTRIES_MAX];
	size_t count;
};

/* False: no .modinfo, or none that a kernel build makes. */
static bool read_entries(struct image *image, struct entries *entries)
{
	unsigned int index = image_find(image, ".modinfo");
	size_t size = index ? image_section(image, index)->sh_size : 0;

	entries->count = 0;
	entries->bytes = malloc(size + 1);
	if (!size || !entries->bytes) {
		free(entries->bytes);
		return false;
	}
	memcpy(entries->bytes, image_content(image, index), size);
	entries->bytes[size] = '\0';
	for (size_t at = 0; at < size && entries->count < ENTRIES_MAX - 4;
		at += strlen(entries->bytes + at) + 1)
		if (entries->bytes[at])
			entries->items[entries->count++] = entries->bytes + at;
	return true;
}

static bool write_entries(struct image *image, struct entries *entries)
{
	size_t size = 0, at = 0;
	char *bytes;

	for (size_t i = 0; i < entries->count; i++)
		size += strlen(entries->items[i]) + 1;
	bytes = calloc(1, size + 1);
	if (!bytes)
		abort();
	for (size_t i = 0; i < entries->count; i++)
		at += (size_t) sprintf(bytes + at, "%s", entries->items[i]) + 1;
	image_replace(image, image_find(image, ".modinfo"), bytes, size);
	free(bytes);
	free(entries->bytes);
	return true;
}

/* Index of the @skip-th entry of that key; count: none. */
static size_t find_entry(const struct entries *entries, const char *key, size_t skip)
{
	size_t length = strlen(key);

	for (size_t i = 0; i < entries->count; i++)
		if (strncmp(entries->items[i], key, length) == 0 &&
			entries->items[i][length] == '=' && !skip--)
			return i;
	return entries->count;
}

static size_t count_entries(const struct entries *entries, const char *key)
{
	size_t count = 0;

	while (find_entry(entries, key, count) < entries->count)
		count++;
	return count;
}

static void remove_entry(struct entries *entries, size_t index)
{
	memmove(entries->items + index, entries->items + index + 1,
		(entries->count - index - 1) * sizeof(entries->items[0]));
	entries->count--;
}

/* Sets the first value of a key, adds one when there is none, or removes it for NULL. */
static bool set_value(struct image *image, const char *key, const char *value, char *detail)
{
	struct entries entries;
	char entry[512];
	size_t index;

	if (!read_entries(image, &entries))
		return false;
	index = find_entry(&entries, key, 0);
	(void) snprintf(entry, sizeof(entry), "%s=%s", key, value ? value : "");
	(void) snprintf(
		detail, DETAIL_SIZE, "%.140s%s", value ? entry : key, value ? "" : " removed");
	if (!value && index == entries.count) {
		free(entries.bytes);
		return false;
	}
	if (!value) {
		remove_entry(&entries, index);
	} else {
		entries.items[index] = entry;
		entries.count += index == entries.count;
	}
	return write_entries(image, &entries);
}

static bool get_value(struct image *image, const char *key, char *value, size_t size)
{
	struct entries entries;
	size_t index;

	if (!read_entries(image, &entries))
		return false;
	index = find_entry(&entries, key, 0);
	if (index < entries.count)
		(void) snprintf(value, size, "%s", entries.items[index] + strlen(key) + 1);
	free(entries.bytes);
	return index < entries.count;
}

/* ---- vermagic */

/* One field is changed, left out or extended, in turn. */
static bool vermagic_field(struct image *image, struct dice *dice, char *detail)
{
	char magic[256], result[512] = "", *rest = magic, *field;
	size_t fields = 1, choice;

	if (!get_value(image, "vermagic", magic, sizeof(magic)))
		return false;
	for (const char *c = magic; *c; c++)
		fields += *c == ' ' && c[1];
	choice = dice_choose(dice, 3 * fields);
	for (size_t i = 0; i < fields; i++) {
		char *end = result + strlen(result);

		field = strsep(&rest, " ");
		if (i != choice / 3)
			(void) sprintf(end, "%s ", field);
		else if (choice % 3 == 0)
			(void) sprintf(end, "%.*sZ ", (int) strlen(field) - 1, field);
		else if (choice % 3 == 1)
			(void) sprintf(end, "%s+ ", field);
	}
	return set_value(image, "vermagic", result, detail);
}

static bool vermagic_whole(struct image *image, struct dice *dice, char *detail)
{
	static const char *const ends[] = { " ", "extra ", "", "PREEMPT_RT ", "modversions " };
	char magic[256], result[512] = "";
	size_t choice;

	if (!get_value(image, "vermagic", magic, sizeof(magic)))
		return false;
	choice = dice_choose(dice, ARRAY_SIZE(ends) + 4);
	if (choice < ARRAY_SIZE(ends))
		(void) snprintf(result, sizeof(result), "%s%s", magic, ends[choice]);
	else if (choice == ARRAY_SIZE(ends))
		(void) snprintf(result, sizeof(result), "%.*s", (int) strlen(magic) - 1, magic);
	else if (choice == ARRAY_SIZE(ends) + 1)
		(void) snprintf(result, sizeof(result), "5.4.0-1-amd64%s", strchr(magic, ' '));
	else if (choice == ARRAY_SIZE(ends) + 2)
		return set_value(image, "vermagic", NULL, detail);
	return set_value(image, "vermagic", result, detail);
}

/* The kernel goes by the first. */
static bool vermagic_twice(struct image *image, struct dice *dice, char *detail)
{
	struct entries entries;
	bool first = dice_choose(dice, 2);
	size_t index;

	if (!read_entries(image, &entries))
		return false;
	(void) snprintf(
		detail, DETAIL_SIZE, "another vermagic %s", first ? "before it" : "behind it");
	index = first ? 0 : entries.count;
	memmove(entries.items + index + 1, entries.items + index,
		(entries.count - index) * sizeof(entries.items[0]));
	entries.items[index] = "vermagic=1.2.3 SMP ";
	entries.count++;
	return write_entries(image, &entries);
}

/* ---- licence */

static bool licence(struct image *image, struct dice *dice, char *detail)
{
	static const char *const values[] = { "Proprietary", "GPL", "GPL v2",
		"GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL", "gpl",
		"GPLv2", "MIT", "NVIDIA", "", "GPL ", "GPL-2.0" };
	size_t choice = dice_choose(dice, ARRAY_SIZE(values) + 1);

	return set_value(
		image, "license", choice < ARRAY_SIZE(values) ? values[choice] : NULL, detail);
}

bool mutate_licence(struct image *image, const char *value)
{
	char detail[DETAIL_SIZE];

	return set_value(image, "license", value, detail);
}

static bool second_licence(struct image *image, struct dice *dice, char *detail)
{
	struct entries entries;
	bool first = dice_choose(dice, 2);

	if (!read_entries(image, &entries))
		return false;
	(void) snprintf(
		detail, DETAIL_SIZE, "Proprietary %s", first ? "before its own" : "behind its own");
	entries.items[entries.count++] = "license=Proprietary";
	if (first) {
		const char *swapped = entries.items[0];

		entries.items[0] = entries.items[entries.count - 1];
		entries.items[entries.count - 1] = swapped;
	}
	return write_entries(image, &entries);
}

/* ---- name spaces */

static bool import_missing(struct image *image, struct dice *dice, char *detail)
{
	struct entries entries;
	size_t count, index;

	if (!read_entries(image, &entries))
		return false;
	count = count_entries(&entries, "import_ns");
	if (!count) {
		free(entries.bytes);
		return false;
	}
	index = find_entry(&entries, "import_ns", dice_choose(dice, count));
	(void) snprintf(detail, DETAIL_SIZE, "%s removed", entries.items[index]);
	remove_entry(&entries, index);
	return write_entries(image, &entries);
}

static bool import_changed(struct image *image, struct dice *dice, char *detail)
{
	static const char *const values[] = { "ELSEWHERE", "", "module:somebody", "dma_buf " };
	char value[64];

	return get_value(image, "import_ns", value, sizeof(value)) &&
	       set_value(image, "import_ns", values[dice_choose(dice, ARRAY_SIZE(values))], detail);
}

/* ---- the rest */

static bool other_entry(struct image *image, struct dice *dice, char *detail)
{
	static const struct {
		const char *key, *value;
	} choices[] = {
		{ "livepatch", "Y" },
		{ "livepatch", "" },
		{ "intree", NULL },
		{ "intree", "N" },
		{ "retpoline", NULL },
		{ "staging", "Y" },
		{ "test", "Y" },
		{ "name", "renamed" },
		{ "name", NULL },
		{ "name", "" },
		{ "depends", "nothing_of_the_kind" },
		{ "depends", NULL },
		{ "srcversion", NULL },
		{ "import_ns", "SUPERFLUOUS" },
		{ "import_ns", "module:elsewhere" },
		{ "unknown_key", "whatever" },
		{ "firmware", "no/such/file.bin" },
		{ "version", "0" },
	};
	size_t choice = dice_choose(dice, ARRAY_SIZE(choices));

	return set_value(image, choices[choice].key, choices[choice].value, detail);
}

static bool order_reversed(struct image *image, struct dice *dice, char *detail)
{
	struct entries entries;

	(void) dice;
	if (!read_entries(image, &entries))
		return false;
	for (size_t i = 0; i < entries.count / 2; i++) {
		const char *swapped = entries.items[i];

		entries.items[i] = entries.items[entries.count - 1 - i];
		entries.items[entries.count - 1 - i] = swapped;
	}
	(void) snprintf(detail, DETAIL_SIZE, "entries in reverse");
	return write_entries(image, &entries);
}

/* Strings that are no entries, and padding. */
static bool odd_strings(struct image *image, struct dice *dice, char *detail)
{
	static const char *const strings[] = { "vermagic", "=", "license", "novalue" };
	struct entries entries;
	size_t choice = dice_choose(dice, ARRAY_SIZE(strings));

	if (!read_entries(image, &entries))
		return false;
	memmove(entries.items + 1, entries.items, entries.count * sizeof(entries.items[0]));
	entries.items[0] = strings[choice];
	entries.count++;
	(void) snprintf(detail, DETAIL_SIZE, "\"%s\" first", strings[choice]);
	return write_entries(image, &entries);
}

static bool padded(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, ".modinfo");
	size_t size, zeros = 1 + dice_choose(dice, 9);
	unsigned char *bytes;

	if (!index)
		return false;
	size = image_section(image, index)->sh_size;
	bytes = calloc(1, size + 2 * zeros);
	if (!bytes)
		abort();
	memcpy(bytes + zeros, image_content(image, index), size);
	image_replace(image, index, bytes, size + 2 * zeros);
	free(bytes);
	(void) snprintf(detail, DETAIL_SIZE, "%zu zeros before and behind", zeros);
	return true;
}

/* What follows is not its own, and there is a NUL before the file ends. */
static bool without_end(struct image *image, struct dice *dice, char *detail)
{
	static const char tail[] = "and more of it";
	unsigned int index = image_find(image, ".modinfo");

	(void) dice;
	if (!index)
		return false;
	image_move_to_end(image, index, 0);
	image->data[image->size - 1] = 'x';
	(void) image_append(image, NULL, 16);
	memcpy(image->data + image->size - 16, tail, sizeof(tail));
	(void) snprintf(detail, DETAIL_SIZE, "no NUL at its end");
	return true;
}

const struct mutation info_mutations[] = {
	{ "vermagic-field", vermagic_field, true, 0, 0 },
	{ "vermagic", vermagic_whole, true, 0, 0 },
	{ "vermagic-twice", vermagic_twice, true, 0, 0 },
	{ "license", licence, true, 0, 0 },
	{ "license-second", second_licence, true, 0, 0 },
	{ "import-missing", import_missing, true, 0, 0 },
	{ "import-changed", import_changed, true, 0, 0 },
	{ "modinfo-entry", other_entry, true, 0, 0 },
	{ "modinfo-reversed", order_reversed, true, 0, 0 },
	{ "modinfo-odd", odd_strings, true, 0, 0 },
	{ "modinfo-padded", padded, false, 0, 0 },
	{ "modinfo-no-nul", without_end, true, 0, 0 },
	{ 0 },
};

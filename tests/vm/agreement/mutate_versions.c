// SPDX-License-Identifier: Apache-2.0
/* Symbol versions, in both forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* struct modversion_info of Linux include/linux/module.h. */
struct record {
	uint64_t crc;
	char name[56];
};

static struct record *records(struct image *image, size_t *ret_count)
{
	unsigned int index = image_find(image, "__versions");

	*ret_count = index ? image_section(image, index)->sh_size / sizeof(struct record) : 0;
	return *ret_count ? (struct record *) (void *) image_content(image, index) : NULL;
}

static struct record *any_record(struct image *image, struct dice *dice, size_t *ret_count)
{
	struct record *all = records(image, ret_count);

	return all ? all + dice_choose(dice, *ret_count) : NULL;
}

static bool crc_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *record = any_record(image, dice, &count);

	if (!record)
		return false;
	record->crc ^= 1U << dice_choose(dice, 32);
	(void) snprintf(detail, DETAIL_SIZE, "%.55s", record->name);
	return true;
}

/* The kernel compares all of the unsigned long. */
static bool crc_wide(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *record = any_record(image, dice, &count);

	if (!record)
		return false;
	record->crc |= (uint64_t) 1 << (32 + dice_choose(dice, 32));
	(void) snprintf(detail, DETAIL_SIZE, "%.55s: a bit beyond 32", record->name);
	return true;
}

static bool layout_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *all = records(image, &count);

	(void) dice;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(all[i].name, "module_layout") != 0)
			continue;
		all[i].crc ^= 0x10;
		(void) snprintf(detail, DETAIL_SIZE, "module_layout");
		return true;
	}
	return false;
}

static bool record_removed(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *record = any_record(image, dice, &count), *all = records(image, &count);

	if (!record)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%.55s", record->name);
	memmove(record, record + 1, (size_t) (all + count - record - 1) * sizeof(*record));
	image_section(image, image_find(image, "__versions"))->sh_size -= sizeof(*record);
	return true;
}

static bool record_renamed(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *record = any_record(image, dice, &count);

	if (!record)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%.55s", record->name);
	if (dice_choose(dice, 2))
		memset(record->name, 0, sizeof(record->name));
	else
		record->name[0] ^= 1;
	return true;
}

/* The first record of a name is the one that counts. */
static bool record_twice(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, "__versions");
	bool first = dice_choose(dice, 2);
	struct record *record, copy, *all;
	size_t count;

	record = any_record(image, dice, &count);
	if (!record)
		return false;
	copy = *record;
	copy.crc ^= 1;
	image_move_to_end(image, index, sizeof(copy));
	all = records(image, &count);
	if (first)
		memmove(all + 1, all, (count - 1) * sizeof(copy));
	all[first ? 0 : count - 1] = copy;
	(void) snprintf(
		detail, DETAIL_SIZE, "%.55s, another CRC %s", copy.name, first ? "first" : "last");
	return true;
}

static bool odd_size(struct image *image, struct dice *dice, char *detail)
{
	static const int changes[] = { -1, -63, -32, 1, 8 };
	unsigned int index = image_find(image, "__versions");
	int change = changes[dice_choose(dice, ARRAY_SIZE(changes))];

	if (!index || image_section(image, index)->sh_size < 64)
		return false;
	image_section(image, index)->sh_size += (uint64_t) (int64_t) change;
	(void) snprintf(detail, DETAIL_SIZE, "%d bytes", change);
	return true;
}

/* The name goes on in the next record, as far as a NUL. */
static bool name_without_end(struct image *image, struct dice *dice, char *detail)
{
	size_t count;
	struct record *record = any_record(image, dice, &count), *all = records(image, &count);

	if (!record || record == all + count - 1)
		return false;
	(void) snprintf(detail, DETAIL_SIZE, "%.55s", record->name);
	memset(record->name + strlen(record->name), 'x',
		sizeof(record->name) - strlen(record->name));
	return true;
}

/* ---- the extended form, Linux 6.14 and later; older kernels do not know it */

struct extended {
	unsigned int crcs, names;
};

static bool extend(struct image *image, struct extended *ret)
{
	unsigned int index = image_find(image, "__versions");
	size_t count, names_size = 0;
	uint32_t *crcs;
	char *names;
	const struct record *all = records(image, &count);

	/* Without MODVERSIONS there are none: two empty sections then. */
	if (!index)
		index = image_find(image, ".modinfo");
	crcs = calloc(count + 1, sizeof(*crcs));
	names = calloc(count + 1, sizeof(all->name) + 1);
	if (!index || !crcs || !names) {
		free(crcs);
		free(names);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		crcs[i] = (uint32_t) all[i].crc;
		names_size += (size_t) snprintf(names + names_size, sizeof(all->name) + 1, "%.56s",
				      all[i].name) +
			      1;
	}
	ret->crcs = image_add_section(image, index);
	ret->names = image_add_section(image, index);
	image_section(image, ret->crcs)->sh_size = 0;
	image_section(image, ret->names)->sh_size = 0;
	image_replace(image, ret->crcs, crcs, count * sizeof(*crcs));
	image_replace(image, ret->names, names, names_size);
	image_rename(image, ret->crcs, "__version_ext_crcs");
	image_rename(image, ret->names, "__version_ext_names");
	free(crcs);
	free(names);
	return true;
}

static bool extended_form(struct image *image, struct dice *dice, char *detail)
{
	size_t choice = dice_choose(dice, 4);
	struct extended extended;

	if (!extend(image, &extended))
		return false;
	if (choice == 1 && image_find(image, "__versions"))
		image_rename(image, image_find(image, "__versions"), ".elsewhere");
	else if (choice == 2 && image_section(image, extended.crcs)->sh_size)
		image_content(image, extended.crcs)[dice_choose(
			dice, image_section(image, extended.crcs)->sh_size)] ^= 4;
	else if (choice == 3 && image_find(image, "__versions"))
		image_section(image, image_find(image, "__versions"))->sh_size = 0;
	(void) snprintf(detail, DETAIL_SIZE, "%s",
		(const char *const[]){ "both forms", "extended alone",
			"both, and a CRC of the extended changed",
			"both, the basic empty" }[choice]);
	return true;
}

static bool extended_damaged(struct image *image, struct dice *dice, char *detail)
{
	size_t choice = dice_choose(dice, 4);
	struct extended extended;

	if (!extend(image, &extended))
		return false;
	if (choice == 0)
		image_rename(image, extended.names, ".elsewhere");
	else if (choice == 1)
		image_rename(image, extended.crcs, ".elsewhere");
	else if (choice == 2)
		image_move_to_end(image, extended.crcs, 4);
	else
		image_move_to_end(image, extended.names, 5);
	(void) snprintf(detail, DETAIL_SIZE, "%s",
		(const char *const[]){ "CRCs without names", "names without CRCs", "a CRC too many",
			"empty names too many" }[choice]);
	return true;
}

/* ---- modules that have both forms from their build */

static bool extended_crc(struct image *image, struct dice *dice, char *detail)
{
	unsigned int index = image_find(image, "__version_ext_crcs");
	size_t count = index ? image_section(image, index)->sh_size / 4 : 0;
	size_t choice = dice_choose(dice, count);

	if (!count)
		return false;
	image_content(image, index)[4 * choice + dice_choose(dice, 4)] ^= 0x20;
	(void) snprintf(detail, DETAIL_SIZE, "CRC %zu of %zu", choice, count);
	return true;
}

/* The basic form counts then, and a record of it is changed or taken away. */
static bool basic_alone(struct image *image, struct dice *dice, char *detail)
{
	unsigned int crcs = image_find(image, "__version_ext_crcs");
	unsigned int names = image_find(image, "__version_ext_names");
	size_t count, choice = dice_choose(dice, 3);

	if (!crcs || !names || !records(image, &count))
		return false;
	image_rename(image, crcs, ".elsewhere1");
	image_rename(image, names, ".elsewhere2");
	(void) snprintf(detail, DETAIL_SIZE, "the basic form, as it was");
	if (choice == 0)
		return true;
	return choice == 1 ? crc_changed(image, dice, detail) : record_removed(image, dice, detail);
}

const struct mutation version_mutations[] = {
	{ "extended-crc", extended_crc, true, 0, 0 },
	{ "basic-alone", basic_alone, false, 0, 0 },
	{ "crc", crc_changed, true, 0, 0 },
	{ "crc-wide", crc_wide, false, 0, 0 },
	{ "crc-module-layout", layout_changed, false, 0, 0 },
	{ "version-removed", record_removed, true, 0, 0 },
	{ "version-renamed", record_renamed, true, 0, 0 },
	{ "version-twice", record_twice, true, 0, 0 },
	{ "versions-odd-size", odd_size, true, 0, 0 },
	{ "version-no-nul", name_without_end, false, 0, 0 },
	{ "versions-extended", extended_form, true, 0, 0 },
	{ "versions-extended-damaged", extended_damaged, true, 0, 0 },
	{ 0 },
};

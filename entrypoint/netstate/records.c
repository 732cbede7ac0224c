/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/netstate_internal.h"

int record_set_text(struct record *record, const char *field, const char *text)
{
	return text && *text ? record_set(record, field, text) : 0;
}

struct record *records_add(struct statefile *records, const char *kind, const char *field,
	const char *text, const char *second, const char *second_text)
{
	struct record *record = statefile_add(records, kind);

	if (!record || record_set_text(record, field, text) < 0 ||
		record_set_text(record, second, second_text) < 0)
		return NULL;
	return record;
}

struct record *records_next(
	const struct statefile *records, const char *kind, const struct record *previous)
{
	size_t i = previous ? (size_t) (previous - records->items) + 1 : 0;

	for (; i < records->count; i++)
		if (strcmp(records->items[i].kind, kind) == 0)
			return &records->items[i];
	return NULL;
}

struct record *records_find(
	const struct statefile *records, const char *kind, const char *field, const char *value)
{
	struct record *record = NULL;

	while ((record = records_next(records, kind, record)))
		if (strcmp(record_text(record, field), value) == 0)
			return record;
	return NULL;
}

const char *record_text(const struct record *record, const char *field)
{
	const char *text = record ? record_get(record, field) : NULL;

	return text ? text : "";
}

uint64_t record_number(const struct record *record, const char *field)
{
	uint64_t number = 0;

	return record && record_get_u64(record, field, &number) == 0 ? number : 0;
}

bool record_is_of(const struct record *record, const char *const *kinds)
{
	while (*kinds && strcmp(record->kind, *kinds) != 0)
		kinds++;
	return *kinds != NULL;
}

/* A record without a kind is none. */
void record_forget(struct record *record)
{
	*record->kind = '\0';
}

static bool is_kept(const struct record *record)
{
	return *record->kind != '\0';
}

void records_sweep(struct statefile *records)
{
	statefile_keep(records, is_kept);
}

void records_forget(
	struct statefile *records, const char *const *kinds, const char *field, const char *value)
{
	for (size_t i = 0; i < records->count; i++) {
		struct record *record = &records->items[i];

		if (record_is_of(record, kinds) &&
			(!field || strcmp(record_text(record, field), value) == 0))
			record_forget(record);
	}
	records_sweep(records);
}

void *array_add(void *array, size_t *count, size_t size)
{
	char *items;
	char *grown;

	memcpy(&items, array, sizeof(items));
	grown = reallocarray(items, *count + 1, size);
	if (!grown)
		return NULL;
	memcpy(array, &grown, sizeof(grown));
	return memset(grown + (*count)++ * size, 0, size);
}

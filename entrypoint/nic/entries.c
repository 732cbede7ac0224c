/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/entries.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "common/cleanup.h"
#include "entrypoint/engine/statefile.h"

#define WORD "slipway-hostfiles"
#define KIND "file"

void entries_free(struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		free(entries->items[i].path);
	free(entries->items);
	*entries = (struct entries){ 0 };
}

struct entry *entries_find(const struct entries *entries, const char *path)
{
	for (size_t i = 0; i < entries->count; i++)
		if (strcmp(entries->items[i].path, path) == 0)
			return &entries->items[i];
	return NULL;
}

struct entry *entries_add(struct entries *entries, const char *path)
{
	struct entry *there = entries_find(entries, path);
	struct entry *grown;
	char *copy;

	if (there)
		return there;
	copy = strdup(path);
	grown = reallocarray(entries->items, entries->count + 1, sizeof(*grown));
	if (grown)
		entries->items = grown;
	if (!copy || !grown) {
		free(copy);
		return NULL;
	}
	grown[entries->count] = (struct entry){ .path = copy };
	return &grown[entries->count++];
}

void entries_remove(struct entries *entries, struct entry *entry)
{
	size_t index = (size_t) (entry - entries->items);

	free(entry->path);
	memmove(entry, entry + 1, (--entries->count - index) * sizeof(*entry));
}

static int add_record(struct entries *entries, const struct record *record)
{
	const char *path = record_get(record, "path");
	const char *made = record_get(record, "made");
	struct entry *entry;

	if (strcmp(record->kind, KIND) != 0 || !path)
		return 0; /* of a later version */
	entry = entries_add(entries, path);
	if (!entry)
		return -ENOMEM;
	if (record_get_u64(record, "hash", &entry->hash) < 0)
		entry->hash = 0;
	entry->made = made && strcmp(made, "yes") == 0;
	return 0;
}

int entries_read(int root_fd, const char *log, struct entries *entries, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = statefile_read(root_fd, log, &records, error);

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; r == 0 && i < records.count; i++)
		if (add_record(entries, &records.items[i]) < 0)
			r = error_set_errno(error, -ENOMEM, "/%s", log);
	return r;
}

static int fill(struct statefile *records, const struct entry *entry)
{
	struct record *record = statefile_add(records, KIND);
	int r = record ? record_set(record, "path", entry->path) : -ENOMEM;

	if (r == 0)
		r = record_setf(record, "hash", "0x%016" PRIx64, entry->hash);
	return r < 0 || !entry->made ? r : record_set(record, "made", "yes");
}

int entries_write(int root_fd, const char *log, const struct entries *entries, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = 0;

	if (!entries->count)
		return unlinkat(root_fd, log, 0) < 0 && errno != ENOENT
			       ? error_set_errno(error, -errno, "/%s", log)
			       : 0;
	for (size_t i = 0; r == 0 && i < entries->count; i++)
		r = fill(&records, &entries->items[i]);
	return r < 0 ? error_set_errno(error, r, "/%s", log)
		     : statefile_write(root_fd, log, &records, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the journal of the network state: what is read is written and read again as it was.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "entrypoint/netstate/device_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct statefile *a, const struct statefile *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (strcmp(a->items[i].kind, b->items[i].kind) != 0 ||
			a->items[i].count != b->items[i].count)
			return false;
		for (size_t k = 0; k < a->items[i].count; k++)
			if (strcmp(a->items[i].fields[k].name, b->items[i].fields[k].name) != 0 ||
				strcmp(a->items[i].fields[k].value, b->items[i].fields[k].value) !=
					0)
				return false;
	}
	return true;
}

/* Numbers and bytes of every field, whatever is in it. */
static void read_values(const struct record *record)
{
	unsigned char bytes[16];
	uint64_t number;

	for (size_t i = 0; i < record->count; i++) {
		(void) record_get_u64(record, record->fields[i].name, &number);
		if (record_get_hex(record, record->fields[i].name, bytes, sizeof(bytes)) >
			(int) sizeof(bytes))
			abort();
	}
}

/* Whatever the records are, names of devices and drivers stay below their folders. */
static void load_devices(const struct statefile *records)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	struct error error = { 0 };

	for (size_t i = 0; i < records->count; i++)
		if (device_load_one(records, i, &list, &error) < 0)
			break;
	for (size_t i = 0; i < list.count; i++) {
		const struct device *device = &list.items[i];
		const char *slash = strchr(device->name, '/');

		if (!slash || strchr(slash + 1, '/') || strcmp(slash + 1, "..") == 0 ||
			strchr(device->driver, '/'))
			abort();
		for (size_t k = 0; k < device->vf_count; k++)
			if (strchr(device->vfs[k].driver, '/'))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(statefile_free) struct statefile records = { 0 };
	_cleanup_(statefile_free) struct statefile again = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	size_t text_size;

	if (statefile_parse((const char *) data, size, "journal", &records, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < records.count; i++)
		read_values(&records.items[i]);
	load_devices(&records);
	if (statefile_render(&records, &text, &text_size) < 0 ||
		statefile_parse(text, text_size, "again", &again, &error) < 0 ||
		!is_same(&records, &again))
		abort();
	return 0;
}

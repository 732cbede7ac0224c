/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/name_hash.h"
#include "common/fs.h"
#include "common/module_name.h"
#include "module/decompress.h"
#include "module/symvers_parts.h"

/* A distribution's file has 25,000 lines and 1.5 MB; what collides in the index takes its time. */
#define FILE_SIZE_LIMIT ((size_t) 16 * 1024 * 1024)

#define FIELD_COUNT 5
#define FIND_BATCH  64 /* names that are looked for together */

/* The slot that holds @symbol, or the free one where it belongs. */
static struct symvers_slot *find_slot(
	const struct symvers *symvers, const char *symbol, uint32_t hash)
{
	size_t mask = symvers->slot_count - 1;
	size_t place = hash & mask;

	for (; symvers->slots[place].place; place = (place + 1) & mask) {
		const struct symvers_slot *slot = &symvers->slots[place];

		if (slot->hash == hash &&
			strcmp(symvers->entries.items[slot->place - 1].symbol, symbol) == 0)
			break;
	}
	return &symvers->slots[place];
}

void symvers_entries_free(struct symvers_entries *entries)
{
	free(entries->items);
	*entries = (struct symvers_entries){ 0 };
}

int symvers_entries_reserve(struct symvers_entries *entries, size_t capacity)
{
	struct symvers_entry *items;

	if (capacity <= entries->capacity)
		return 0;
	items = reallocarray(entries->items, capacity, sizeof(*items));
	if (!items)
		return -ENOMEM;
	entries->items = items;
	entries->capacity = capacity;
	return 0;
}

static bool known_export(const char *text)
{
	static const char *const known[] = { "EXPORT_SYMBOL", "EXPORT_SYMBOL_GPL",
		"EXPORT_SYMBOL_GPL_FUTURE", "EXPORT_UNUSED_SYMBOL", "EXPORT_UNUSED_SYMBOL_GPL" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(text, known[i]) == 0)
			return true;
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "0x" and up to eight digits. */
static bool parse_crc(const char *text, uint32_t *ret_crc)
{
	uint32_t crc = 0;
	size_t i = 2;

	if (text[0] != '0' || text[1] != 'x')
		return false;
	for (; text[i]; i++) {
		int digit = hex_digit(text[i]);

		if (digit < 0 || i >= strlen("0x12345678"))
			return false;
		crc = crc << 4 | (uint32_t) digit;
	}
	*ret_crc = crc;
	return i > 2;
}

/* Cuts @line at its tabs; an empty field stays a field. Returns how many there are. */
static size_t split_fields(char *line, const char *fields[FIELD_COUNT])
{
	size_t count = 0;

	while (line) {
		char *tab = strchr(line, '\t');

		if (tab)
			*tab++ = '\0';
		if (count < FIELD_COUNT)
			fields[count] = line;
		count++;
		line = tab;
	}
	return count;
}

/* Says what is wrong with the line, or NULL when @entry is filled. */
static const char *parse_line(char *line, struct symvers_entry *entry)
{
	const char *fields[FIELD_COUNT] = { "", "", "", "", "" };
	size_t count = split_fields(line, fields);
	bool known = count >= FIELD_COUNT - 1 && known_export(fields[3]);

	if (count < FIELD_COUNT - 1 || count > FIELD_COUNT)
		return "has not 4 or 5 fields between tabs";
	if (!parse_crc(fields[0], &entry->crc))
		return "does not begin with a CRC such as 0x8e6daf35";
	/* Linux 5.4 to 5.5 put the name space in front of the module (until 5190044c2965). */
	if (count == FIELD_COUNT && !known && known_export(fields[4])) {
		const char *name_space = fields[2];

		fields[2] = fields[3];
		fields[3] = fields[4];
		fields[4] = name_space;
		known = true;
	}
	if (!known)
		return "has no export type such as EXPORT_SYMBOL_GPL";
	if (!*fields[1] || !*fields[2])
		return "names no symbol or no module";
	entry->has_crc = true;
	entry->partial = false;
	entry->symbol = fields[1];
	entry->module = fields[2];
	entry->export = fields[3];
	entry->name_space = fields[4];
	return NULL;
}

static size_t count_lines(const char *text, size_t size)
{
	const char *end = text + size;
	size_t count = 1;

	while ((text = memchr(text, '\n', (size_t) (end - text)))) {
		text++;
		count++;
	}
	return count;
}

/* Lines of one module mostly stand together: its name is one string then, for those who compare. */
static void share_module(struct symvers_entries *entries)
{
	struct symvers_entry *entry = &entries->items[entries->count];

	if (entries->count && strcmp(entry[-1].module, entry->module) == 0)
		entry->module = entry[-1].module;
}

static int parse_text(char *text, size_t size, struct symvers_entries *entries, struct error *error)
{
	char *line = text, *text_end = text + size;

	if (symvers_entries_reserve(entries, count_lines(text, size)) < 0 || !entries->items)
		return error_set_errno(error, -ENOMEM, "%zu bytes", size);
	for (size_t number = 1; line < text_end; number++) {
		char *end = memchr(line, '\n', (size_t) (text_end - line));
		const char *wrong;

		if (!end)
			end = text_end;
		*end = '\0';
		wrong = parse_line(line, &entries->items[entries->count]);
		if (wrong)
			return error_set(error, -EINVAL,
				"line %zu %s: not a Module.symvers, or a damaged one", number,
				wrong);
		share_module(entries);
		entries->count++;
		line = end + 1;
	}
	return 0;
}

/* Where one goes whose symbol is not there yet. */
static struct symvers_slot *free_slot(struct symvers_slot *slots, size_t count, uint32_t hash)
{
	size_t place = hash & (count - 1);

	while (slots[place].place)
		place = (place + 1) & (count - 1);
	return &slots[place];
}

static int reserve_slots(struct symvers *symvers, size_t entry_count)
{
	size_t slot_count = 1024;
	struct symvers_slot *slots;

	while (slot_count < entry_count * 2)
		slot_count *= 2;
	if (slot_count <= symvers->slot_count)
		return 0;
	slots = calloc(slot_count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < symvers->slot_count; i++)
		if (symvers->slots[i].place)
			*free_slot(slots, slot_count, symvers->slots[i].hash) = symvers->slots[i];
	free(symvers->slots);
	symvers->slots = slots;
	symvers->slot_count = slot_count;
	return 0;
}

/* There is room for it. */
static void put_entry(struct symvers *symvers, struct symvers_entry entry, uint32_t hash)
{
	struct symvers_slot *slot = find_slot(symvers, entry.symbol, hash);

	slot->hash = hash;
	if (!slot->place)
		slot->place = (uint32_t) ++symvers->entries.count;
	symvers->entries.items[slot->place - 1] = entry;
}

/* The first entries stay where they are, but for those that a later one of the name replaces. */
static void take_over(struct symvers *symvers, struct symvers_entries *added)
{
	size_t count = added->count;

	symvers_entries_free(&symvers->entries);
	symvers->entries = *added;
	symvers->entries.count = 0;
	*added = (struct symvers_entries){ 0 };
	for (size_t i = 0; i < count; i++)
		put_entry(symvers, symvers->entries.items[i],
			name_hash(symvers->entries.items[i].symbol));
}

/* Cannot fail half-way: room is made first. */
int symvers_merge(struct symvers *symvers, struct symvers_entries *added)
{
	size_t count = symvers->entries.count + added->count;
	size_t capacity = symvers->entries.capacity;

	if (reserve_slots(symvers, count) < 0)
		return -ENOMEM;
	if (!symvers->entries.count && added->capacity && added->capacity >= capacity) {
		take_over(symvers, added);
		return 0;
	}
	/* Twice as much at once: entries may come one by one. */
	if (count > capacity)
		capacity = count > capacity * 2 ? count : capacity * 2;
	if (symvers_entries_reserve(&symvers->entries, capacity) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < added->count; i++)
		put_entry(symvers, added->items[i], name_hash(added->items[i].symbol));
	return 0;
}

int symvers_reserve(struct symvers *symvers, size_t count)
{
	if (reserve_slots(symvers, count) < 0)
		return -ENOMEM;
	return symvers_entries_reserve(&symvers->entries, count);
}

int symvers_put_hashed(struct symvers *symvers, const struct symvers_entry *entry, uint32_t hash)
{
	size_t count = symvers->entries.count + 1;
	size_t capacity = symvers->entries.capacity;

	if (count > capacity)
		capacity = capacity ? capacity * 2 : 64;
	if (reserve_slots(symvers, count) < 0 ||
		symvers_entries_reserve(&symvers->entries, capacity) < 0)
		return -ENOMEM;
	put_entry(symvers, *entry, hash);
	return 0;
}

static int add_text(struct symvers *symvers, char *bytes, size_t size, struct error *error)
{
	_cleanup_(symvers_entries_free) struct symvers_entries added = { 0 };
	struct symvers_text *text;
	int r;

	if (strlen(bytes) != size)
		return error_set(error, -EINVAL,
			"has a NUL byte at offset %zu: not a Module.symvers", strlen(bytes));
	r = parse_text(bytes, size, &added, error);
	if (r < 0)
		return r;
	text = calloc(1, sizeof(*text));
	if (!text || symvers_merge(symvers, &added) < 0) {
		free(text);
		return error_set_errno(error, -ENOMEM, "%zu symbols", added.count);
	}
	text->bytes = bytes;
	text->next = symvers->texts;
	symvers->texts = text;
	return 0;
}

/* Replaces packed @bytes by what they hold, with a NUL at the end as fs_read() has it. */
static int unpack(char **bytes, size_t *size, struct error *error)
{
	enum decompress_format format = decompress_detect(*bytes, *size);
	_cleanup_free_ char *unpacked = NULL;
	size_t unpacked_size;
	char *text;
	int r;

	if (format == DECOMPRESS_NONE)
		return 0;
	r = decompress(format, *bytes, *size, FILE_SIZE_LIMIT, &unpacked, &unpacked_size, error);
	if (r < 0)
		return r;
	text = realloc(unpacked, unpacked_size + 1);
	if (!text)
		return error_set_errno(error, -ENOMEM, "cannot unpack");
	unpacked = NULL;
	text[unpacked_size] = '\0';
	free(*bytes);
	*bytes = text;
	*size = unpacked_size;
	return 0;
}

int symvers_add(struct symvers *symvers, int dir_fd, const char *path, struct error *error)
{
	_cleanup_free_ char *bytes = NULL;
	size_t size = 0;
	int r = fs_read(dir_fd, path, FILE_SIZE_LIMIT, &bytes, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s: cannot read symbol versions", path);
	r = unpack(&bytes, &size, error);
	if (r == 0)
		r = add_text(symvers, bytes, size, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	(void) TAKE_PTR(bytes); /* symvers->texts has it now */
	return 0;
}

int symvers_open(int dir_fd, const char *path, struct symvers **ret, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *symvers = calloc(1, sizeof(*symvers));
	int r;

	if (!symvers)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = symvers_add(symvers, dir_fd, path, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(symvers);
	return 0;
}

int symvers_new(struct symvers **ret)
{
	struct symvers *symvers = calloc(1, sizeof(*symvers));

	if (!symvers || reserve_slots(symvers, 0) < 0) {
		free(symvers);
		return -ENOMEM;
	}
	*ret = symvers;
	return 0;
}

const struct symvers_entry *symvers_find_hashed(
	const struct symvers *symvers, const char *symbol, uint32_t hash)
{
	uint32_t place = find_slot(symvers, symbol, hash)->place;

	return place ? &symvers->entries.items[place - 1] : NULL;
}

/*
 * Index, entry and name lie far apart, each in memory that is not at hand: what is there for all of
 * a batch is asked for first, so that they need not be waited for one by one.
 */
static void prefetch_batch(const struct symvers *symvers, const uint32_t *hashes, size_t count)
{
	size_t mask = symvers->slot_count - 1;
	const struct symvers_entry *entries[FIND_BATCH];

	for (size_t i = 0; i < count; i++)
		__builtin_prefetch(&symvers->slots[hashes[i] & mask]);
	for (size_t i = 0; i < count; i++) {
		uint32_t place = symvers->slots[hashes[i] & mask].place;

		entries[i] = &symvers->entries.items[place ? place - 1 : 0];
		__builtin_prefetch(entries[i]);
	}
	for (size_t i = 0; i < count; i++)
		__builtin_prefetch(entries[i]->symbol);
}

void symvers_find_many(const struct symvers *symvers, size_t count, const uint32_t *hashes,
	const char *(*name)(const void *context, size_t i), const void *context,
	const struct symvers_entry **found)
{
	for (size_t first = 0; first < count; first += FIND_BATCH) {
		size_t end = count - first < FIND_BATCH ? count : first + FIND_BATCH;

		if (symvers->entries.count)
			prefetch_batch(symvers, hashes + first, end - first);
		for (size_t i = first; i < end; i++)
			found[i] = symvers_find_hashed(symvers, name(context, i), hashes[i]);
	}
}

const struct symvers_entry *symvers_find(const struct symvers *symvers, const char *symbol)
{
	return symvers_find_hashed(symvers, symbol, name_hash(symbol));
}

size_t symvers_count(const struct symvers *symvers)
{
	return symvers->entries.count;
}

const struct symvers_entry *symvers_at(const struct symvers *symvers, size_t index)
{
	return &symvers->entries.items[index];
}

void symvers_close(struct symvers **symvers)
{
	struct symvers *closing = TAKE_PTR(*symvers);

	if (!closing)
		return;
	while (closing->texts) {
		struct symvers_text *text = closing->texts;

		closing->texts = text->next;
		free(text->bytes);
		free(text);
	}
	symvers_entries_free(&closing->entries);
	free(closing->slots);
	free(closing);
}

void symvers_module_name(const struct symvers_entry *entry, char *name, size_t size)
{
	module_name_copy(entry->module, strlen(entry->module), name, size);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/symvers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "module/decompress.h"

/* A distribution's file has 25,000 lines and 1.5 MB. */
#define FILE_SIZE_LIMIT ((size_t) 256 * 1024 * 1024)

#define FIELD_COUNT 5

/* The text of one file, cut into the strings that entries point to. */
struct text {
	struct text *next;
	char *bytes;
};

struct entries {
	struct symvers_entry *items;
	size_t count;
	size_t capacity;
};

/* Of the index: the hash lies beside, so that most of what is not meant needs no look at the entry.
 */
struct slot {
	uint32_t place; /* of the entry, plus 1; 0: free */
	uint32_t hash;
};

/* Entries in file order, and an open-addressed index of them by symbol. */
struct symvers {
	struct text *texts;
	struct entries entries;
	struct slot *slots;
	size_t slot_count; /* a power of two, at least twice entries.count */
};

/* 32-bit FNV-1a. */
static uint32_t hash_symbol(const char *symbol)
{
	uint32_t hash = 2166136261U;

	while (*symbol)
		hash = (hash ^ (unsigned char) *symbol++) * 16777619U;
	return hash;
}

/* The slot that holds @symbol, or the free one where it belongs. */
static struct slot *find_slot(const struct symvers *symvers, const char *symbol, uint32_t hash)
{
	size_t mask = symvers->slot_count - 1;
	size_t place = hash & mask;

	for (; symvers->slots[place].place; place = (place + 1) & mask) {
		const struct slot *slot = &symvers->slots[place];

		if (slot->hash == hash &&
			strcmp(symvers->entries.items[slot->place - 1].symbol, symbol) == 0)
			break;
	}
	return &symvers->slots[place];
}

/* The same, of which the caller sets the place. */
static struct slot *claim_slot(struct symvers *symvers, const char *symbol)
{
	uint32_t hash = hash_symbol(symbol);
	struct slot *slot = find_slot(symvers, symbol, hash);

	slot->hash = hash;
	return slot;
}

static void entries_free(struct entries *entries)
{
	free(entries->items);
	*entries = (struct entries){ 0 };
}

static int entries_reserve(struct entries *entries, size_t capacity)
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

static bool parse_crc(const char *text, uint32_t *ret_crc)
{
	char *end;

	if (text[0] != '0' || text[1] != 'x' || strlen(text) > strlen("0x12345678") ||
		!isxdigit((unsigned char) text[2]))
		return false;
	*ret_crc = (uint32_t) strtoul(text + 2, &end, 16);
	return *end == '\0';
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

	if (count < FIELD_COUNT - 1 || count > FIELD_COUNT)
		return "has not 4 or 5 fields between tabs";
	if (!parse_crc(fields[0], &entry->crc))
		return "does not begin with a CRC such as 0x8e6daf35";
	/* Linux 5.4 to 5.5 put the name space in front of the module (until 5190044c2965). */
	if (count == FIELD_COUNT && !known_export(fields[3]) && known_export(fields[4])) {
		const char *name_space = fields[2];

		fields[2] = fields[3];
		fields[3] = fields[4];
		fields[4] = name_space;
	}
	if (!known_export(fields[3]))
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

static int parse_text(char *text, struct entries *entries, struct error *error)
{
	char *line = text;

	for (size_t number = 1; *line; number++) {
		char *end = line + strcspn(line, "\n");
		bool last = *end == '\0';
		struct symvers_entry entry;
		const char *wrong;

		*end = '\0';
		wrong = parse_line(line, &entry);
		if (wrong)
			return error_set(error, -EINVAL,
				"line %zu %s: not a Module.symvers, or a damaged one", number,
				wrong);
		if (entries->count == entries->capacity &&
			entries_reserve(entries, entries->capacity ? entries->capacity * 2 : 1024) <
				0)
			return error_set_errno(error, -ENOMEM, "line %zu", number);
		entries->items[entries->count++] = entry;
		line = last ? end : end + 1;
	}
	return 0;
}

static int reserve_slots(struct symvers *symvers, size_t entry_count)
{
	size_t slot_count = 1024;
	struct slot *slots;

	while (slot_count < entry_count * 2)
		slot_count *= 2;
	if (slot_count <= symvers->slot_count)
		return 0;
	slots = calloc(slot_count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(symvers->slots);
	symvers->slots = slots;
	symvers->slot_count = slot_count;
	for (size_t i = 0; i < symvers->entries.count; i++)
		claim_slot(symvers, symvers->entries.items[i].symbol)->place = (uint32_t) i + 1;
	return 0;
}

/* Cannot fail half-way: room is made first. */
static int merge(struct symvers *symvers, const struct entries *added)
{
	size_t count = symvers->entries.count + added->count;
	size_t capacity = symvers->entries.capacity;

	/* Twice as much at once: entries may come one by one. */
	if (count > capacity)
		capacity = count > capacity * 2 ? count : capacity * 2;
	if (entries_reserve(&symvers->entries, capacity) < 0 || reserve_slots(symvers, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < added->count; i++) {
		struct slot *slot = claim_slot(symvers, added->items[i].symbol);

		if (!slot->place)
			slot->place = (uint32_t) ++symvers->entries.count;
		symvers->entries.items[slot->place - 1] = added->items[i];
	}
	return 0;
}

static int add_text(struct symvers *symvers, char *bytes, size_t size, struct error *error)
{
	_cleanup_(entries_free) struct entries added = { 0 };
	struct text *text;
	int r;

	if (strlen(bytes) != size)
		return error_set(error, -EINVAL,
			"has a NUL byte at offset %zu: not a Module.symvers", strlen(bytes));
	r = parse_text(bytes, &added, error);
	if (r < 0)
		return r;
	text = calloc(1, sizeof(*text));
	if (!text || merge(symvers, &added) < 0) {
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

static char *copy_string(char **next, const char *text)
{
	char *copy = *next;

	*next = stpcpy(copy, text) + 1;
	return copy;
}

/* The module's own name, or its file's where it is too old to state one. */
static size_t module_stem(const struct elf_module *module, const char **ret_name)
{
	const char *name = elf_module_name(module);
	const char *slash;

	if (!name) {
		slash = strrchr(elf_module_path(module), '/');
		name = slash ? slash + 1 : elf_module_path(module);
	}
	*ret_name = name;
	return strcspn(name, ".");
}

/* Makes room for @count entries and @size bytes of their strings, at *@ret_bytes. */
static struct text *new_text(struct entries *added, size_t count, size_t size, char **ret_bytes)
{
	struct text *text = calloc(1, sizeof(*text));

	if (!text || entries_reserve(added, count) < 0 || !(text->bytes = malloc(size))) {
		free(text);
		return NULL;
	}
	*ret_bytes = text->bytes;
	return text;
}

static int merge_text(struct symvers *symvers, struct text *text, const struct entries *added)
{
	if (merge(symvers, added) < 0) {
		free(text->bytes);
		free(text);
		return -ENOMEM;
	}
	text->next = symvers->texts;
	symvers->texts = text;
	return 0;
}

int symvers_add_module(struct symvers *symvers, const struct elf_module *module)
{
	_cleanup_(entries_free) struct entries added = { 0 };
	size_t count, size, stem_size;
	const struct elf_module_export *exports = elf_module_exports(module, &count);
	struct text *text;
	const char *stem;
	char *next, *name;

	stem_size = module_stem(module, &stem);
	size = stem_size + 1;
	for (size_t i = 0; i < count; i++)
		size += strlen(exports[i].symbol) + strlen(exports[i].name_space) + 2;
	text = new_text(&added, count, size, &name);
	if (!text)
		return -ENOMEM;
	memcpy(name, stem, stem_size);
	name[stem_size] = '\0';
	next = name + stem_size + 1;
	for (size_t i = 0; i < count; i++)
		added.items[added.count++] = (struct symvers_entry){
			.symbol = copy_string(&next, exports[i].symbol),
			.module = name,
			.export = exports[i].gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL",
			.name_space = copy_string(&next, exports[i].name_space),
			.crc = exports[i].crc,
			.has_crc = exports[i].has_crc,
		};
	return merge_text(symvers, text, &added);
}

int symvers_put(struct symvers *symvers, const struct symvers_entry *entry)
{
	_cleanup_(entries_free) struct entries added = { 0 };
	size_t size = strlen(entry->symbol) + strlen(entry->module) + strlen(entry->export) +
		      strlen(entry->name_space) + 4;
	char *next = NULL;
	struct text *text = new_text(&added, 1, size, &next);

	if (!text)
		return -ENOMEM;
	added.items[0] = *entry;
	added.items[0].symbol = copy_string(&next, entry->symbol);
	added.items[0].module = copy_string(&next, entry->module);
	added.items[0].export = copy_string(&next, entry->export);
	added.items[0].name_space = copy_string(&next, entry->name_space);
	added.count = 1;
	return merge_text(symvers, text, &added);
}

static const char *export_text(const struct system_map_export *export)
{
	if (!export->has_gpl)
		return "";
	return export->gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL";
}

int symvers_add_system_map(struct symvers *symvers, const struct system_map *map)
{
	_cleanup_(entries_free) struct entries added = { 0 };
	size_t count, size = 1;
	const struct system_map_export *exports = system_map_exports(map, &count);
	struct text *text;
	char *next;

	for (size_t i = 0; i < count; i++)
		size += strlen(exports[i].symbol) + 1;
	text = new_text(&added, count, size, &next);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (!symvers_find(symvers, exports[i].symbol))
			added.items[added.count++] = (struct symvers_entry){
				.symbol = copy_string(&next, exports[i].symbol),
				.module = "vmlinux",
				.export = export_text(&exports[i]),
				.name_space = "",
				.crc = exports[i].crc,
				.has_crc = exports[i].has_crc,
				.partial = true,
			};
	return merge_text(symvers, text, &added);
}

const struct symvers_entry *symvers_find_hashed(
	const struct symvers *symvers, const char *symbol, uint32_t hash)
{
	uint32_t place = find_slot(symvers, symbol, hash)->place;

	return place ? &symvers->entries.items[place - 1] : NULL;
}

const struct symvers_entry *symvers_find(const struct symvers *symvers, const char *symbol)
{
	return symvers_find_hashed(symvers, symbol, hash_symbol(symbol));
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
		struct text *text = closing->texts;

		closing->texts = text->next;
		free(text->bytes);
		free(text);
	}
	entries_free(&closing->entries);
	free(closing->slots);
	free(closing);
}

void symvers_module_name(const struct symvers_entry *entry, char *name, size_t size)
{
	const char *slash = strrchr(entry->module, '/');

	(void) snprintf(name, size, "%s", slash ? slash + 1 : entry->module);
	for (char *dash = name; (dash = strchr(dash, '-'));)
		*dash = '_';
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What symvers.c and symvers_add.c share. */
#include "module/symvers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "module/decompress.h"

/* The text of one file, cut into the strings that entries point to. */
struct symvers_text {
	struct symvers_text *next;
	char *bytes;
};

struct symvers_entries {
	struct symvers_entry *items;
	size_t count;
	size_t capacity;
};

/* Of the index: the hash lies beside, so that most of what is not meant needs no look at the entry.
 */
struct symvers_slot {
	uint32_t place; /* of the entry, plus 1; 0: free */
	uint32_t hash;
};

/* Entries in file order, and an open-addressed index of them by symbol. */
struct symvers {
	struct symvers_text *texts;
	struct symvers_entries entries;
	struct symvers_slot *slots;
	size_t slot_count; /* a power of two, at least twice entries.count */
};

/* A distribution's file has 25,000 lines and 1.5 MB; what collides in the index takes its time. */
#define FILE_SIZE_LIMIT ((size_t) 16 * 1024 * 1024)

#define FIELD_COUNT 5
#define FIND_BATCH  64 /* names that are looked for together */

/* A distribution's System.map has 200,000 lines and 8 MB. */
#define MAP_SIZE_LIMIT ((size_t) 64 * 1024 * 1024)
#define ENTRY_PREFIX   "__ksymtab_"
#define CRC_PREFIX     "__crc_"

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

static void free_entries(struct symvers_entries *entries)
{
	free(entries->items);
	*entries = (struct symvers_entries){ 0 };
}

static int reserve_entries(struct symvers_entries *entries, size_t capacity)
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

static int parse_text(char *text, size_t size, struct symvers_entries *entries, struct error *error)
{
	char *line = text, *text_end = text + size;

	if (reserve_entries(entries, count_lines(text, size)) < 0 || !entries->items)
		return error_set_errno(error, -ENOMEM, "%zu bytes", size);
	for (size_t number = 1; line < text_end; number++) {
		char *end = memchr(line, '\n', (size_t) (text_end - line));
		struct symvers_entry *entry;
		const char *wrong;

		if (!end)
			end = text_end;
		*end = '\0';
		wrong = parse_line(line, &entries->items[entries->count]);
		if (wrong)
			return error_set(error, -EINVAL,
				"line %zu %s: not a Module.symvers, or a damaged one", number,
				wrong);
		/* Lines of one module mostly stand together: its name is one string then. */
		entry = &entries->items[entries->count];
		if (entries->count && strcmp(entry[-1].module, entry->module) == 0)
			entry->module = entry[-1].module;
		entries->count++;
		line = end + 1;
	}
	return 0;
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
	for (size_t i = 0; i < symvers->slot_count; i++) {
		size_t place = symvers->slots[i].hash & (slot_count - 1);

		if (!symvers->slots[i].place)
			continue;
		while (slots[place].place)
			place = (place + 1) & (slot_count - 1);
		slots[place] = symvers->slots[i];
	}
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

	free_entries(&symvers->entries);
	symvers->entries = *added;
	symvers->entries.count = 0;
	*added = (struct symvers_entries){ 0 };
	for (size_t i = 0; i < count; i++)
		put_entry(symvers, symvers->entries.items[i],
			name_hash(symvers->entries.items[i].symbol));
}

/*
 * Adds the entries of one source, where each wins over what is there; may take them over. Cannot
 * fail half-way: room is made first.
 */
static int merge_entries(struct symvers *symvers, struct symvers_entries *added)
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
	if (reserve_entries(&symvers->entries, capacity) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < added->count; i++)
		put_entry(symvers, added->items[i], name_hash(added->items[i].symbol));
	return 0;
}

int symvers_reserve(struct symvers *symvers, size_t count)
{
	if (reserve_slots(symvers, count) < 0)
		return -ENOMEM;
	return reserve_entries(&symvers->entries, count);
}

int symvers_put_hashed(struct symvers *symvers, const struct symvers_entry *entry, uint32_t hash)
{
	size_t count = symvers->entries.count + 1;
	size_t capacity = symvers->entries.capacity;

	if (count > capacity)
		capacity = capacity ? capacity * 2 : 64;
	if (reserve_slots(symvers, count) < 0 || reserve_entries(&symvers->entries, capacity) < 0)
		return -ENOMEM;
	put_entry(symvers, *entry, hash);
	return 0;
}

static int add_text(struct symvers *symvers, char *bytes, size_t size, struct error *error)
{
	_cleanup_(free_entries) struct symvers_entries added = { 0 };
	struct symvers_text *text;
	int r;

	if (strlen(bytes) != size)
		return error_set(error, -EINVAL,
			"has a NUL byte at offset %zu: not a Module.symvers", strlen(bytes));
	r = parse_text(bytes, size, &added, error);
	if (r < 0)
		return r;
	text = calloc(1, sizeof(*text));
	if (!text || merge_entries(symvers, &added) < 0) {
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
	free_entries(&closing->entries);
	free(closing->slots);
	free(closing);
}

void symvers_module_name(const struct symvers_entry *entry, char *name, size_t size)
{
	module_name_copy(entry->module, strlen(entry->module), name, size);
}

/* ---- entries that are no lines of a Module.symvers: of modules, of a System.map, single ones */

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
static struct symvers_text *new_text(
	struct symvers_entries *added, size_t count, size_t size, char **ret_bytes)
{
	struct symvers_text *text = calloc(1, sizeof(*text));

	if (!text || reserve_entries(added, count) < 0 || !(text->bytes = malloc(size))) {
		free(text);
		return NULL;
	}
	*ret_bytes = text->bytes;
	return text;
}

static int merge_text(
	struct symvers *symvers, struct symvers_text *text, struct symvers_entries *added)
{
	if (merge_entries(symvers, added) < 0) {
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
	_cleanup_(free_entries) struct symvers_entries added = { 0 };
	size_t count, size, stem_size;
	const struct elf_module_export *exports = elf_module_exports(module, &count);
	struct symvers_text *text;
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
	_cleanup_(free_entries) struct symvers_entries added = { 0 };
	size_t size = strlen(entry->symbol) + strlen(entry->module) + strlen(entry->export) +
		      strlen(entry->name_space) + 4;
	char *next = NULL;
	struct symvers_text *text = new_text(&added, 1, size, &next);

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

int symvers_put_borrowed(struct symvers *symvers, const struct symvers_entry *entry)
{
	return symvers_put_hashed(symvers, entry, name_hash(entry->symbol));
}

/* ---- System.map */

struct line {
	uint64_t address;
	const char *name;
	char type; /* nm's letter */
};

/* What EXPORT_SYMBOL left in it: __ksymtab_NAME, and of kernels before 5.19 __crc_NAME. */
struct system_map {
	char *text;
	struct line *lines;
	size_t count;
	struct symvers *crcs;           /* of the __crc_ symbols */
	const struct line *start, *end; /* of the GPL-only exports; NULL for newer kernels */
};

static void free_map(struct system_map *map)
{
	free(map->text);
	free(map->lines);
	symvers_close(&map->crcs);
}

/* Cuts one line, without its '\n', into its fields. */
static bool parse_map_line(char *text, struct line *line)
{
	char *end;

	if (!isxdigit((unsigned char) text[0]))
		return false;
	line->address = strtoull(text, &end, 16);
	if (end - text > 16 || end[0] != ' ' || !isgraph((unsigned char) end[1]) || end[2] != ' ')
		return false;
	line->type = end[1];
	line->name = end + 3;
	if (!*line->name || strchr(line->name, ' '))
		return false;
	end[3 + strcspn(line->name, "\t")] = '\0'; /* kallsyms puts the module's name there */
	return *line->name;
}

static int parse_map(struct system_map *map, size_t size, struct error *error)
{
	map->lines = calloc(count_lines(map->text, size), sizeof(*map->lines));
	if (!map->lines)
		return error_set_errno(error, -ENOMEM, "cannot read");
	for (char *text = map->text; *text;) {
		char *end = text + strcspn(text, "\n");
		bool last = *end == '\0';

		*end = '\0';
		if (!parse_map_line(text, &map->lines[map->count]))
			return error_set(error, -EINVAL,
				"line %zu is no address, type and name: not a System.map, or a "
				"damaged one",
				map->count + 1);
		map->count++;
		text = last ? end : end + 1;
	}
	if (!map->count)
		return error_set(error, -EINVAL, "empty: not a System.map");
	return 0;
}

static int read_map(struct system_map *map, int dir_fd, const char *path, struct error *error)
{
	size_t size = 0;
	int r = fs_read(dir_fd, path, MAP_SIZE_LIMIT, &map->text, &size);

	if (r < 0)
		return error_set_errno(error, r, "cannot read");
	if (strlen(map->text) != size)
		return error_set(error, -EINVAL, "has a NUL byte at offset %zu: not a System.map",
			strlen(map->text));
	/* Debian's linux-image has one line in the map's place. */
	if (strstr(map->text, "The real System.map is in"))
		return error_set(error, -ENODATA,
			"a note in place of the map: %.*s: give that package's file",
			(int) strcspn(map->text, "\n"), map->text);
	return parse_map(map, size, error);
}

/* Of several lines of a name the first counts. Since 5.19 the symbol is only the CRC's place. */
static int index_map(struct system_map *map)
{
	if (symvers_new(&map->crcs) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < map->count; i++) {
		const struct line *line = &map->lines[i];
		struct symvers_entry crc = { .crc = (uint32_t) line->address };

		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): not empty */
		if (!map->start && strcmp(line->name, "__start___ksymtab_gpl") == 0)
			map->start = line;
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): not empty */
		if (!map->end && strcmp(line->name, "__stop___ksymtab_gpl") == 0)
			map->end = line;
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): not empty */
		if (strncmp(line->name, CRC_PREFIX, strlen(CRC_PREFIX)) != 0)
			continue;
		crc.symbol = line->name + strlen(CRC_PREFIX);
		crc.has_crc =
			toupper((unsigned char) line->type) == 'A' && line->address <= UINT32_MAX;
		if (!symvers_find(map->crcs, crc.symbol) &&
			symvers_put_borrowed(map->crcs, &crc) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The linker's marks around the GPL-only table went with it: SINCE_FLAGS of elf_check.c. */
static const char *export_text(const struct system_map *map, const struct line *line)
{
	if (!map->start || !map->end)
		return "";
	return line->address >= map->start->address && line->address < map->end->address
		       ? "EXPORT_SYMBOL_GPL"
		       : "EXPORT_SYMBOL";
}

static int add_map(struct symvers *symvers, const struct system_map *map)
{
	_cleanup_(free_entries) struct symvers_entries added = { 0 };
	const size_t prefix = strlen(ENTRY_PREFIX);
	size_t count = 0, size = 1;
	struct symvers_text *text;
	char *next;

	for (size_t i = 0; i < map->count; i++)
		if (strncmp(map->lines[i].name, ENTRY_PREFIX, prefix) == 0) {
			count++;
			size += strlen(map->lines[i].name + prefix) + 1;
		}
	text = new_text(&added, count, size, &next);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < map->count; i++) {
		const struct line *line = &map->lines[i];
		const struct symvers_entry *crc;

		if (strncmp(line->name, ENTRY_PREFIX, prefix) != 0 || !line->name[prefix] ||
			symvers_find(symvers, line->name + prefix))
			continue;
		crc = symvers_find(map->crcs, line->name + prefix);
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): not empty */
		added.items[added.count++] = (struct symvers_entry){
			.symbol = copy_string(&next, line->name + prefix),
			.module = "vmlinux",
			.export = export_text(map, line),
			.name_space = "",
			.crc = crc && crc->has_crc ? crc->crc : 0,
			.has_crc = crc && crc->has_crc,
			.partial = true,
		};
	}
	return merge_text(symvers, text, &added);
}

int symvers_add_system_map(
	struct symvers *symvers, int dir_fd, const char *path, struct error *error)
{
	_cleanup_(free_map) struct system_map map = { .text = NULL };
	int r = read_map(&map, dir_fd, path, error);

	if (r < 0)
		return error_prefix(error, r, "%s", path);
	if (index_map(&map) < 0 || add_map(symvers, &map) < 0)
		return error_set_errno(error, -ENOMEM, "%s: %zu symbols", path, map.count);
	return 0;
}

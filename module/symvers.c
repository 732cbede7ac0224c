/* SPDX-License-Identifier: Apache-2.0 */
#include "module/symvers.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/hash.h"
#include "module/elf_internal.h"

/* The text of one file, cut into the strings that entries point to. */
struct symvers_text {
	struct symvers_text *next;
	char *bytes;
};

/* Entries in file order, and an index of them by symbol. */
struct symvers {
	struct symvers_text *texts;
	struct arena memory; /* of all other strings */
	struct symvers_entry *entries;
	size_t count;
	size_t capacity;
	struct name_table index;
};

/* A distribution's file has 25,000 lines and 1.5 MB; what collides in the index takes its time. */
#define FILE_SIZE_LIMIT ((size_t) 16 * 1024 * 1024)

#define FIELD_COUNT 5
#define NAMES_CHUNK ((size_t) 16 * 1024)

/* A distribution's System.map has 200,000 lines and 8 MB. */
#define MAP_SIZE_LIMIT ((size_t) 64 * 1024 * 1024)
#define ENTRY_PREFIX   "__ksymtab_"
#define CRC_PREFIX     "__crc_"

static bool known_export(const char *text)
{
	static const char *const known[] = { "EXPORT_SYMBOL", "EXPORT_SYMBOL_GPL",
		"EXPORT_SYMBOL_GPL_FUTURE", "EXPORT_UNUSED_SYMBOL", "EXPORT_UNUSED_SYMBOL_GPL" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(text, known[i]) == 0)
			return true;
	return false;
}

/* "0x" and up to eight digits. */
static bool parse_crc(const char *text, uint32_t *ret_crc)
{
	size_t digits =
		strncmp(text, "0x", 2) == 0 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;

	if (!digits || digits > 8 || text[2 + digits])
		return false;
	*ret_crc = (uint32_t) strtoul(text, NULL, 16);
	return true;
}

/* Cuts the line at its tabs. What is wrong with it, or NULL when @entry is filled. */
static const char *parse_line(char *line, struct symvers_entry *entry)
{
	const char *fields[FIELD_COUNT] = { "", "", "", "", "" };
	size_t count = 0;
	bool known;

	while (line) {
		char *tab = strchr(line, '\t');

		if (tab)
			*tab++ = '\0';
		if (count < FIELD_COUNT)
			fields[count] = line;
		count++;
		line = tab;
	}
	known = count >= FIELD_COUNT - 1 && known_export(fields[3]);
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

/* Room for @count entries in all. */
static int reserve_entries(struct symvers *symvers, size_t count)
{
	size_t capacity = symvers->capacity * 2 > count ? symvers->capacity * 2 : count;
	struct symvers_entry *entries;

	if (count <= symvers->capacity)
		return 0;
	entries = reallocarray(symvers->entries, capacity, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	symvers->entries = entries;
	symvers->capacity = capacity;
	return 0;
}

int symvers_reserve(struct symvers *symvers, size_t count)
{
	return name_table_reserve(&symvers->index, count) < 0 ? -ENOMEM
							      : reserve_entries(symvers, count);
}

/* There is room for it. */
static void put_entry(struct symvers *symvers, struct symvers_entry entry, uint32_t hash)
{
	uint32_t count = (uint32_t) symvers->count;
	uint32_t place = *name_table_put_hashed(&symvers->index, entry.symbol, hash, count);

	symvers->count += place == count;
	symvers->entries[place] = entry;
}

int symvers_put_borrowed(struct symvers *symvers, const struct symvers_entry *entry)
{
	if (symvers_reserve(symvers, symvers->count + 1) < 0)
		return -ENOMEM;
	put_entry(symvers, *entry, name_hash(entry->symbol));
	return 0;
}

/* Lists the lines behind the entries that are there, which stay as they are should one be wrong. */
static int parse_text(
	struct symvers *symvers, char *text, size_t size, size_t *ret_count, struct error *error)
{
	struct symvers_entry *entries;
	char *line = text, *text_end = text + size;
	size_t count = 0;

	if (reserve_entries(symvers, symvers->count + count_lines(text, size)) < 0)
		return error_set_errno(error, -ENOMEM, "%zu bytes", size);
	entries = symvers->entries + symvers->count;
	for (; line < text_end; count++) {
		char *end = memchr(line, '\n', (size_t) (text_end - line));
		const char *wrong;

		if (!end)
			end = text_end;
		*end = '\0';
		wrong = parse_line(line, &entries[count]);
		if (wrong)
			return error_set(error, -EINVAL,
				"line %zu %s: not a Module.symvers, or damaged", count + 1, wrong);
		line = end + 1;
	}
	*ret_count = count;
	return 0;
}

/* Each line wins over an entry of its symbol; @bytes are kept on success. */
static int add_text(struct symvers *symvers, char *bytes, size_t size, struct error *error)
{
	struct symvers_text *text;
	size_t first = symvers->count, count = 0;
	int r;

	if (strlen(bytes) != size)
		return error_set(error, -EINVAL,
			"has a NUL byte at offset %zu: not a Module.symvers", strlen(bytes));
	r = parse_text(symvers, bytes, size, &count, error);
	if (r < 0)
		return r;
	text = arena_alloc(&symvers->memory, sizeof(*text));
	if (!text || name_table_reserve(&symvers->index, first + count) < 0)
		return error_set_errno(error, -ENOMEM, "%zu symbols", count);
	/* None moves up: those that replace another leave room. */
	for (size_t i = first; i < first + count; i++)
		put_entry(symvers, symvers->entries[i], name_hash(symvers->entries[i].symbol));
	*text = (struct symvers_text){ symvers->texts, bytes };
	symvers->texts = text;
	return 0;
}

int symvers_add(struct symvers *symvers, int dir_fd, const char *path, struct error *error)
{
	_cleanup_free_ char *bytes = NULL;
	_cleanup_free_ char *unpacked = NULL;
	enum decompress_format format;
	size_t size = 0;
	int r = fs_read(dir_fd, path, FILE_SIZE_LIMIT, &bytes, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s: cannot read symbol versions", path);
	format = decompress_detect(bytes, size);
	if (format != DECOMPRESS_NONE)
		r = decompress(format, bytes, size, FILE_SIZE_LIMIT, &unpacked, &size, error);
	if (r == 0)
		r = add_text(symvers, unpacked ? unpacked : bytes, size, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	/* symvers->texts has it now. */
	if (unpacked)
		unpacked = NULL;
	else
		bytes = NULL;
	return 0;
}

int symvers_new(struct symvers **ret)
{
	struct symvers *symvers = calloc(1, sizeof(*symvers));

	if (!symvers)
		return -ENOMEM;
	symvers->memory.chunk_size = NAMES_CHUNK;
	*ret = symvers;
	return 0;
}

int symvers_open(int dir_fd, const char *path, struct symvers **ret, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	int r;

	if (symvers_new(&symvers) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = symvers_add(symvers, dir_fd, path, error);
	if (r == 0)
		*ret = TAKE_PTR(symvers);
	return r;
}

const struct symvers_entry *symvers_find_hashed(
	const struct symvers *symvers, const char *symbol, uint32_t hash)
{
	uint32_t place = name_table_find_hashed(&symvers->index, symbol, hash);

	return place == NAME_NONE ? NULL : &symvers->entries[place];
}

const struct symvers_entry *symvers_find(const struct symvers *symvers, const char *symbol)
{
	return symvers_find_hashed(symvers, symbol, name_hash(symbol));
}

size_t symvers_count(const struct symvers *symvers)
{
	return symvers->count;
}

const struct symvers_entry *symvers_at(const struct symvers *symvers, size_t index)
{
	return &symvers->entries[index];
}

void symvers_close(struct symvers **symvers)
{
	struct symvers *closing = TAKE_PTR(*symvers);

	if (!closing)
		return;
	for (struct symvers_text *text = closing->texts; text; text = text->next)
		free(text->bytes);
	arena_free(&closing->memory);
	free(closing->entries);
	name_table_free(&closing->index);
	free(closing);
}

void symvers_module_name(const struct symvers_entry *entry, char *name, size_t size)
{
	module_name_copy(entry->module, strlen(entry->module), name, size);
}

/* ---- entries that are no lines of a Module.symvers: of modules, of a System.map, single ones */

/* NULL without memory. */
static const char *keep(struct symvers *symvers, const char *text, size_t length)
{
	char *copy = arena_alloc(&symvers->memory, length + 1);

	if (!copy)
		return NULL;
	copy[length] = '\0';
	return memcpy(copy, text, length);
}

int symvers_put(struct symvers *symvers, const struct symvers_entry *entry)
{
	struct symvers_entry kept = *entry;

	kept.symbol = keep(symvers, entry->symbol, strlen(entry->symbol));
	kept.module = keep(symvers, entry->module, strlen(entry->module));
	kept.export = keep(symvers, entry->export, strlen(entry->export));
	kept.name_space = keep(symvers, entry->name_space, strlen(entry->name_space));
	if (!kept.symbol || !kept.module || !kept.export || !kept.name_space)
		return -ENOMEM;
	return symvers_put_borrowed(symvers, &kept);
}

int symvers_add_module(struct symvers *symvers, const struct elf_module *module)
{
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(module, &count);
	const char *name = elf_module_name(module);

	/* One that is too old to state its name has its file's. */
	if (!name) {
		const char *slash = strrchr(elf_module_path(module), '/');

		name = slash ? slash + 1 : elf_module_path(module);
	}
	name = keep(symvers, name, strcspn(name, "."));
	if (!name || symvers_reserve(symvers, symvers->count + count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct elf_module_export *export = &exports[i];
		struct symvers_entry entry = {
			.symbol = keep(symvers, export->symbol, strlen(export->symbol)),
			.module = name,
			.export = export->gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL",
			.name_space = *export->name_space ? keep(symvers, export->name_space,
								    strlen(export->name_space))
							  : "",
			.crc = export->crc,
			.has_crc = export->has_crc,
		};

		if (!entry.symbol || !entry.name_space)
			return -ENOMEM;
		put_entry(symvers, entry, export->hash);
	}
	return 0;
}

/* ---- System.map */

struct line {
	uint64_t address;
	const char *name;
	char type; /* nm's letter */
};

/*
 * The symbols that EXPORT_SYMBOL left in it: __ksymtab_NAME, and __crc_NAME in kernels before 5.19.
 */
struct system_map {
	char *text;
	struct line *lines;
	size_t count;
	struct symvers *crcs; /* of the __crc_ symbols */
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

static int read_map(struct system_map *map, int dir_fd, const char *path, struct error *error)
{
	char *line, *rest;
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
			"it only has a note instead of the map: %.*s: give the file of that "
			"package",
			(int) strcspn(map->text, "\n"), map->text);
	if (!size)
		return error_set(error, -EINVAL, "empty: not a System.map");
	map->lines = calloc(count_lines(map->text, size), sizeof(*map->lines));
	if (!map->lines)
		return error_set_errno(error, -ENOMEM, "cannot read");
	rest = map->text;
	while ((line = strsep(&rest, "\n")) && (*line || rest))
		if (!parse_map_line(line, &map->lines[map->count++]))
			return error_set(error, -EINVAL,
				"line %zu is not an address, type and name: not a System.map, or "
				"damaged",
				map->count);
	return 0;
}

/* The first of several lines of a name counts. Since 5.19 the symbol is only the CRC's place. */
static int add_map(struct symvers *symvers, struct system_map *map)
{
	const size_t prefix = strlen(ENTRY_PREFIX);
	const struct line *start = NULL, *end = NULL; /* the GPL-only exports */

	if (symvers_new(&map->crcs) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < map->count; i++) {
		const struct line *line = &map->lines[i];
		struct symvers_entry crc = { .crc = (uint32_t) line->address };

		/* NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker): each line has a name */
		if (!start && strcmp(line->name, "__start___ksymtab_gpl") == 0)
			start = line;
		if (!end && strcmp(line->name, "__stop___ksymtab_gpl") == 0)
			end = line;
		if (strncmp(line->name, CRC_PREFIX, strlen(CRC_PREFIX)) != 0)
			continue;
		/* NOLINTEND(clang-analyzer-core.NonNullParamChecker) */
		crc.symbol = line->name + strlen(CRC_PREFIX);
		crc.has_crc =
			toupper((unsigned char) line->type) == 'A' && line->address <= UINT32_MAX;
		if (!symvers_find(map->crcs, crc.symbol) &&
			symvers_put_borrowed(map->crcs, &crc) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < map->count; i++) {
		const struct line *line = &map->lines[i];
		const char *symbol = line->name + prefix;
		struct symvers_entry entry = {
			.module = "vmlinux", .export = "", .name_space = "", .partial = true
		};
		const struct symvers_entry *crc;

		if (strncmp(line->name, ENTRY_PREFIX, prefix) != 0 || !*symbol ||
			symvers_find(symvers, symbol))
			continue;
		crc = symvers_find(map->crcs, symbol);
		if (crc && crc->has_crc) {
			entry.crc = crc->crc;
			entry.has_crc = true;
		}
		/* The linker's marks around that table went with it: SINCE_FLAGS of elf_check.c. */
		if (start && end)
			entry.export =
				line->address >= start->address && line->address < end->address
					? "EXPORT_SYMBOL_GPL"
					: "EXPORT_SYMBOL";
		entry.symbol = keep(symvers, symbol, strlen(symbol));
		if (!entry.symbol || symvers_put_borrowed(symvers, &entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

int symvers_add_system_map(
	struct symvers *symvers, int dir_fd, const char *path, struct error *error)
{
	_cleanup_(free_map) struct system_map map = { .text = NULL };
	int r = read_map(&map, dir_fd, path, error);

	if (r < 0)
		return error_prefix(error, r, "%s", path);
	if (add_map(symvers, &map) < 0)
		return error_set_errno(error, -ENOMEM, "%s: %zu symbols", path, map.count);
	return 0;
}

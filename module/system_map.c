/* SPDX-License-Identifier: Apache-2.0 */
#include "module/system_map.h"

#include <ctype.h>
#include <string.h>

#include "common/name_hash.h"
#include "common/fs.h"

/* A distribution's file has 200,000 lines and 8 MB. */
#define FILE_SIZE_LIMIT ((size_t) 64 * 1024 * 1024)

#define ENTRY_PREFIX "__ksymtab_"
#define CRC_PREFIX   "__crc_"

struct line {
	uint64_t address;
	const char *name;
	char type; /* nm's letter */
};

/* Where vmlinux has its tables of exports, by the symbols that the linker sets. */
struct range {
	uint64_t start;
	uint64_t stop;
};

struct system_map {
	char *text;
	struct line *lines;
	size_t count;
	uint32_t *slots;   /* open-addressed index by name: 0 is free, else place + 1 */
	size_t slot_count; /* a power of two, at least twice count */
	struct system_map_export *exports;
	size_t export_count;
};

/* The slot that holds @name, or the free one where it belongs. */
static uint32_t *find_slot(const struct system_map *map, const char *name)
{
	size_t mask = map->slot_count - 1;
	size_t place = name_hash(name) & mask;

	while (map->slots[place] && strcmp(map->lines[map->slots[place] - 1].name, name) != 0)
		place = (place + 1) & mask;
	return &map->slots[place];
}

static const struct line *find_line(const struct system_map *map, const char *name)
{
	uint32_t place = *find_slot(map, name);

	return place ? &map->lines[place - 1] : NULL;
}

/* Cuts one line, without its '\n', into its fields. */
static bool parse_line(char *text, struct line *line)
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

static size_t count_lines(const char *text)
{
	size_t count = 1;

	while ((text = strchr(text, '\n'))) {
		count++;
		text++;
	}
	return count;
}

static int parse_text(struct system_map *map, struct error *error)
{
	char *text = map->text;

	map->lines = calloc(count_lines(text), sizeof(*map->lines));
	if (!map->lines)
		return error_set_errno(error, -ENOMEM, "cannot read");
	while (*text) {
		char *end = text + strcspn(text, "\n");
		bool last = *end == '\0';

		*end = '\0';
		if (!parse_line(text, &map->lines[map->count]))
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

static int build_index(struct system_map *map)
{
	map->slot_count = 1024;
	while (map->slot_count < map->count * 2)
		map->slot_count *= 2;
	map->slots = calloc(map->slot_count, sizeof(*map->slots));
	if (!map->slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->count; i++) {
		const char *name = map->lines[i].name;
		uint32_t *slot = name ? find_slot(map, name) : NULL;

		if (slot && !*slot)
			*slot = (uint32_t) i + 1;
	}
	return 0;
}

static bool find_range(
	const struct system_map *map, const char *start, const char *stop, struct range *range)
{
	const struct line *first = find_line(map, start);
	const struct line *last = find_line(map, stop);

	*range = (struct range){ first ? first->address : 0, last ? last->address : 0 };
	return first && last;
}

static void add_crc(const struct system_map *map, struct system_map_export *export)
{
	char name[256];
	const struct line *line;

	if (snprintf(name, sizeof(name), CRC_PREFIX "%s", export->symbol) >= (int) sizeof(name))
		return;
	line = find_line(map, name);
	/* Since 5.19 the symbol is the place of the CRC, which is not in the map. */
	if (!line || toupper((unsigned char) line->type) != 'A' || line->address > UINT32_MAX)
		return;
	export->crc = (uint32_t) line->address;
	export->has_crc = true;
}

/* The linker's marks around the GPL-only table went with it: SINCE_FLAGS of elf_check.c. */
static int list_exports(struct system_map *map)
{
	struct range gpl;
	bool has_gpl = find_range(map, "__start___ksymtab_gpl", "__stop___ksymtab_gpl", &gpl);
	size_t prefix = strlen(ENTRY_PREFIX);
	size_t count = 0;

	for (size_t i = 0; i < map->count; i++)
		count += strncmp(map->lines[i].name, ENTRY_PREFIX, prefix) == 0;
	map->exports = calloc(count + 1, sizeof(*map->exports));
	if (!map->exports)
		return -ENOMEM;
	for (size_t i = 0; i < map->count; i++) {
		const struct line *line = &map->lines[i];
		struct system_map_export *export = &map->exports[map->export_count];

		if (strncmp(line->name, ENTRY_PREFIX, prefix) != 0 || !line->name[prefix])
			continue;
		export->symbol = line->name + prefix;
		export->has_gpl = has_gpl;
		export->gpl = has_gpl && line->address >= gpl.start && line->address < gpl.stop;
		add_crc(map, export);
		map->export_count++;
	}
	return 0;
}

/* Debian's linux-image has one line in the map's place. */
static bool is_stub(const char *text)
{
	return strstr(text, "The real System.map is in");
}

static int read_map(struct system_map *map, int dir_fd, const char *path, struct error *error)
{
	size_t size = 0;
	int r = fs_read(dir_fd, path, FILE_SIZE_LIMIT, &map->text, &size);

	if (r < 0)
		return error_set_errno(error, r, "cannot read");
	if (strlen(map->text) != size)
		return error_set(error, -EINVAL, "has a NUL byte at offset %zu: not a System.map",
			strlen(map->text));
	if (is_stub(map->text))
		return error_set(error, -ENODATA,
			"a note in place of the map: %.*s: give that package's file",
			(int) strcspn(map->text, "\n"), map->text);
	r = parse_text(map, error);
	if (r < 0)
		return r;
	if (build_index(map) < 0 || list_exports(map) < 0)
		return error_set_errno(error, -ENOMEM, "%zu symbols", map->count);
	return 0;
}

int system_map_open(int dir_fd, const char *path, struct system_map **ret, struct error *error)
{
	_cleanup_(system_map_close) struct system_map *map = calloc(1, sizeof(*map));
	int r;

	if (!map)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = read_map(map, dir_fd, path, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	*ret = TAKE_PTR(map);
	return 0;
}

void system_map_close(struct system_map **map)
{
	struct system_map *closing = TAKE_PTR(*map);

	if (!closing)
		return;
	free(closing->text);
	free(closing->lines);
	free(closing->slots);
	free(closing->exports);
	free(closing);
}

const struct system_map_export *system_map_exports(const struct system_map *map, size_t *ret_count)
{
	*ret_count = map->export_count;
	return map->exports;
}

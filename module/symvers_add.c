/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are no lines of a Module.symvers: of modules, of a System.map, and single ones. */
#include <stdlib.h>
#include <string.h>

#include "common/name_hash.h"
#include "module/symvers_parts.h"

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

	if (!text || symvers_entries_reserve(added, count) < 0 || !(text->bytes = malloc(size))) {
		free(text);
		return NULL;
	}
	*ret_bytes = text->bytes;
	return text;
}

static int merge_text(
	struct symvers *symvers, struct symvers_text *text, struct symvers_entries *added)
{
	if (symvers_merge(symvers, added) < 0) {
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
	_cleanup_(symvers_entries_free) struct symvers_entries added = { 0 };
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
	_cleanup_(symvers_entries_free) struct symvers_entries added = { 0 };
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

static const char *export_text(const struct system_map_export *export)
{
	if (!export->has_gpl)
		return "";
	return export->gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL";
}

int symvers_add_system_map(struct symvers *symvers, const struct system_map *map)
{
	_cleanup_(symvers_entries_free) struct symvers_entries added = { 0 };
	size_t count, size = 1;
	const struct system_map_export *exports = system_map_exports(map, &count);
	struct symvers_text *text;
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

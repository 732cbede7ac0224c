/* SPDX-License-Identifier: Apache-2.0 */
#include "module/running_put.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/name_hash.h"
#include "module/sysmodule.h"

/* Asked once of each. */
bool running_exports_nothing(const struct running *running, struct loaded *loaded)
{
	if (!loaded->asked_exports)
		loaded->exports_nothing = sysmodule_exports_nothing(running->root_fd, loaded->name);
	loaded->asked_exports = true;
	return loaded->exports_nothing;
}

static const struct elf_module_export *find_export(
	const struct elf_module *module, const char *symbol)
{
	size_t count, low = 0;
	const struct elf_module_export *exports = elf_module_exports(module, &count);

	while (low < count) {
		size_t middle = low + (count - low) / 2;
		int order = strcmp(symbol, exports[middle].symbol);

		if (order == 0)
			return &exports[middle];
		if (order < 0)
			count = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static const struct running_word *find_word(
	const struct running *running, const struct loaded *loaded, const char *symbol)
{
	for (size_t i = 0; i < running->sources.word_count; i++) {
		const struct running_word *word = &running->sources.words[i];

		if (strcmp(word->module, loaded->name) == 0 && *word->build_id &&
			strcmp(word->build_id, loaded->build_id) == 0 &&
			strcmp(word->symbol, symbol) == 0)
			return word;
	}
	return NULL;
}

/* What a driver's own symvers says of a loaded module that no file explains. */
const struct symvers_entry *running_find_driver_entry(const struct running *running,
	const char *symbol, uint32_t hash, struct loaded **ret_loaded)
{
	const struct symvers_entry *entry =
		running->drivers ? symvers_find_hashed(running->drivers, symbol, hash) : NULL;
	char name[NAME_MAX];

	if (!entry)
		return NULL;
	symvers_module_name(entry, name, sizeof(name));
	*ret_loaded = running_find_loaded(running, name);
	if (!*ret_loaded || (*ret_loaded)->facts.gone || (*ret_loaded)->file)
		return NULL;
	return entry;
}

static int put_file_export(struct running *running, const struct loaded *loaded,
	const struct elf_module_export *export)
{
	return symvers_put_borrowed(running->there,
		&(struct symvers_entry){
			.symbol = export->symbol,
			.module = loaded->name,
			.export = export->gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL",
			.name_space = export->name_space,
			.crc = export->crc,
			.has_crc = export->has_crc,
		});
}

/* Exported by that module, nobody knows with which CRC. */
int running_put_unknown(struct running *running, const char *symbol, const char *module)
{
	if (strv_push_unique(&running->unexplained, module) < 0)
		return -ENOMEM;
	return symvers_put(running->there, &(struct symvers_entry){
						   .symbol = symbol,
						   .module = module,
						   .export = "",
						   .name_space = "",
						   .partial = true,
					   });
}

static int put_word(struct running *running, const struct running_word *word)
{
	return symvers_put_borrowed(running->there, &(struct symvers_entry){
							    .symbol = word->symbol,
							    .module = word->module,
							    .export = "EXPORT_SYMBOL",
							    .name_space = "",
							    .crc = word->crc,
							    .has_crc = true,
						    });
}

static bool find_voucher(const struct running *running, const struct loaded *loaded)
{
	const struct strv *builds = running->sources.driver_builds;
	size_t length = strlen(loaded->name);

	for (size_t i = 0; builds && *loaded->build_id && i < builds->count; i++) {
		const char *item = builds->items[i];

		if (strncmp(item, loaded->name, length) == 0 && item[length] == ' ' &&
			strcmp(item + length + 1, loaded->build_id) == 0)
			return true;
	}
	return false;
}

/* Who loaded it says that it is of the build that driver_symvers are of. Asked once of each. */
bool running_is_vouched_for(const struct running *running, struct loaded *loaded)
{
	if (!loaded->asked_vouched) {
		running_identify(running, loaded);
		loaded->vouched = find_voucher(running, loaded);
	}
	loaded->asked_vouched = true;
	return loaded->vouched;
}

/* By the word of others about this very build, without a look at files. 1: there is one. */
int running_put_by_word(struct running *running, struct loaded *loaded, const char *symbol)
{
	const struct running_word *word;
	const struct symvers_entry *entry;
	struct loaded *lister;

	running_identify(running, loaded);
	word = find_word(running, loaded, symbol);
	if (word)
		return put_word(running, word) < 0 ? -ENOMEM : 1;
	if (!running_is_vouched_for(running, loaded))
		return 0;
	entry = running_find_driver_entry(running, symbol, name_hash(symbol), &lister);
	if (!entry || lister != loaded)
		return 0;
	return symvers_put_borrowed(running->there, entry) < 0 ? -ENOMEM : 1;
}

/*
 * Puts the symbol as @loaded exports it. 1: it did, 0: it exports no such thing, as far as is
 * known, -ENOMEM.
 */
int running_put_loaded(
	struct running *running, struct loaded *loaded, const char *symbol, const char *in_kernel)
{
	const struct elf_module_export *export;
	int r = running_put_by_word(running, loaded, symbol);

	if (r == 0)
		r = running_explain(running, loaded, in_kernel);
	if (r || !loaded->file)
		return r;
	export = find_export(loaded->file, symbol);
	if (!export)
		return 0;
	return put_file_export(running, loaded, export) < 0 ? -ENOMEM : 1;
}

/* @entry: what running_find_driver_entry() found of @loaded. */
int running_put_found(
	struct running *running, struct loaded *loaded, const struct symvers_entry *entry)
{
	int r = running_explain(running, loaded, NULL);

	if (r < 0 || loaded->file)
		return r; /* its file has not the symbol, whatever the driver's list says */
	loaded->facts.by_word = !running_is_vouched_for(running, loaded);
	return symvers_put_borrowed(running->there, entry) < 0 ? -ENOMEM : 1;
}

int running_put_by_driver(struct running *running, const char *symbol)
{
	struct loaded *loaded;
	const struct symvers_entry *entry =
		running_find_driver_entry(running, symbol, name_hash(symbol), &loaded);

	return entry ? running_put_found(running, loaded, entry) : 0;
}

static int compare_items(const void *name, const void *item)
{
	return strcmp(name, *(char *const *) item);
}

/* The list is sorted. */
static bool is_built_in(const struct running *running, const char *module)
{
	const struct strv *builtin = &running->builtin;

	if (strcmp(module, "vmlinux") == 0)
		return true;
	return builtin->count && bsearch(module, builtin->items, builtin->count,
					 sizeof(*builtin->items), compare_items);
}

/* Who exports the entry, as things are here. */
static const struct exporter *ask_exporter(
	struct running *running, const struct symvers_entry *entry)
{
	struct exporter *asked = &running->asked;

	if (asked->path == entry->module)
		return asked;
	asked->path = entry->module;
	symvers_module_name(entry, asked->name, sizeof(asked->name));
	asked->built_in = is_built_in(running, asked->name);
	asked->loaded = running_find_loaded(running, asked->name);
	return asked;
}

/* @hash: of the symbol, as symvers_find_hashed() wants it. */
int running_put_given(struct running *running, const char *symbol, uint32_t hash)
{
	const struct symvers_entry *entry = symvers_find_hashed(running->given, symbol, hash);
	const struct exporter *exporter = entry ? ask_exporter(running, entry) : NULL;
	struct loaded *loaded;
	int r;

	if (!exporter)
		return 0;
	if (exporter->built_in)
		return symvers_put_hashed(running->there, entry, hash) < 0 ? -ENOMEM : 1;
	loaded = exporter->loaded;
	if (!loaded || loaded->facts.gone)
		return 0;
	r = running_put_loaded(running, loaded, symbol, entry->module);
	if (r == 0 && !loaded->file)
		r = running_put_by_driver(running, symbol);
	if (r == 0 && !loaded->file)
		return running_put_unknown(running, symbol, loaded->name) < 0 ? -ENOMEM : 1;
	return r;
}

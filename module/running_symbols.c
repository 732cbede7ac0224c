/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what is exported now. With a list of used symbols, only those symbols are looked for, and
 * only the modules that export them are identified; without it, all loaded modules are. Sources of
 * one symbol: the kernel's symvers, a module's file, a claim of its loader, a driver's own symvers.
 * Symbols that are found are put into running->there. Functions that return int for this: 1 for
 * found, 0 for not there as far as is known, -ENOMEM.
 */
#include "module/running_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"

/* Asked once of each. */
static bool has_no_exports(const struct running *running, struct loaded *loaded)
{
	if (loaded->exports_nothing == PROOF_UNKNOWN)
		loaded->exports_nothing =
			sysmodule_exports_nothing(running->root_fd, loaded->module.name) ? PROOF_YES
											 : PROOF_NO;
	return loaded->exports_nothing == PROOF_YES;
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

/* 1, or -ENOMEM. */
static int put(struct running *running, const struct symvers_entry *entry)
{
	return symvers_put_borrowed(running->there, entry) < 0 ? -ENOMEM : 1;
}

/* Finds a symbol that a driver's own symvers lists for a loaded module that no file explains. */
static const struct symvers_entry *find_driver_entry(
	const struct running *running, const char *symbol, struct loaded **ret_loaded)
{
	const struct symvers_entry *entry =
		running->drivers ? symvers_find(running->drivers, symbol) : NULL;
	char name[NAME_MAX];

	if (!entry)
		return NULL;
	symvers_module_name(entry, name, sizeof(name));
	*ret_loaded = running_find_loaded(running, name);
	if (!*ret_loaded || (*ret_loaded)->module.gone || (*ret_loaded)->file)
		return NULL;
	return entry;
}

/* Exported by that module, it is not known with which CRC. */
static int put_unknown(struct running *running, const char *symbol, const char *module)
{
	const struct symvers_entry entry = {
		.symbol = symbol, .module = module, .export = "", .name_space = "", .partial = true
	};

	if (strv_push_unique(&running->unidentified, module) < 0)
		return -ENOMEM;
	return symvers_put(running->there, &entry);
}

/* Its loader reported that it is of the build that driver_symvers are of. Asked once of each. */
static bool is_listed_build(const struct running *running, struct loaded *loaded)
{
	const struct strv *builds = running->sources.driver_builds;
	size_t length = strlen(loaded->module.name);

	if (loaded->listed != PROOF_UNKNOWN)
		return loaded->listed == PROOF_YES;
	loaded->listed = PROOF_NO;
	running_identify(running, loaded);
	for (size_t i = 0; builds && *loaded->module.build_id && i < builds->count; i++) {
		const char *item = builds->items[i];

		if (strncmp(item, loaded->module.name, length) == 0 && item[length] == ' ' &&
			strcmp(item + length + 1, loaded->module.build_id) == 0)
			loaded->listed = PROOF_YES;
	}
	return loaded->listed == PROOF_YES;
}

/* Puts the symbol by a claim about this very build, without a look at files. */
static int put_by_claim(struct running *running, struct loaded *loaded, const char *symbol)
{
	const struct symvers_entry *entry;
	struct loaded *lister;

	running_identify(running, loaded);
	for (size_t i = 0; i < running->sources.claim_count; i++) {
		const struct running_claim *claim = &running->sources.claims[i];

		if (strcmp(claim->module, loaded->module.name) == 0 && *claim->build_id &&
			strcmp(claim->build_id, loaded->module.build_id) == 0 &&
			strcmp(claim->symbol, symbol) == 0)
			return put(running, &(struct symvers_entry){ .symbol = claim->symbol,
						    .module = claim->module,
						    .export = "EXPORT_SYMBOL",
						    .name_space = "",
						    .crc = claim->crc,
						    .has_crc = true });
	}
	if (!is_listed_build(running, loaded))
		return 0;
	entry = find_driver_entry(running, symbol, &lister);
	return entry && lister == loaded ? put(running, entry) : 0;
}

/*
 * Puts the symbol as @loaded exports it. 1: it did, 0: it exports no such thing, as far as is
 * known, -ENOMEM.
 */
static int put_loaded(
	struct running *running, struct loaded *loaded, const char *symbol, const char *in_kernel)
{
	const struct elf_module_export *export;
	int r = put_by_claim(running, loaded, symbol);

	if (r == 0)
		r = running_explain(running, loaded, in_kernel);
	if (r || !loaded->file)
		return r;
	export = find_export(loaded->file, symbol);
	if (!export)
		return 0;
	return put(running, &(struct symvers_entry){ .symbol = export->symbol,
				    .module = loaded->module.name,
				    .export = export->gpl ? "EXPORT_SYMBOL_GPL" : "EXPORT_SYMBOL",
				    .name_space = export->name_space,
				    .crc = export->crc,
				    .has_crc = export->has_crc });
}

/* @entry: what find_driver_entry() found of @loaded. */
static int put_found(
	struct running *running, struct loaded *loaded, const struct symvers_entry *entry)
{
	int r = running_explain(running, loaded, NULL);

	if (r < 0 || loaded->file)
		return r; /* its file has not the symbol, whatever the driver's list says */
	loaded->module.by_claim = !is_listed_build(running, loaded);
	return put(running, entry);
}

static int put_by_driver(struct running *running, const char *symbol)
{
	struct loaded *loaded;
	const struct symvers_entry *entry = find_driver_entry(running, symbol, &loaded);

	return entry ? put_found(running, loaded, entry) : 0;
}

static int compare_items(const void *name, const void *item)
{
	return strcmp(name, *(char *const *) item);
}

static bool is_built_in(const struct running *running, const char *module)
{
	const struct strv *builtin = &running->builtin; /* sorted */

	return strcmp(module, "vmlinux") == 0 ||
	       (builtin->count && bsearch(module, builtin->items, builtin->count,
					  sizeof(*builtin->items), compare_items));
}

/* Puts the symbol by the kernel's symvers. */
static int put_given(struct running *running, const char *symbol)
{
	const struct symvers_entry *entry = symvers_find(running->given, symbol);
	struct loaded *loaded;
	char name[NAME_MAX];
	int r;

	if (!entry)
		return 0;
	symvers_module_name(entry, name, sizeof(name));
	if (is_built_in(running, name))
		return put(running, entry);
	loaded = running_find_loaded(running, name);
	if (!loaded || loaded->module.gone)
		return 0;
	r = put_loaded(running, loaded, symbol, entry->module);
	if (r == 0 && !loaded->file)
		r = put_by_driver(running, symbol);
	if (r == 0 && !loaded->file)
		return put_unknown(running, symbol, loaded->module.name) < 0 ? -ENOMEM : 1;
	return r;
}

/* ---- all of it: for modules that are not known yet */

/*
 * Puts all that @from lists under the module's name; @known: with its CRCs. Returns how many, or
 * -ENOMEM.
 */
static int put_all_listed(struct running *running, const struct symvers *from,
	const struct loaded *loaded, bool known)
{
	int found = 0;

	for (size_t i = 0; from && i < symvers_count(from); i++) {
		struct symvers_entry entry = *symvers_at(from, i);
		char name[NAME_MAX];

		symvers_module_name(&entry, name, sizeof(name));
		if (strcmp(name, loaded->module.name) != 0)
			continue;
		entry.has_crc = entry.has_crc && known;
		if (symvers_put(running->there, &entry) < 0)
			return -ENOMEM;
		found++;
	}
	return found;
}

static int put_all_of(struct running *running, struct loaded *loaded)
{
	int r;

	if (loaded->file)
		return symvers_add_module(running->there, loaded->file);
	r = put_all_listed(running, running->drivers, loaded, true);
	loaded->module.by_claim = r > 0;
	if (r)
		return r < 0 ? r : 0;
	r = put_all_listed(running, running->there, loaded, false);
	return r > 0 ? strv_push_unique(&running->unidentified, loaded->module.name) : r;
}

static int find_everything(struct running *running)
{
	if (running_explain_all(running) < 0)
		return -ENOMEM;
	running->there = TAKE_PTR(running->given);
	for (size_t i = 0; i < running->loaded_count; i++)
		if (!running->loaded[i].module.gone && put_all_of(running, &running->loaded[i]) < 0)
			return -ENOMEM;
	return 0;
}

/*
 * Indexes by name what the modules to be loaded export: each symbol that they use is looked for
 * there.
 */
static int index_members(struct running *running)
{
	size_t used = 0, exported = 0, count;

	for (size_t i = 0; i < running->sources.module_count; i++) {
		(void) elf_module_undefined_symbols(running->sources.modules[i], &count);
		used += count;
		(void) elf_module_exports(running->sources.modules[i], &count);
		exported += count;
	}
	if (symvers_new(&running->there) < 0 || symvers_reserve(running->there, used) < 0 ||
		symvers_new(&running->members) < 0 ||
		symvers_reserve(running->members, exported) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < running->sources.module_count; i++) {
		const struct elf_module_export *exports =
			elf_module_exports(running->sources.modules[i], &count);

		for (size_t j = 0; j < count; j++)
			if (symvers_put_borrowed(running->members,
				    &(struct symvers_entry){ .symbol = exports[j].symbol }) < 0)
				return -ENOMEM;
	}
	return 0;
}

static int place(struct running *running, const char *symbol, struct strv *unresolved)
{
	int r;

	if (symvers_find(running->there, symbol) || symvers_find(running->members, symbol) ||
		strcmp(symbol, "_GLOBAL_OFFSET_TABLE_") == 0)
		return 0;
	r = put_given(running, symbol);
	if (r == 0)
		r = strv_push_unique(unresolved, symbol);
	return r < 0 ? r : 0;
}

static int place_all(struct running *running, struct strv *unresolved)
{
	/* A kernel without MODVERSIONS has no such thing. */
	if (symvers_find(running->given, ELF_LAYOUT_SYMBOL) &&
		place(running, ELF_LAYOUT_SYMBOL, unresolved) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < running->sources.module_count; i++) {
		size_t count;
		const struct elf_undefined *used =
			elf_module_undefined_symbols(running->sources.modules[i], &count);

		for (size_t j = 0; j < count; j++)
			if (place(running, used[j].name, unresolved) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* Whichever loaded module has it. 1: found. */
static int put_by_any(struct running *running, const char *symbol)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		if (!running->loaded[i].module.gone)
			r = put_loaded(running, &running->loaded[i], symbol, NULL);
	return r ? r : put_by_driver(running, symbol);
}

static int put_owner(void *context, const char *symbol, const char *owner)
{
	struct running *running = context;
	const struct loaded *loaded = running_find_loaded(running, owner);

	/* Global in vmlinux does not mean exported. */
	if (!loaded || loaded->module.gone || loaded->file)
		return 0;
	return put_unknown(running, symbol, loaded->module.name);
}

/* At last, by what the kernel itself shows, though not with which CRC. */
static int ask_kallsyms(struct running *running, const struct strv *symbols)
{
	int r = kallsyms_search(running->root_fd, symbols, put_owner, running);

	return r == -ENOMEM ? r : 0;
}

/* Calls @find for each symbol; those that it does not find go to @rest. */
static int put_each(struct running *running, const struct strv *symbols, struct strv *rest,
	int (*find)(struct running *running, const char *symbol))
{
	for (size_t i = 0; i < symbols->count; i++) {
		int r = find(running, symbols->items[i]);

		if (r < 0 || (r == 0 && strv_push(rest, symbols->items[i]) < 0))
			return -ENOMEM;
	}
	return 0;
}

/*
 * The modules to be loaded state who exports their symbols ("depends"): modpost found them there.
 */
static int put_by_depends(struct running *running, const char *symbol)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = 0;

	for (size_t i = 0; i < running->sources.module_count; i++)
		if (elf_module_depends(running->sources.modules[i], &names) < 0)
			return -ENOMEM;
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		struct loaded *loaded = running_find_loaded(running, names.items[i]);

		if (loaded && !loaded->module.gone)
			r = put_loaded(running, loaded, symbol, NULL);
	}
	return r ? r : put_by_driver(running, symbol);
}

/*
 * Symbols that are not where the kernel's symvers has them: a driver that is not the kernel's may
 * be there. The likely ones first; to look for all files is dear.
 */
static int resolve_rest(struct running *running, const struct strv *unresolved, struct error *error)
{
	_cleanup_strv_ struct strv likely = { 0 };
	_cleanup_strv_ struct strv unlikely = { 0 };
	_cleanup_strv_ struct strv rest = { 0 };
	int r;

	if (put_each(running, unresolved, &likely, put_by_depends) < 0)
		return -ENOMEM;
	/* Modules that were not there when the part was made may use more of the whole. */
	if (likely.count && running->given_is_part) {
		running->part = TAKE_PTR(running->given);
		r = running_read_whole(running, error);
		if (r < 0)
			return r;
		if (!running->given)
			running->given = TAKE_PTR(running->part);
		if (put_each(running, &likely, &unlikely, put_given) < 0)
			return -ENOMEM;
	} else {
		unlikely = likely;
		likely = (struct strv){ 0 };
	}
	if (!unlikely.count)
		return 0;
	if (running_explain_all(running) < 0 || put_each(running, &unlikely, &rest, put_by_any) < 0)
		return -ENOMEM;
	if (!rest.count || !running->sources.kallsyms)
		return 0;
	for (size_t i = 0; i < running->loaded_count; i++)
		if (!running->loaded[i].file && !running->loaded[i].module.gone &&
			!has_no_exports(running, &running->loaded[i]))
			return ask_kallsyms(running, &rest);
	return 0;
}

/* Is it a driver that is not the kernel's, stays and may export what no proven list has? */
static bool is_unlisted(const struct running *running, struct loaded *loaded)
{
	/* The exports of the kernel's own modules are in its symvers. */
	if (loaded->module.gone || !strchr(loaded->module.taint, 'O'))
		return false;
	/* The build id is one look, what is in sections is three. */
	return !(running->drivers && is_listed_build(running, loaded)) &&
	       !has_no_exports(running, loaded);
}

/* Exports of what is to be loaded that the kernel, or what stays, may have too. */
static int place_export(struct running *running, const char *symbol, struct strv *rest)
{
	const struct symvers_entry *listed;
	struct loaded *lister = NULL;
	int r = symvers_find(running->there, symbol) ? 1 : put_given(running, symbol);

	if (r)
		return r < 0 ? r : 0;
	for (size_t i = 0; r == 0 && i < running->sources.claim_count; i++) {
		const struct running_claim *claim = &running->sources.claims[i];
		struct loaded *loaded = strcmp(claim->symbol, symbol) == 0
						? running_find_loaded(running, claim->module)
						: NULL;

		if (loaded && !loaded->module.gone)
			r = put_by_claim(running, loaded, symbol);
	}
	listed = find_driver_entry(running, symbol, &lister);
	if (r == 0 && listed)
		r = put_by_claim(running, lister, symbol);
	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		if (is_unlisted(running, &running->loaded[i]))
			r = put_loaded(running, &running->loaded[i], symbol, NULL);
	if (r == 0 && listed)
		r = put_found(running, lister, listed);
	if (r == 0)
		r = strv_push(rest, symbol);
	return r < 0 ? r : 0;
}

static bool lists_module(const struct symvers *drivers, const char *module)
{
	char name[NAME_MAX];

	for (size_t i = 0; drivers && i < symvers_count(drivers); i++) {
		symvers_module_name(symvers_at(drivers, i), name, sizeof(name));
		if (strcmp(name, module) == 0)
			return true;
	}
	return false;
}

/*
 * The kernel takes no module that exports what is exported already (kernel/module/main.c:
 * verify_exported_symbols()), and by then the old driver is gone.
 */
static int place_exports(struct running *running)
{
	_cleanup_strv_ struct strv rest = { 0 };

	for (size_t i = 0; i < running->sources.module_count; i++) {
		size_t count;
		const struct elf_module_export *exports =
			elf_module_exports(running->sources.modules[i], &count);

		for (size_t j = 0; j < count; j++)
			if (place_export(running, exports[j].symbol, &rest) < 0)
				return -ENOMEM;
	}
	if (!rest.count || !running->sources.kallsyms)
		return 0;
	/* A driver of which neither a file nor a list tells what it exports. */
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		if (!loaded->file && !loaded->module.gone && strchr(loaded->module.taint, 'O') &&
			!has_no_exports(running, loaded) &&
			!lists_module(running->drivers, loaded->module.name))
			return ask_kallsyms(running, &rest);
	}
	return 0;
}

static int find_used(struct running *running, struct error *error)
{
	_cleanup_strv_ struct strv unresolved = { 0 };
	int r = 0;

	if (index_members(running) < 0 || place_all(running, &unresolved) < 0)
		return -ENOMEM;
	if (unresolved.count)
		r = resolve_rest(running, &unresolved, error);
	return r < 0 ? r : place_exports(running);
}

int running_find_exports(struct running *running, struct error *error)
{
	int r;

	if (!running->given)
		return 0;
	r = running->sources.module_count ? find_used(running, error) : find_everything(running);
	return r == -ENOMEM ? error_set_errno(error, r, "exports of the running kernel") : r;
}

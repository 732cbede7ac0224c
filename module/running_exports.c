/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is exported now. Of a list of symbols that are used only those are looked for, and only the
 * modules are identified that export them; without such a list, all that are loaded.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/name_hash.h"
#include "common/fs.h"
#include "module/kallsyms.h"
#include "module/running_put.h"

#define LAYOUT_SYMBOL                                                                              \
	"module_layout" /* no module names it as undefined, and all are checked by it */

static size_t count_exports(const struct running *running)
{
	size_t all = 0;

	for (size_t i = 0; i < running->sources.module_count; i++) {
		size_t count;

		(void) elf_module_exports(running->sources.modules[i], &count);
		all += count;
	}
	return all;
}

static size_t count_used(const struct running *running)
{
	size_t all = 0;

	for (size_t i = 0; i < running->sources.module_count; i++) {
		size_t count;

		(void) elf_module_undefined_symbols(running->sources.modules[i], &count);
		all += count;
	}
	return all;
}

/* What is to be loaded exports, by name: each of their symbols is looked for there. */
static int index_members(struct running *running)
{
	int r = symvers_new(&running->members);

	if (r == 0)
		r = symvers_reserve(running->members, count_exports(running));
	for (size_t i = 0; r == 0 && i < running->sources.module_count; i++) {
		size_t count;
		const struct elf_module_export *exports =
			elf_module_exports(running->sources.modules[i], &count);

		for (size_t j = 0; r == 0 && j < count; j++)
			r = symvers_put_borrowed(running->members,
				&(struct symvers_entry){ .symbol = exports[j].symbol });
	}
	return r;
}

/* By what the kernel's symvers says of the symbol. 1: done, 0: it is not there, -ENOMEM. */
static int put_by_kernel(struct running *running, const char *symbol)
{
	return running_put_given(running, symbol, name_hash(symbol));
}

static int place(
	struct running *running, const char *symbol, uint32_t hash, struct strv *unresolved)
{
	int r;

	if (symvers_find_hashed(running->there, symbol, hash) ||
		symvers_find_hashed(running->members, symbol, hash) ||
		strcmp(symbol, "_GLOBAL_OFFSET_TABLE_") == 0)
		return 0;
	r = running_put_given(running, symbol, hash);
	if (r == 0)
		r = strv_push_unique(unresolved, symbol);
	return r < 0 ? r : 0;
}

static int place_all(struct running *running, struct strv *unresolved)
{
	/* A kernel without MODVERSIONS has no such thing. */
	int r = symvers_find(running->given, LAYOUT_SYMBOL)
			? place(running, LAYOUT_SYMBOL, name_hash(LAYOUT_SYMBOL), unresolved)
			: 0;

	for (size_t i = 0; r == 0 && i < running->sources.module_count; i++) {
		size_t count;
		const struct elf_undefined *used =
			elf_module_undefined_symbols(running->sources.modules[i], &count);

		for (size_t j = 0; r == 0 && j < count; j++)
			r = place(running, used[j].name, elf_undefined_hash(&used[j]), unresolved);
	}
	return r;
}

int running_explain_all(struct running *running)
{
	size_t count = running->given ? symvers_count(running->given) : 0;
	const char **hints = calloc(running->loaded_count + 1, sizeof(*hints));
	int r = hints ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct symvers_entry *entry = symvers_at(running->given, i);
		const struct loaded *loaded;
		char name[NAME_MAX];

		if (strcmp(entry->module, "vmlinux") == 0)
			continue;
		symvers_module_name(entry, name, sizeof(name));
		loaded = running_find_loaded(running, name);
		if (loaded)
			hints[loaded - running->loaded] = entry->module;
	}
	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		r = running_explain(running, &running->loaded[i], hints[i]);
	free(hints);
	return r;
}

/* Whichever loaded module has it. 1: found. */
static int put_by_any(struct running *running, const char *symbol)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		if (!running->loaded[i].facts.gone)
			r = running_put_loaded(running, &running->loaded[i], symbol, NULL);
	return r ? r : running_put_by_driver(running, symbol);
}

static int hear_owner(void *context, const char *symbol, const char *owner)
{
	struct running *running = context;
	const struct loaded *loaded = running_find_loaded(running, owner);

	/* Global in vmlinux does not mean exported. */
	if (!loaded || loaded->facts.gone || loaded->file)
		return 0;
	return running_put_unknown(running, symbol, loaded->name);
}

static bool has_strangers(const struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++)
		if (!running->loaded[i].file && !running->loaded[i].facts.gone &&
			!running_exports_nothing(running, &running->loaded[i]))
			return true;
	return false;
}

/* Calls @put for each symbol; those that it does not find go to @rest. */
static int put_each(struct running *running, const struct strv *symbols, struct strv *rest,
	int (*put)(struct running *running, const char *symbol))
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < symbols->count; i++) {
		r = put(running, symbols->items[i]);
		if (r == 0)
			r = strv_push(rest, symbols->items[i]);
		else if (r > 0)
			r = 0;
	}
	return r;
}

/* What is to be loaded states who exports its symbols ("depends"): modpost found them there. */
static int put_by_depends(struct running *running, const char *symbol)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < running->sources.module_count; i++)
		r = elf_module_depends(running->sources.modules[i], &names);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		struct loaded *loaded = running_find_loaded(running, names.items[i]);

		if (loaded && !loaded->facts.gone)
			r = running_put_loaded(running, loaded, symbol, NULL);
	}
	return r ? r : running_put_by_driver(running, symbol);
}

/* Modules that were not there when the part was made may use more of it. */
static int ask_whole(struct running *running, struct strv *symbols, struct error *error)
{
	_cleanup_strv_ struct strv rest = { 0 };
	int r;

	running->part = TAKE_PTR(running->given);
	running->asked.path = NULL;
	r = running_read_whole(running, error);
	if (r == 0 && !running->given)
		running->given = TAKE_PTR(running->part);
	if (r == 0)
		r = put_each(running, symbols, &rest, put_by_kernel);
	if (r < 0)
		return r;
	strv_free(symbols);
	*symbols = rest;
	rest = (struct strv){ 0 };
	return 0;
}

/*
 * Symbols that are not where the kernel's symvers has them: a driver of somebody else may be there.
 * The likely ones first; to look for all files is dear.
 */
static int resolve_rest(struct running *running, const struct strv *unresolved, struct error *error)
{
	_cleanup_strv_ struct strv unlikely = { 0 };
	_cleanup_strv_ struct strv rest = { 0 };
	int r = put_each(running, unresolved, &unlikely, put_by_depends);

	if (r == 0 && unlikely.count && running->given_is_part)
		r = ask_whole(running, &unlikely, error);
	if (r < 0 || !unlikely.count)
		return r;
	r = running_explain_all(running);
	if (r == 0)
		r = put_each(running, &unlikely, &rest, put_by_any);
	if (r < 0 || !rest.count || !running->sources.kallsyms || !has_strangers(running))
		return r;
	r = kallsyms_search(running->root_fd, &rest, hear_owner, running);
	return r == -ENOMEM ? r : 0;
}

/* Drivers of somebody else that are loaded, stay and export something. */
struct strangers {
	struct loaded *
		*items; /* those of which a file may tell more than a list that is vouched for */
	size_t count;
	bool listed; /* there are others, all of whose exports stand in running->drivers */
};

static void strangers_done(struct strangers *strangers)
{
	free(strangers->items);
}

static int find_strangers(struct running *running, struct strangers *strangers)
{
	strangers->items = calloc(running->loaded_count + 1, sizeof(struct loaded *));
	if (!strangers->items)
		return -ENOMEM;
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		/* What the kernel's own export stands in its symvers. */
		if (loaded->facts.gone || !strchr(loaded->taint, 'O'))
			continue;
		/* The build id is one look, what is in sections is three. */
		if (running->drivers && running_is_vouched_for(running, loaded))
			strangers->listed = true;
		else if (!running_exports_nothing(running, loaded))
			strangers->items[strangers->count++] = loaded;
	}
	return 0;
}

/* By words and lists about builds that are loaded. @lister: whose entry the drivers' list has, or
 * NULL. */
static int put_listed(struct running *running, const char *symbol, struct loaded *lister)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < running->sources.word_count; i++) {
		const struct running_word *word = &running->sources.words[i];
		struct loaded *loaded = strcmp(word->symbol, symbol) == 0
						? running_find_loaded(running, word->module)
						: NULL;

		if (loaded && !loaded->facts.gone)
			r = running_put_by_word(running, loaded, symbol);
	}
	return r == 0 && lister ? running_put_by_word(running, lister, symbol) : r;
}

/* Exports of what is to be loaded that the kernel, or what stays, may have too. */
static int place_export(struct running *running, const struct strangers *strangers,
	const char *symbol, struct strv *rest)
{
	const uint32_t hash = name_hash(symbol);
	const struct symvers_entry *listed;
	struct loaded *lister = NULL;
	int r = symvers_find_hashed(running->there, symbol, hash) ? 1 : 0;

	if (r == 0)
		r = running_put_given(running, symbol, hash);
	if (r)
		return r < 0 ? r : 0;
	listed = running_find_driver_entry(running, symbol, hash, &lister);
	if (strangers->listed)
		r = put_listed(running, symbol, listed ? lister : NULL);
	for (size_t i = 0; r == 0 && i < strangers->count; i++)
		r = running_put_loaded(running, strangers->items[i], symbol, NULL);
	if (r == 0 && listed)
		r = running_put_found(running, lister, listed);
	if (r == 0)
		r = strv_push(rest, symbol);
	return r < 0 ? r : 0;
}

/* Whose exports the drivers' lists have. Lines have no order, and the few paths are asked first. */
static int find_listed(const struct running *running, struct strv *names)
{
	_cleanup_strv_ struct strv paths = { 0 };
	size_t count = running->drivers ? symvers_count(running->drivers) : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct symvers_entry *entry = symvers_at(running->drivers, i);
		char name[NAME_MAX];

		if (strv_contains(&paths, entry->module))
			continue;
		symvers_module_name(entry, name, sizeof(name));
		r = strv_push(&paths, entry->module);
		if (r == 0)
			r = strv_push(names, name);
	}
	return r;
}

/* Somebody's driver, of which neither a file nor a list tells what it exports. 1: there is one. */
static int find_unlisted(const struct running *running)
{
	_cleanup_strv_ struct strv listed = { 0 };
	int r = find_listed(running, &listed);

	if (r < 0)
		return r;
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		if (!loaded->file && !loaded->facts.gone && strchr(loaded->taint, 'O') &&
			!strv_contains(&listed, loaded->name) &&
			!running_exports_nothing(running, loaded))
			return 1;
	}
	return 0;
}

/*
 * The kernel takes no module that exports what is exported already (kernel/module/main.c:
 * verify_exported_symbols()), and by then the old driver is gone.
 */
static int place_exports(struct running *running)
{
	_cleanup_(strangers_done) struct strangers strangers = { .items = NULL };
	_cleanup_strv_ struct strv rest = { 0 };
	int r = find_strangers(running, &strangers);

	for (size_t i = 0; r == 0 && i < running->sources.module_count; i++) {
		size_t count;
		const struct elf_module_export *exports =
			elf_module_exports(running->sources.modules[i], &count);

		for (size_t j = 0; r == 0 && j < count; j++)
			r = place_export(running, &strangers, exports[j].symbol, &rest);
	}
	if (r < 0 || !rest.count || !running->sources.kallsyms)
		return r;
	r = find_unlisted(running);
	if (r <= 0)
		return r;
	r = kallsyms_search(running->root_fd, &rest, hear_owner, running);
	return r == -ENOMEM ? r : 0;
}

static int find_used(struct running *running, struct error *error)
{
	_cleanup_strv_ struct strv unresolved = { 0 };
	int r = symvers_new(&running->there);

	if (r == 0)
		r = symvers_reserve(running->there, count_used(running));
	if (r == 0)
		r = index_members(running);
	if (r == 0)
		r = place_all(running, &unresolved);
	if (r == 0 && unresolved.count)
		r = resolve_rest(running, &unresolved, error);
	return r < 0 ? r : place_exports(running);
}

int running_find_exports(struct running *running, struct error *error)
{
	int r;

	if (!running->given)
		return 0;
	r = running->sources.module_count ? find_used(running, error)
					  : running_find_everything(running);
	return r == -ENOMEM ? error_set_errno(error, r, "exports of the running kernel") : r;
}

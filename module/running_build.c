/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the running kernel the build that the symvers are of? A name is no proof: distributions and
 * users rebuild a kernel under the name that it had. Evidence, cheapest first: the text that the
 * build left in the kernel and in its headers (UTS_VERSION); then the modules that the kernel has
 * taken: each states what it was built for, and was compared when it was loaded.
 */
#include "module/running_internal.h"

#include <string.h>

#include "common/clock.h"

#define TREE_SEARCH_MS 10000 /* 4,000 plain files take 0.1 s, packed ones may take this long */

/* What was loaded by force ('F') was not compared. */
static bool is_evidence(const struct loaded *loaded)
{
	return loaded->file && !strchr(loaded->taint, 'F');
}

static const struct loaded *first_evidence(const struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++)
		if (is_evidence(&running->loaded[i]) && running->loaded[i].of_kernel)
			return &running->loaded[i];
	return NULL;
}

static void set_rebuilt(struct running *running, const struct error *why)
{
	if (running->same_build == PROOF_NO)
		return; /* the first evidence is enough */
	running->same_build = PROOF_NO;
	running->why = *why;
}

static bool of_vmlinux(const struct symvers_entry *entry)
{
	return strcmp(entry->module, "vmlinux") == 0;
}

/* The kernel took this CRC: it is what it exports. */
static int take_crc(struct running *running, const struct loaded *loaded,
	const struct elf_symbol_version *version)
{
	const struct symvers_entry *known = symvers_find(running->there, version->name);
	struct symvers_entry entry;
	struct error why;

	if (!known || !of_vmlinux(known) || !known->has_crc)
		return 0;
	running->compared = true;
	if (known->crc == version->crc)
		return 0;
	(void) error_set(&why, 0,
		"the running kernel is not the build of %s that was compiled against: it took %s "
		"with CRC 0x%08x for %s, and the build's Module.symvers has 0x%08x",
		running->krel, loaded->name, version->crc, version->name, known->crc);
	set_rebuilt(running, &why);
	entry = *known;
	entry.crc = version->crc;
	return symvers_put(running->there, &entry);
}

static int compare_crcs(struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++) {
		const struct elf_symbol_version *versions;
		size_t count;

		if (!is_evidence(&running->loaded[i]))
			continue;
		versions = elf_module_versions(running->loaded[i].file, &count);
		for (size_t j = 0; j < count; j++)
			if (take_crc(running, &running->loaded[i], &versions[j]) < 0)
				return -ENOMEM;
	}
	return 0;
}

static bool has_evidence(const struct running *running, const char *symbol)
{
	uint32_t crc;

	for (size_t i = 0; i < running->loaded_count; i++)
		if (is_evidence(&running->loaded[i]) &&
			elf_module_version(running->loaded[i].file, symbol, &crc))
			return true;
	return false;
}

/* The tree has a file of the kernel's own for it, and that is another build than what is loaded. */
static bool contradicts(const struct loaded *loaded, size_t tree)
{
	for (size_t i = 0; !loaded->file && i < loaded->candidates.count; i++)
		if (loaded->candidate_trees[i] == tree &&
			strncmp(loaded->candidates.items[i], "kernel/", 7) == 0)
			return true;
	return false;
}

/* Is the tree that of the running kernel? Something loaded is of it, and nothing speaks against. */
static bool is_trees_kernel(const struct running *running, size_t tree)
{
	bool some = false;

	for (size_t i = 0; i < running->loaded_count; i++) {
		const struct loaded *loaded = &running->loaded[i];

		if (contradicts(loaded, tree))
			return false;
		some = some || (is_evidence(loaded) && loaded->of_kernel && loaded->tree == tree);
	}
	return some;
}

static int list_without_evidence(const struct running *running, struct strv *symbols)
{
	size_t count = symvers_count(running->there);

	for (size_t i = 0; i < count; i++) {
		const struct symvers_entry *entry = symvers_at(running->there, i);

		if (of_vmlinux(entry) && entry->has_crc && !has_evidence(running, entry->symbol) &&
			strv_push(symbols, entry->symbol) < 0)
			return -ENOMEM;
	}
	return 0;
}

struct tree_search {
	struct running *running;
	struct strv symbols; /* still without a evidence */
	uint64_t deadline_ms;
};

/* The files of a tree were built together: one that is loaded vouches for the others. */
static int ask_file(void *context, const struct elf_module *file)
{
	struct tree_search *search = context;

	for (size_t i = search->symbols.count; i-- > 0;) {
		struct elf_symbol_version version = { .name = search->symbols.items[i] };
		const struct loaded taken = { .name = (char *) (uintptr_t) "its own modules" };

		if (!elf_module_version(file, version.name, &version.crc))
			continue;
		if (take_crc(search->running, &taken, &version) < 0)
			return -ENOMEM;
		strv_remove(&search->symbols, i);
	}
	return !search->symbols.count || clock_monotonic_ms() > search->deadline_ms;
}

static int ask_tree(struct tree_search *search)
{
	int r = 0;

	for (size_t i = 0; r == 0 && search->symbols.count && i < search->running->tree_count; i++)
		if (is_trees_kernel(search->running, i))
			r = running_each_kernel_file(search->running, i, ask_file, search);
	return r < 0 ? r : 0;
}

static int put_doubts(struct running *running, const struct strv *symbols)
{
	size_t count = symvers_count(running->there);
	struct error why;

	for (size_t i = 0; i < symbols->count; i++) {
		struct symvers_entry entry = *symvers_find(running->there, symbols->items[i]);

		entry.has_crc = false;
		if (symvers_put(running->there, &entry) < 0)
			return -ENOMEM;
	}
	if (!symbols->count)
		return 0;
	(void) error_set(&why, 0,
		"the running %s is another build (\"%s\") than the one that was compiled against "
		"(\"%s\"), and no module of it vouches for %zu of %zu symbols, %s among them",
		running->krel, running->build, running->facts.build, symbols->count, count,
		symbols->items[0]);
	set_rebuilt(running, &why);
	return 0;
}

/*
 * Another build than the one compiled against. It may well fit: distributions rebuild kernels under
 * one name as long as the CRCs stay. So the kernel's own modules are asked: those that are loaded,
 * then those in the tree that they are of. What none of them vouches for is not known.
 */
static int doubt_without_evidence(struct running *running)
{
	struct tree_search search = { .running = running,
		.deadline_ms = clock_monotonic_ms() + TREE_SEARCH_MS };
	int r = list_without_evidence(running, &search.symbols);

	/* What was caught is to be refused, not to be cleared. */
	if (r == 0 && running->same_build != PROOF_NO)
		r = ask_tree(&search);
	if (r == 0)
		r = put_doubts(running, &search.symbols);
	strv_free(&search.symbols);
	return r;
}

/* What the kernel compares modules with, by one that it took. */
static void compare_vermagic(struct running *running, const struct loaded *evidence)
{
	const char *vermagic = elf_module_info(evidence->file, "vermagic");
	struct error why;

	if (!vermagic)
		return;
	if (running->has_facts && *running->facts.vermagic &&
		strcmp(running->facts.vermagic, vermagic) != 0) {
		(void) error_set(&why, 0,
			"the running kernel is not the build of %s that was compiled against: its "
			"%s has vermagic \"%s\", the build has \"%s\"",
			running->krel, evidence->name, vermagic, running->facts.vermagic);
		set_rebuilt(running, &why);
	}
	running->kernel.vermagic = vermagic;
	running->kernel.struct_size = elf_module_struct_size(evidence->file);
}

/* Without CRCs no module is a evidence: the kernel takes all that has its name. */
static void report_incomparable(struct running *running)
{
	struct error why;

	(void) error_set(&why, 0,
		"the running %s is another build (\"%s\") than the one that was compiled against "
		"(\"%s\"), and without CONFIG_MODVERSIONS nothing tells whether they agree",
		running->krel, running->build, running->facts.build);
	set_rebuilt(running, &why);
}

/*
 * That what is loaded is of the node's tree says nothing of the image: one of the image's own files
 * of the kernel has to be what is loaded, or CRCs were compared.
 */
static bool is_proven(const struct running *running)
{
	if (running->compared || !running->sources.image_tree)
		return true;
	for (size_t i = 0; i < running->loaded_count; i++)
		if (is_evidence(&running->loaded[i]) && running->loaded[i].of_kernel &&
			running_is_image(running, running->loaded[i].tree))
			return true;
	return false;
}

static int look_closer(struct running *running, bool other_build)
{
	const struct loaded *evidence;

	if (running_explain_all(running) < 0 || compare_crcs(running) < 0)
		return -ENOMEM;
	evidence = first_evidence(running);
	if (evidence)
		compare_vermagic(running, evidence);
	if (other_build || running->same_build == PROOF_NO) {
		if (!proof_kernel_has_modversions(&running->kernel))
			report_incomparable(running);
		else if (doubt_without_evidence(running) < 0)
			return -ENOMEM;
	}
	if (running->same_build == PROOF_UNKNOWN && evidence && is_proven(running))
		running->same_build = PROOF_YES;
	return 0;
}

int running_compare_build(struct running *running)
{
	bool known = running->has_facts && *running->facts.build && *running->build;
	int r;

	if (!running->there)
		return 0;
	if (!known || strcmp(running->facts.build, running->build) != 0)
		return look_closer(running, known);
	/* The very build: what is open already is compared all the same, it costs nothing. */
	r = compare_crcs(running);
	if (r == 0 && running->same_build == PROOF_NO)
		return look_closer(running, true);
	running->same_build = PROOF_YES;
	return r;
}

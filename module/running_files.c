/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file that a loaded module was made of: the one with its build id, or with its
 * srcversion if it has no build id. The files of a tree are looked for in modules.dep, in the
 * kernel's symvers (depmod lists no file that another of the same name shadows), and at last in the
 * folders for third-party drivers.
 */
#include "module/running_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/path.h"

#define WALK_DEPTH     8
#define TREE_SEARCH_MS 10000 /* 4,000 plain files take 0.1 s, packed ones may take this long */

static const char *const suffixes[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };

/* Folders for modules that are not the kernel's own: depmod.d(5) "search", DKMS, weak-modules. */
static const char *const driver_folders[] = { "updates", "extra", "weak-updates", "misc" };

int running_open_trees(struct running *running)
{
	static const char *const root[] = { "" };
	const struct strv *trees = running->sources.trees;
	size_t count = trees ? trees->count : ARRAY_SIZE(root);

	running->trees = calloc(count ? count : 1, sizeof(*running->trees));
	if (!running->trees)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct tree *tree = &running->trees[running->tree_count];

		tree->path = trees ? trees->items[i] : root[i];
		tree->fd = openat(running->root_fd, *tree->path ? tree->path : ".",
			O_PATH | O_DIRECTORY | O_CLOEXEC);
		running->tree_count += tree->fd >= 0;
	}
	return 0;
}

void running_close_trees(struct running *running)
{
	for (size_t i = 0; i < running->tree_count; i++)
		(void) close(running->trees[i].fd);
	free(running->trees);
}

/* "updates/dkms/nvidia-uvm.ko.xz" may be that of nvidia_uvm. */
static int push_candidate(struct running *running, size_t tree, const char *path)
{
	struct loaded *loaded;
	char name[NAME_MAX];
	size_t *trees;

	loaded = module_name_of_file(path, name, sizeof(name)) ? running_find_loaded(running, name)
							       : NULL;
	if (!loaded || loaded->file)
		return 0;
	trees = reallocarray(loaded->candidate_trees, loaded->candidates.count + 1, sizeof(*trees));
	if (!trees)
		return -ENOMEM;
	trees[loaded->candidates.count] = tree;
	loaded->candidate_trees = trees;
	return strv_push(&loaded->candidates, path);
}

/* Opens a file of a tree, whose links mean what they mean there (weak-updates is full of them). */
static int open_file(
	const struct running *running, size_t tree, const char *path, struct elf_module **ret)
{
	_cleanup_free_ char *real = NULL;
	char full[PATH_MAX];
	struct error ignored;
	int r;

	(void) snprintf(full, sizeof(full), "lib/modules/%s/%s", running->krel, path);
	r = chase(running->trees[tree].fd, full, &real);
	return r < 0 ? r : elf_module_open(running->trees[tree].fd, real, ret, &ignored);
}

static bool is_same(const struct loaded *loaded, const struct elf_module *file)
{
	char build_id[BUILD_ID_HEX_SIZE];
	const char *srcversion;

	elf_module_build_id(file, build_id);
	if (*loaded->module.build_id || *build_id)
		return strcmp(loaded->module.build_id, build_id) == 0;
	srcversion = elf_module_info(file, "srcversion");
	return srcversion && *loaded->module.srcversion &&
	       strcmp(loaded->module.srcversion, srcversion) == 0;
}

/* Is this the file? What cannot be read is not. -ENOMEM. */
static int try_file(
	const struct running *running, struct loaded *loaded, size_t tree, const char *path)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	int r = open_file(running, tree, path, &file);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (!is_same(loaded, file))
		return 0;
	if (asprintf(&loaded->module.path, "%s%slib/modules/%s/%s", running->trees[tree].path,
		    *running->trees[tree].path ? "/" : "", running->krel, path) < 0) {
		loaded->module.path = NULL;
		return -ENOMEM;
	}
	loaded->tree = tree;
	loaded->of_kernel = strncmp(path, "kernel/", 7) == 0;
	loaded->file = TAKE_PTR(file);
	return 0;
}

/* modules.dep of a tree, which the caller frees; NULL where there is none. */
static char *read_index(const struct running *running, size_t tree)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", running->krel);
	return running_read_in_tree(running, tree, path, NULL);
}

static int index_tree(struct running *running, size_t tree)
{
	_cleanup_free_ char *text = NULL;
	char *line, *rest;

	if (running->trees[tree].indexed)
		return 0;
	running->trees[tree].indexed = true;
	text = read_index(running, tree);
	/* Without such a tree: it explains nothing. */
	rest = text;
	while (rest && (line = strsep(&rest, "\n"))) {
		line[strcspn(line, ":")] = '\0';
		if (push_candidate(running, tree, line) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int walk_folder(struct running *running, size_t tree, const char *folder, int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *real = NULL;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", running->krel, folder);
	if (depth == 0 || chase(running->trees[tree].fd, path, &real) < 0 ||
		fs_list(running->trees[tree].fd, real, &names) < 0)
		return 0; /* no folder, or a file */
	for (size_t i = 0; i < names.count; i++) {
		char below[PATH_MAX];
		int r;

		if (snprintf(below, sizeof(below), "%s/%s", folder, names.items[i]) >=
			(int) sizeof(below))
			continue;
		r = module_suffix(below) ? push_candidate(running, tree, below)
					 : walk_folder(running, tree, below, depth - 1);
		if (r < 0)
			return r;
	}
	return 0;
}

static int walk_tree(struct running *running, size_t tree)
{
	if (running->trees[tree].walked)
		return 0;
	running->trees[tree].walked = true;
	for (size_t i = 0; i < ARRAY_SIZE(driver_folders); i++)
		if (walk_folder(running, tree, driver_folders[i], WALK_DEPTH) < 0)
			return -ENOMEM;
	return 0;
}

static int try_candidates(const struct running *running, struct loaded *loaded, size_t tree)
{
	for (size_t i = 0; !loaded->file && i < loaded->candidates.count; i++)
		if (loaded->candidate_trees[i] == tree &&
			try_file(running, loaded, tree, loaded->candidates.items[i]) < 0)
			return -ENOMEM;
	return 0;
}

static bool is_image(const struct running *running, size_t tree)
{
	const char *image = running->sources.image_tree;

	return image && strcmp(running->trees[tree].path, image) == 0;
}

int running_open_native(
	const struct running *running, const struct loaded *loaded, struct elf_module **ret)
{
	const char *path = loaded->module.path ? strstr(loaded->module.path, "/kernel/") : NULL;

	for (size_t i = 0; path && loaded->of_kernel && i < running->tree_count; i++) {
		_cleanup_(elf_module_close) struct elf_module *file = NULL;
		int r = is_image(running, i) ? -ENOENT : open_file(running, i, path + 1, &file);

		if (r == -ENOMEM)
			return r;
		if (r == 0 && is_same(loaded, file)) {
			*ret = TAKE_PTR(file);
			return 0;
		}
	}
	return -ENOENT;
}

void running_identify(const struct running *running, struct loaded *loaded)
{
	_cleanup_free_ char *srcversion = NULL;
	char path[PATH_MAX];

	if (loaded->identified)
		return;
	loaded->identified = true;
	sysmodule_build_id(running->root_fd, loaded->module.name, loaded->module.build_id);
	if (*loaded->module.build_id)
		return;
	(void) snprintf(path, sizeof(path), "sys/module/%s/srcversion", loaded->module.name);
	if (fs_read_line(running->root_fd, path, &srcversion) == 0)
		(void) snprintf(loaded->module.srcversion, sizeof(loaded->module.srcversion), "%s",
			srcversion);
}

int running_explain(struct running *running, struct loaded *loaded, const char *in_kernel)
{
	if (loaded->looked)
		return 0;
	loaded->looked = true;
	running_identify(running, loaded);
	for (size_t i = 0; !loaded->file && i < running->tree_count; i++) {
		for (size_t j = 0; in_kernel && !loaded->file && j < ARRAY_SIZE(suffixes); j++) {
			char path[PATH_MAX];

			(void) snprintf(path, sizeof(path), "kernel/%s%s", in_kernel, suffixes[j]);
			if (try_file(running, loaded, i, path) < 0)
				return -ENOMEM;
		}
		if (!loaded->file && index_tree(running, i) < 0)
			return -ENOMEM;
		if (try_candidates(running, loaded, i) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; !loaded->file && i < running->tree_count; i++)
		if (walk_tree(running, i) < 0 || try_candidates(running, loaded, i) < 0)
			return -ENOMEM;
	return 0;
}

int running_explain_all(struct running *running)
{
	size_t count = running->given ? symvers_count(running->given) : 0;
	_cleanup_free_ const char **hints = calloc(running->loaded_count + 1, sizeof(*hints));

	if (!hints)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
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
	for (size_t i = 0; i < running->loaded_count; i++)
		if (running_explain(running, &running->loaded[i], hints[i]) < 0)
			return -ENOMEM;
	return 0;
}

/*
 * ---- is the running kernel the build that the symvers are of? A name is no proof: distributions
 * and users rebuild a kernel under the name that it had. Evidence, cheapest first: the text that
 * the build left in the kernel and in its headers (UTS_VERSION); then the modules that the kernel
 * has taken: each states what it was built for, and was compared when it was loaded.
 */

/* A module that was loaded by force ('F') was not compared, so it is no evidence. */
static bool is_evidence(const struct loaded *loaded)
{
	return loaded->file && !strchr(loaded->module.taint, 'F');
}

/* The first evidence is enough. */
_printf_(2, 3) static void set_rebuilt(struct running *running, const char *format, ...)
{
	va_list arguments;

	if (running->same_build == PROOF_NO)
		return;
	running->same_build = PROOF_NO;
	va_start(arguments, format);
	(void) vsnprintf(running->why.text, sizeof(running->why.text), format, arguments);
	va_end(arguments);
}

static bool of_vmlinux(const struct symvers_entry *entry)
{
	return strcmp(entry->module, "vmlinux") == 0;
}

/* The kernel took this CRC, of a module called @taken: it is what it exports. */
static int take_crc(
	struct running *running, const char *taken, const struct elf_symbol_version *version)
{
	const struct symvers_entry *known = symvers_find(running->there, version->name);
	struct symvers_entry entry;

	if (!known || !of_vmlinux(known) || !known->has_crc)
		return 0;
	running->compared = true;
	if (known->crc == version->crc)
		return 0;
	set_rebuilt(running,
		"the running kernel is not the build of %s that the modules were compiled for: it "
		"loaded %s with CRC 0x%08x for %s, and that build's Module.symvers has 0x%08x",
		running->krel, taken, version->crc, version->name, known->crc);
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
			if (take_crc(running, running->loaded[i].module.name, &versions[j]) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* Is the tree that of the running kernel? Something loaded is of it, and nothing speaks against. */
static bool is_trees_kernel(const struct running *running, size_t tree)
{
	bool some = false;

	for (size_t i = 0; i < running->loaded_count; i++) {
		const struct loaded *loaded = &running->loaded[i];

		/* It has a file of the kernel's own for it, and that is another build. */
		for (size_t j = 0; !loaded->file && j < loaded->candidates.count; j++)
			if (loaded->candidate_trees[j] == tree &&
				strncmp(loaded->candidates.items[j], "kernel/", 7) == 0)
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
		bool proven = false;
		uint32_t crc;

		if (!of_vmlinux(entry) || !entry->has_crc)
			continue;
		for (size_t j = 0; !proven && j < running->loaded_count; j++)
			proven = is_evidence(&running->loaded[j]) &&
				 elf_module_version(running->loaded[j].file, entry->symbol, &crc);
		if (!proven && strv_push(symbols, entry->symbol) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Asks the kernel's own modules of a tree: its files were built together, and one that is loaded
 * vouches for the others. Takes what they tell of out of @symbols.
 */
static int ask_tree(
	struct running *running, size_t tree, uint64_t deadline_ms, struct strv *symbols)
{
	_cleanup_free_ char *text = read_index(running, tree);
	char *rest = text;
	char *line;

	while (symbols->count && clock_monotonic_ms() <= deadline_ms && rest &&
		(line = strsep(&rest, "\n"))) {
		_cleanup_(elf_module_close) struct elf_module *file = NULL;
		int r;

		line[strcspn(line, ":")] = '\0';
		if (strncmp(line, "kernel/", 7) != 0)
			continue;
		r = open_file(running, tree, line, &file);
		if (r == -ENOMEM)
			return r;
		for (size_t i = r < 0 ? 0 : symbols->count; i-- > 0;) {
			struct elf_symbol_version version = { .name = symbols->items[i] };

			if (!elf_module_version(file, version.name, &version.crc))
				continue;
			if (take_crc(running, "its own modules", &version) < 0)
				return -ENOMEM;
			strv_remove(symbols, i);
		}
	}
	return 0;
}

static int put_doubts(struct running *running, const struct strv *symbols)
{
	size_t count = symvers_count(running->there);

	for (size_t i = 0; i < symbols->count; i++) {
		struct symvers_entry entry = *symvers_find(running->there, symbols->items[i]);

		entry.has_crc = false;
		if (symvers_put(running->there, &entry) < 0)
			return -ENOMEM;
	}
	if (!symbols->count)
		return 0;
	set_rebuilt(running,
		"the running %s is another build (\"%s\") than the one that the modules were "
		"compiled for (\"%s\"), and no loaded module confirms %zu of %zu symbols, such as "
		"%s",
		running->krel, running->build, running->facts.build, symbols->count, count,
		symbols->items[0]);
	return 0;
}

/*
 * Another build than the one compiled against. It may well fit: distributions rebuild kernels under
 * one name as long as the CRCs stay. So the kernel's own modules are asked: those that are loaded,
 * then those in the tree that they are of. What none of them vouches for is not known.
 */
static int doubt_without_evidence(struct running *running)
{
	_cleanup_strv_ struct strv symbols = { 0 }; /* still without evidence */
	uint64_t deadline_ms = clock_monotonic_ms() + TREE_SEARCH_MS;

	if (list_without_evidence(running, &symbols) < 0)
		return -ENOMEM;
	/* After a contradiction (PROOF_NO) the build is refused; the trees must not clear it. */
	for (size_t i = 0; running->same_build != PROOF_NO && i < running->tree_count; i++)
		if (is_trees_kernel(running, i) && ask_tree(running, i, deadline_ms, &symbols) < 0)
			return -ENOMEM;
	return put_doubts(running, &symbols);
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
			is_image(running, running->loaded[i].tree))
			return true;
	return false;
}

static int look_closer(struct running *running, bool other_build)
{
	const struct loaded *evidence = NULL;
	const char *vermagic;

	if (running_explain_all(running) < 0 || compare_crcs(running) < 0)
		return -ENOMEM;
	for (size_t i = 0; !evidence && i < running->loaded_count; i++)
		if (is_evidence(&running->loaded[i]) && running->loaded[i].of_kernel)
			evidence = &running->loaded[i];
	/*
	 * The vermagic that the kernel compares modules with, taken from a module that it accepted.
	 */
	vermagic = evidence ? elf_module_info(evidence->file, "vermagic") : NULL;
	if (vermagic) {
		if (running->has_facts && *running->facts.vermagic &&
			strcmp(running->facts.vermagic, vermagic) != 0)
			set_rebuilt(running,
				"the running kernel is not the build of %s that the modules were "
				"compiled for: its %s has vermagic \"%s\", that build has \"%s\"",
				running->krel, evidence->module.name, vermagic,
				running->facts.vermagic);
		running->kernel.vermagic = vermagic;
		running->kernel.struct_size = elf_module_struct_size(evidence->file);
	}
	if (other_build || running->same_build == PROOF_NO) {
		if (!proof_kernel_has_modversions(&running->kernel))
			/* Without CRCs no module is evidence: the kernel takes all that has its
			 * name. */
			set_rebuilt(running,
				"the running %s is another build (\"%s\") than the one that the "
				"modules were compiled for (\"%s\"), and without "
				"CONFIG_MODVERSIONS nothing shows whether they agree",
				running->krel, running->build, running->facts.build);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file a loaded module was made of: the one with its build id, or with its srcversion where
 * it has no build id. Where modules lie in a tree is told by modules.dep, by the kernel's symvers
 * (depmod lists no file that another of the same name shadows), and at last by looking into the
 * folders where drivers of others are put.
 */
#include "module/running_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/path.h"
#include "common/fs.h"
#include "module/symvers.h"
#include "module/sysmodule.h"

#define WALK_DEPTH 8

static const char *const suffixes[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };

/* Where installers put modules that are not the kernel's own: depmod.d(5) "search", DKMS,
 * weak-modules. */
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

/* "updates/dkms/nvidia-uvm.ko.xz" → "nvidia_uvm"; false for what is no module file. */
static bool module_of_path(const char *path, size_t length, char name[NAME_MAX])
{
	const char *slash = memrchr(path, '/', length);
	const char *base = slash ? slash + 1 : path;
	const char *dot = memmem(base, length - (size_t) (base - path), ".ko", 3);

	if (!dot || dot == base || dot - base >= NAME_MAX)
		return false;
	module_name_copy(base, (size_t) (dot - base), name, NAME_MAX);
	return true;
}

static int push_candidate(struct running *running, size_t tree, const char *path, size_t length)
{
	_cleanup_free_ char *copy = NULL;
	struct loaded *loaded;
	char name[NAME_MAX];
	size_t *trees;

	if (!module_of_path(path, length, name))
		return 0;
	loaded = running_find_loaded(running, name);
	if (!loaded || loaded->file)
		return 0;
	copy = strndup(path, length);
	if (!copy)
		return -ENOMEM;
	trees = reallocarray(loaded->candidate_trees, loaded->candidates.count + 1, sizeof(*trees));
	if (!trees)
		return -ENOMEM;
	loaded->candidate_trees = trees;
	trees[loaded->candidates.count] = tree;
	return strv_push(&loaded->candidates, copy);
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
	if (*loaded->build_id || *build_id)
		return strcmp(loaded->build_id, build_id) == 0;
	srcversion = elf_module_info(file, "srcversion");
	return srcversion && *loaded->srcversion && strcmp(loaded->srcversion, srcversion) == 0;
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
	if (asprintf(&loaded->path, "%s%slib/modules/%s/%s", running->trees[tree].path,
		    *running->trees[tree].path ? "/" : "", running->krel, path) < 0) {
		loaded->path = NULL;
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
	_cleanup_free_ char *real = NULL;
	char path[PATH_MAX];
	char *text = NULL;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", running->krel);
	if (chase(running->trees[tree].fd, path, &real) < 0 ||
		fs_read(running->trees[tree].fd, real, 0, &text, NULL) < 0)
		return NULL;
	return text;
}

static int index_tree(struct running *running, size_t tree)
{
	_cleanup_free_ char *text = NULL;

	if (running->trees[tree].indexed)
		return 0;
	running->trees[tree].indexed = true;
	text = read_index(running, tree);
	if (!text)
		return 0; /* no such tree: it explains nothing */
	for (const char *line = text; *line;) {
		if (push_candidate(running, tree, line, strcspn(line, ":\n")) < 0)
			return -ENOMEM;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

int running_each_kernel_file(struct running *running, size_t tree,
	int (*visit)(void *context, const struct elf_module *file), void *context)
{
	_cleanup_free_ char *text = read_index(running, tree);
	char *rest = text;
	char *line;
	int r = 0;

	while (r == 0 && rest && (line = strsep(&rest, "\n"))) {
		_cleanup_(elf_module_close) struct elf_module *file = NULL;

		line[strcspn(line, ":")] = '\0';
		if (strncmp(line, "kernel/", 7) != 0)
			continue;
		r = open_file(running, tree, line, &file);
		r = r < 0 ? (r == -ENOMEM ? r : 0) : visit(context, file);
	}
	return r;
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
		r = strstr(names.items[i], ".ko")
			    ? push_candidate(running, tree, below, strlen(below))
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

static int try_kernel_path(
	const struct running *running, struct loaded *loaded, size_t tree, const char *in_kernel)
{
	char path[PATH_MAX];

	for (size_t i = 0; in_kernel && !loaded->file && i < ARRAY_SIZE(suffixes); i++) {
		(void) snprintf(path, sizeof(path), "kernel/%s%s", in_kernel, suffixes[i]);
		if (try_file(running, loaded, tree, path) < 0)
			return -ENOMEM;
	}
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

bool running_is_image(const struct running *running, size_t tree)
{
	const char *image = running->sources.image_tree;

	return image && strcmp(running->trees[tree].path, image) == 0;
}

int running_open_native(
	const struct running *running, const struct loaded *loaded, struct elf_module **ret)
{
	const char *path = loaded->path ? strstr(loaded->path, "/kernel/") : NULL;

	for (size_t i = 0; path && loaded->of_kernel && i < running->tree_count; i++) {
		_cleanup_(elf_module_close) struct elf_module *file = NULL;
		int r = running_is_image(running, i) ? -ENOENT
						     : open_file(running, i, path + 1, &file);

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
	sysmodule_build_id(running->root_fd, loaded->name, loaded->build_id);
	if (*loaded->build_id)
		return;
	(void) snprintf(path, sizeof(path), "sys/module/%s/srcversion", loaded->name);
	if (fs_read_line(running->root_fd, path, &srcversion) == 0)
		(void) snprintf(loaded->srcversion, sizeof(loaded->srcversion), "%s", srcversion);
}

int running_explain(struct running *running, struct loaded *loaded, const char *in_kernel)
{
	if (loaded->looked)
		return 0;
	loaded->looked = true;
	running_identify(running, loaded);
	for (size_t i = 0; !loaded->file && i < running->tree_count; i++) {
		if (try_kernel_path(running, loaded, i, in_kernel) < 0)
			return -ENOMEM;
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

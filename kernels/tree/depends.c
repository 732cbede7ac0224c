/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/depends.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "module/elf.h"

#define MODULE_NAME_SIZE 256

bool depends_module_name(const char *path, char *name, size_t size)
{
	static const char *const suffixes[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *suffix = strstr(base, ".ko");
	size_t length = suffix ? (size_t) (suffix - base) : 0;

	if (length == 0 || length >= size)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (strcmp(suffix, suffixes[i]) != 0)
			continue;
		memcpy(name, base, length);
		name[length] = '\0';
		for (char *c = name; *c; c++)
			if (*c == '-')
				*c = '_';
		return true;
	}
	return false;
}

static int list_below(int dir_fd, const char *folder, struct strv *paths)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(dir_fd, folder, &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;
		char name[MODULE_NAME_SIZE];
		struct stat status;

		if (asprintf(&path, "%s/%s", folder, names.items[i]) < 0)
			return -ENOMEM;
		if (fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISDIR(status.st_mode))
			r = list_below(dir_fd, path, paths);
		else if (depends_module_name(path, name, sizeof(name)))
			r = strv_push(paths, path);
	}
	return r;
}

int depends_list_modules(int dir_fd, const char *folder, struct strv *paths)
{
	return list_below(dir_fd, folder, paths);
}

/* Modules by name: a sorted array, for 4,000 entries and a few hundred look-ups. */
struct entry {
	char *name;
	const char *path; /* borrowed from the list that the index was made of */
};

struct index {
	struct entry *entries;
	size_t count;
};

static void index_free(struct index *index)
{
	for (size_t i = 0; i < index->count; i++)
		free(index->entries[i].name);
	free(index->entries);
	*index = (struct index){ 0 };
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct entry *) a)->name, ((const struct entry *) b)->name);
}

static int index_paths(const struct strv *paths, struct index *ret)
{
	_cleanup_(index_free) struct index index = { 0 };

	index.entries = calloc(paths->count + 1, sizeof(*index.entries));
	if (!index.entries)
		return -ENOMEM;
	for (size_t i = 0; i < paths->count; i++) {
		char name[MODULE_NAME_SIZE];

		if (!depends_module_name(paths->items[i], name, sizeof(name)))
			continue;
		index.entries[index.count].path = paths->items[i];
		index.entries[index.count].name = strdup(name);
		if (!index.entries[index.count++].name)
			return -ENOMEM;
	}
	qsort(index.entries, index.count, sizeof(*index.entries), compare_entries);
	*ret = index;
	index = (struct index){ 0 };
	return 0;
}

static const char *index_find(const struct index *index, const char *name)
{
	struct entry key = { .name = (char *) (uintptr_t) name };
	const struct entry *found = bsearch(
		&key, index->entries, index->count, sizeof(*index->entries), compare_entries);

	return found ? found->path : NULL;
}

struct closure {
	int kernel_fd; /* lib/modules/<krel> of the kernel's package */
	struct strv kernel_paths;
	struct index kernel;
	struct strv builtin_paths;
	struct index builtin;
	struct strv provided; /* names that a set brings itself, here or in the other image */
	struct strv *paths;   /* the answer */
};

static void closure_done(struct closure *closure)
{
	cleanup_close(&closure->kernel_fd);
	index_free(&closure->kernel);
	index_free(&closure->builtin);
	strv_free(&closure->kernel_paths);
	strv_free(&closure->builtin_paths);
	strv_free(&closure->provided);
}

static int open_modules(int root_fd, const char *krel, int *ret_fd)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "lib/modules/%s", krel) < 0)
		return -ENOMEM;
	*ret_fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int add_provided(int root_fd, const char *krel, struct strv *provided)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_close_ int modules_fd = -1;
	int r = open_modules(root_fd, krel, &modules_fd);

	if (r == 0)
		r = depends_list_modules(modules_fd, ".", &paths);
	for (size_t i = 0; i < paths.count && r == 0; i++) {
		char name[MODULE_NAME_SIZE];

		if (depends_module_name(paths.items[i], name, sizeof(name)))
			r = strv_push_unique(provided, name);
	}
	return r;
}

static int read_builtin(struct closure *closure)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(closure->kernel_fd, "modules.builtin", 0, &text, NULL);

	if (r == 0)
		r = strv_split(&closure->builtin_paths, text, "\n");
	return r < 0 ? r : index_paths(&closure->builtin_paths, &closure->builtin);
}

static int closure_start(struct closure *closure, const struct depends *depends)
{
	int r = open_modules(depends->kernel_fd, depends->krel, &closure->kernel_fd);

	if (r == 0)
		r = depends_list_modules(closure->kernel_fd, "kernel", &closure->kernel_paths);
	if (r == 0)
		r = index_paths(&closure->kernel_paths, &closure->kernel);
	if (r == 0)
		r = read_builtin(closure);
	if (r == 0)
		r = add_provided(depends->set_fd, depends->krel, &closure->provided);
	if (r == 0 && depends->other_fd >= 0)
		r = add_provided(depends->other_fd, depends->krel, &closure->provided);
	return r;
}

static int add_module(struct closure *closure, int dir_fd, const char *path, struct error *error);

/* @wanted_by names who asks, for the message; a soft dependency may be absent. */
static int need(struct closure *closure, const char *name, const char *wanted_by, bool soft,
	struct error *error)
{
	const char *path = index_find(&closure->kernel, name);

	if (strv_contains(&closure->provided, name) || index_find(&closure->builtin, name))
		return 0;
	if (!path && soft)
		return 0;
	if (!path)
		return error_set(error, -ENODATA,
			"%s depends on %s, which neither the kernel nor the drivers have",
			wanted_by, name);
	if (strv_contains(closure->paths, path))
		return 0;
	if (strv_push(closure->paths, path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	return add_module(closure, closure->kernel_fd, path, error);
}

/*
 * "pre: a b post: c": hints, not needs. They are for modprobe in the exported
 * root; slipway-init loads what a module depends on.
 */
static int need_soft(
	struct closure *closure, const char *softdep, const char *wanted_by, struct error *error)
{
	_cleanup_strv_ struct strv words = { 0 };
	int r = strv_split(&words, softdep, " \t");

	for (size_t i = 0; i < words.count && r == 0; i++) {
		char *word = words.items[i];

		if (strcmp(word, "pre:") == 0 || strcmp(word, "post:") == 0)
			continue;
		for (char *c = word; *c; c++)
			if (*c == '-')
				*c = '_';
		r = need(closure, word, wanted_by, true, error);
	}
	return r;
}

static int add_module(struct closure *closure, int dir_fd, const char *path, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv soft = { 0 };
	int r = elf_module_open(dir_fd, path, &module, error);

	if (r < 0)
		return r;
	r = elf_module_depends(module, &names);
	if (r == 0)
		r = elf_module_info_all(module, "softdep", &soft);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = need(closure, names.items[i], path, false, error);
	for (size_t i = 0; i < soft.count && r == 0; i++)
		r = need_soft(closure, soft.items[i], path, error);
	return r;
}

int depends_closure(const struct depends *depends, struct strv *paths, struct error *error)
{
	_cleanup_(closure_done) struct closure closure = { .kernel_fd = -1, .paths = paths };
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_close_ int set_fd = -1;
	int r = closure_start(&closure, depends);

	if (r == 0)
		r = open_modules(depends->set_fd, depends->krel, &set_fd);
	if (r == 0)
		r = depends_list_modules(set_fd, ".", &modules);
	if (r < 0)
		return error_set_errno(error, r, "modules of kernel %s", depends->krel);
	for (size_t i = 0; i < modules.count && r == 0; i++)
		r = add_module(&closure, set_fd, modules.items[i], error);
	strv_sort(paths);
	return r;
}

int depends_copy(
	const struct depends *depends, const struct strv *paths, int to_fd, struct error *error)
{
	static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
		"modules.order" };
	_cleanup_strv_ struct strv wanted = { 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists) && r == 0; i++)
		r = strv_push(&wanted, lists[i]);
	for (size_t i = 0; i < paths->count && r == 0; i++)
		r = strv_push(&wanted, paths->items[i]);
	if (r < 0)
		return error_set_errno(error, r, "kernel modules");
	for (size_t i = 0; i < wanted.count; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "lib/modules/%s/%s", depends->krel, wanted.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "kernel modules");
		r = copy_tree(depends->kernel_fd, path, to_fd, path);
		if (r == -ENOENT && i == 1) /* modules.builtin.modinfo: since 5.2 */
			r = 0;
		if (r < 0)
			return error_set_errno(error, r, "%s", path);
	}
	return 0;
}

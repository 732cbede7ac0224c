/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/depends.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "module/elf.h"

#define MODULE_NAME_SIZE 256

int depends_list_modules(int dir_fd, const char *folder, struct strv *paths)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list_tree(dir_fd, folder, &files);

	for (size_t i = 0; i < files.count && r == 0; i++)
		if (module_suffix(files.items[i]))
			xstrv_push(paths, files.items[i]);
	return r;
}

/* A module that something may depend on. */
struct known {
	char *name;
	char *path; /* of the kernel's own; NULL: it is built in, or a set brings it */
	bool taken;
};

struct closure {
	struct known *known; /* sorted: 4,000 of them, and a few hundred look-ups */
	size_t count;
	int kernel_fd;      /* lib/modules/<krel> of the kernel's package */
	struct strv *paths; /* the answer */
	struct error *error;
};

static void closure_free(struct closure *closure)
{
	cleanup_close(&closure->kernel_fd);
	for (size_t i = 0; i < closure->count; i++) {
		free(closure->known[i].name);
		free(closure->known[i].path);
	}
	free(closure->known);
}

/* Sorts by name; if a set has a module that the kernel has too, the set's comes first. */
static int compare_known(const void *a, const void *b)
{
	const struct known *left = a;
	const struct known *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : (left->path != NULL) - (right->path != NULL);
}

static void add_known(struct closure *closure, const struct strv *paths, bool of_kernel)
{
	closure->known = xreallocarray(
		closure->known, closure->count + paths->count, sizeof(*closure->known));
	for (size_t i = 0; i < paths->count; i++) {
		char name[MODULE_NAME_SIZE];

		if (!module_name_of_file(paths->items[i], name, sizeof(name)))
			continue;
		closure->known[closure->count++] = (struct known){
			.name = xstrdup(name),
			.path = of_kernel ? xstrdup(paths->items[i]) : NULL,
		};
	}
}

static int compare_name(const void *name, const void *known)
{
	return strcmp(name, ((const struct known *) known)->name);
}

/* The first of this name: the set's, where both have it. */
static struct known *find_known(const struct closure *closure, const char *name)
{
	struct known *found = NULL;

	if (closure->count)
		found = bsearch(name, closure->known, closure->count, sizeof(*found), compare_name);
	while (found && found > closure->known && strcmp(found[-1].name, name) == 0)
		found--;
	return found;
}

static int open_modules(int root_fd, const char *krel)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s", krel);
	int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Adds the modules of the set below @root_fd, and appends their paths to @paths. */
static int add_set(
	struct closure *closure, int root_fd, const char *krel, int *ret_fd, struct strv *paths)
{
	int r;

	*ret_fd = open_modules(root_fd, krel);
	if (*ret_fd < 0)
		return *ret_fd;
	r = depends_list_modules(*ret_fd, ".", paths);
	if (r == 0)
		add_known(closure, paths, false);
	return r;
}

/* Adds the kernel's modules, also those that are built in. */
static int add_kernel(struct closure *closure)
{
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_strv_ struct strv builtin = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = depends_list_modules(closure->kernel_fd, "kernel", &modules);

	if (r == 0)
		r = fs_read(closure->kernel_fd, "modules.builtin", 0, &text, NULL);
	if (r < 0)
		return r;
	xstrv_split(&builtin, text, "\n");
	add_known(closure, &modules, true);
	add_known(closure, &builtin, false);
	return 0;
}

static int add_module(struct closure *closure, int dir_fd, const char *path);

/* @wanted_by is for the message; a soft dependency may be absent. */
static int need(struct closure *closure, const char *name, const char *wanted_by, bool soft)
{
	struct known *known = find_known(closure, name);

	if (!known && !soft)
		return error_set(closure->error, -ENODATA,
			"%s depends on %s, which neither the kernel nor the drivers have",
			wanted_by, name);
	if (!known || !known->path || known->taken)
		return 0;
	known->taken = true;
	xstrv_push(closure->paths, known->path);
	return add_module(closure, closure->kernel_fd, known->path);
}

static int add_module(struct closure *closure, int dir_fd, const char *path)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv soft = { 0 };
	const char *value = NULL;
	int r = elf_module_open(dir_fd, path, &module, closure->error);

	if (r < 0)
		return r;
	r = elf_module_depends(module, &names);
	if (r < 0)
		return error_set_errno(closure->error, r, "%s", path);
	/*
	 * "pre: a b post: c": hints, not needs. They are for modprobe in the exported root;
	 * slipway-init loads what a module depends on.
	 */
	while ((value = elf_module_info_next(module, "softdep", value)))
		xstrv_split(&soft, value, " \t");
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = need(closure, names.items[i], path, false);
	for (size_t i = 0; i < soft.count && r == 0; i++) {
		char name[MODULE_NAME_SIZE];

		module_name_copy(soft.items[i], strlen(soft.items[i]), name, sizeof(name));
		if (strcmp(name, "pre:") != 0 && strcmp(name, "post:") != 0)
			r = need(closure, name, path, true);
	}
	return r;
}

int depends_closure(const struct depends *depends, struct strv *paths, struct error *error)
{
	_cleanup_(closure_free) struct closure closure = {
		.kernel_fd = open_modules(depends->kernel_fd, depends->krel),
		.paths = paths,
		.error = error,
	};
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_strv_ struct strv others = { 0 };
	_cleanup_close_ int set_fd = -1;
	_cleanup_close_ int other_fd = -1;
	int r = closure.kernel_fd < 0 ? closure.kernel_fd : add_kernel(&closure);

	if (r == 0)
		r = add_set(&closure, depends->set_fd, depends->krel, &set_fd, &modules);
	if (r == 0 && depends->other_fd >= 0)
		r = add_set(&closure, depends->other_fd, depends->krel, &other_fd, &others);
	if (r < 0)
		return error_set_errno(error, r, "modules of kernel %s", depends->krel);
	if (closure.count)
		qsort(closure.known, closure.count, sizeof(*closure.known), compare_known);
	for (size_t i = 0; i < modules.count && r == 0; i++)
		r = add_module(&closure, set_fd, modules.items[i]);
	strv_sort(paths);
	return r;
}

int depends_copy(
	const struct depends *depends, const struct strv *paths, int to_fd, struct error *error)
{
	static const char *const lists[] = { "modules.builtin", "modules.order",
		"modules.builtin.modinfo" };

	for (size_t i = 0; i < ARRAY_SIZE(lists) + paths->count; i++) {
		_cleanup_free_ char *path = xasprintf("lib/modules/%s/%s", depends->krel,
			i < ARRAY_SIZE(lists) ? lists[i] : paths->items[i - ARRAY_SIZE(lists)]);
		int r = copy_tree(depends->kernel_fd, path, to_fd, path);

		if (r == -ENOENT && i == 2) /* modules.builtin.modinfo: since 5.2 */
			continue;
		if (r < 0)
			return error_set_errno(error, r, "%s", path);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "module/elf.h"

/* The image's own depmod: it is what the kit's kmod and modprobe read. */
static int run_depmod(const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	const struct process process = { .argv = &argv, .stdin_fd = -1, .log_fd = -1 };
	int status;

	xstrv_push(&argv, "/usr/sbin/depmod");
	xstrv_push(&argv, krel);
	status = process_run(&process, NULL, error);
	return status > 0 ? error_set(error, -EIO, "depmod %s failed (status %d)", krel, status)
			  : status;
}

/* Appends what the modules of the set depend on, each other left out. */
static int list_wanted(int set_fd, const char *folder, struct strv *wanted, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	_cleanup_strv_ struct strv ours = { 0 };
	int r = fs_list(set_fd, folder, &files);

	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	for (size_t i = 0; i < files.count; i++) {
		char name[NAME_MAX];

		if (module_name_of_file(files.items[i], name, sizeof(name)))
			xstrv_push(&ours, name);
	}
	for (size_t i = 0; i < files.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, files.items[i]);
		_cleanup_strv_ struct strv names = { 0 };

		r = elf_module_open(set_fd, path, &module, error);
		if (r < 0)
			return r;
		r = elf_module_depends(module, &names);
		if (r < 0)
			return error_set_errno(error, r, "%s", folder);
		for (size_t k = 0; k < names.count; k++)
			if (!strv_contains(&ours, names.items[k]))
				xstrv_push_unique(wanted, names.items[k]);
	}
	return 0;
}

/* Takes a module of this path off the list. Was it there? */
static bool take(struct strv *wanted, const char *path)
{
	char name[NAME_MAX];

	if (!module_name_of_file(path, name, sizeof(name)))
		return false;
	for (size_t i = 0; i < wanted->count; i++)
		if (strcmp(wanted->items[i], name) == 0) {
			strv_remove(wanted, i);
			return true;
		}
	return false;
}

/* Appends the lines of a file below the host's lib/modules/<krel>. */
static int read_lines(const struct node_build *build, const char *file, struct strv *lines)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/%s", build->request->krel, file);
	_cleanup_free_ char *text = NULL;
	int r = fs_read(build->host_fd, path, 0, &text, NULL);

	if (r == 0)
		xstrv_split(lines, text, "\n");
	return r;
}

/* Copies one file below lib/modules/<krel>, following links: the host may have it elsewhere. */
static int copy_module_file(const struct node_build *build, const char *file)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/%s", build->request->krel, file);
	_cleanup_free_ char *folder = xstrndup(path, (size_t) (strrchr(path, '/') - path));
	_cleanup_free_ char *data = NULL;
	size_t size;
	int r = fs_read(build->host_fd, path, 0, &data, &size);

	if (r < 0)
		return r;
	r = fs_mkdir_parents(build->request->root_fd, folder, 0755);
	return r < 0 ? r : fs_write_atomic(build->request->root_fd, path, data, size, 0644);
}

/*
 * Uses the host's own index, which knows the modules that its modprobe takes. A module that is
 * neither there nor in the kernel is only noted: cli/stage's closure (kernels/tree/depends.h)
 * refuses it, but this kernel already runs.
 */
static int copy_dependencies(
	const struct node_build *build, struct strv *wanted, struct error *error)
{
	static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
		"modules.order" };
	_cleanup_strv_ struct strv index = { 0 };
	_cleanup_strv_ struct strv builtin = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };

	if (read_lines(build, "modules.dep", &index) < 0 && wanted->count)
		return error_set(error, -ENOENT,
			"the host's /lib/modules/%s has no modules.dep: the modules that the "
			"driver depends on (%s …) cannot be found: run depmod on the host",
			build->request->krel, wanted->items[0]);
	for (size_t i = 0; i < index.count && wanted->count; i++) {
		/* "a.ko: b.ko c.ko": the module and all that it needs. */
		_cleanup_strv_ struct strv words = { 0 };

		xstrv_split(&words, index.items[i], ": ");
		if (words.count && take(wanted, words.items[0]))
			for (size_t k = 0; k < words.count; k++)
				xstrv_push_unique(&paths, words.items[k]);
	}
	for (size_t i = 0; i < paths.count; i++) {
		int r = copy_module_file(build, paths.items[i]);

		if (r < 0)
			return error_set_errno(error, r, "the host's /lib/modules/%s/%s",
				build->request->krel, paths.items[i]);
	}
	/* Optional for depmod, which warns without them. */
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		int r = copy_module_file(build, lists[i]);

		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "%s", lists[i]);
	}
	(void) read_lines(build, "modules.builtin", &builtin);
	for (size_t i = 0; i < builtin.count; i++)
		(void) take(wanted, builtin.items[i]);
	if (wanted->count) {
		_cleanup_free_ char *names = xstrv_join(wanted, ", ");

		node_build_note(build,
			"neither the host's modules nor its kernel include %s, which the driver "
			"depends on",
			names);
	}
	return 0;
}

static int install_peermem(const struct node_build *build, int set_fd, struct error *error)
{
	_cleanup_free_ char *path =
		xasprintf("lib/modules/%s/updates/nvidia/nvidia-peermem.ko", build->request->krel);
	_cleanup_free_ char *data = NULL;
	size_t size;
	int r = fs_read(set_fd, path, 0, &data, &size);

	if (r == 0)
		r = fs_write_atomic(build->request->root_fd, path, data, size, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path)
		     : run_depmod(build->request->krel, error);
}

int install_set(const struct node_build *build, int set_fd, struct error *error)
{
	static const char *const parts[] = { "lib/modules", "usr/src" };
	const char *krel = build->request->krel;
	int root_fd = build->request->root_fd;
	_cleanup_free_ char *folder =
		xasprintf("lib/modules/%s/updates/%s", krel, build->request->recipe);
	_cleanup_free_ char *index = xasprintf("lib/modules/%s/modules.dep", krel);
	_cleanup_strv_ struct strv wanted = { 0 };
	int r;

	if (strcmp(build->request->recipe, "peermem") == 0)
		return install_peermem(build, set_fd, error);
	r = list_wanted(set_fd, folder, &wanted, error);
	if (r < 0)
		return r;
	/* depmod's index first: what has none is not taken for whole. */
	if (unlinkat(root_fd, index, 0) < 0 && errno != ENOENT)
		return error_set_errno(error, -errno, "/%s", index);
	r = fs_remove_tree(root_fd, folder);
	if (r < 0)
		return error_set_errno(error, r, "/%s", folder);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!fs_exists(set_fd, parts[i]))
			continue;
		r = copy_tree(set_fd, parts[i], root_fd, parts[i]);
		if (r < 0)
			return error_set_errno(error, r, "/%s", parts[i]);
	}
	r = copy_dependencies(build, &wanted, error);
	return r < 0 ? r : run_depmod(krel, error);
}

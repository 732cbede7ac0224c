/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <limits.h>
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

/* Does "kernel/drivers/gpu/drm/drm.ko.xz" hold the module @name? '-' and '_' are one. @length: of
 * the path. */
static bool path_is(const char *path, size_t length, const char *name)
{
	const char *slash = memrchr(path, '/', length);
	const char *base = slash ? slash + 1 : path;
	const char *dot = memchr(base, '.', (size_t) (path + length - base));
	size_t size = dot ? (size_t) (dot - base) : 0;

	if (!dot || strlen(name) != size)
		return false;
	for (size_t i = 0; i < size; i++)
		if (base[i] != name[i] && !(strchr("-_", base[i]) && strchr("-_", name[i])))
			return false;
	return true;
}

/* The line whose path, which ends at one of @ends, is the module @name; or NULL. */
static const char *find_line(const char *text, const char *ends, const char *name)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (path_is(line, strcspn(line, ends), name))
			return line;
	return NULL;
}

/* What the modules of the set depend on, each other left out. */
static int list_wanted(int set_fd, const char *folder, struct strv *wanted, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(set_fd, folder, &files);

	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	for (size_t i = 0; i < files.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		_cleanup_strv_ struct strv names = { 0 };
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", folder, files.items[i]);
		r = elf_module_open(set_fd, path, &module, error);
		if (r < 0)
			return r;
		r = elf_module_depends(module, &names);
		if (r < 0)
			return error_set_errno(error, r, "%s", folder);
		for (size_t k = 0; k < names.count; k++) {
			bool ours = false;

			for (size_t n = 0; n < files.count && !ours; n++)
				ours = path_is(
					files.items[n], strlen(files.items[n]), names.items[k]);
			if (!ours)
				xstrv_push_unique(wanted, names.items[k]);
		}
	}
	return 0;
}

/* Reads a file below lib/modules/<krel>. */
static char *read_text(int dir_fd, const char *krel, const char *file)
{
	char path[PATH_MAX];
	char *text = NULL;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", krel, file);
	return fs_read(dir_fd, path, 0, &text, NULL) < 0 ? NULL : text;
}

/* Copies one file below lib/modules/<krel>, following links: the host may have it elsewhere. */
static int copy_module_file(const struct node_build *build, const char *file)
{
	_cleanup_free_ char *data = NULL;
	char path[PATH_MAX], folder[PATH_MAX];
	size_t size;
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", build->request->krel, file);
	r = fs_read(build->host_fd, path, 0, &data, &size);
	if (r < 0)
		return r;
	(void) snprintf(folder, sizeof(folder), "%.*s", (int) (strrchr(path, '/') - path), path);
	r = fs_mkdir_parents(build->request->root_fd, folder, 0755);
	return r < 0 ? r : fs_write_atomic(build->request->root_fd, path, data, size, 0644);
}

static int copy_dependencies(
	const struct node_build *build, const struct strv *wanted, struct error *error)
{
	static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
		"modules.order" };
	_cleanup_free_ char *index = read_text(build->host_fd, build->request->krel, "modules.dep");
	_cleanup_free_ char *builtin =
		read_text(build->host_fd, build->request->krel, "modules.builtin");
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv missing = { 0 };

	if (!index && wanted->count)
		return error_set(error, -ENOENT,
			"the host's /lib/modules/%s has no modules.dep: its own modules, which the "
			"driver depends on (%s …), cannot be found: run depmod on the host",
			build->request->krel, wanted->items[0]);
	for (size_t i = 0; i < wanted->count; i++) {
		/* "a.ko: b.ko c.ko": the module and all that it needs. */
		const char *line = find_line(index, ":\n", wanted->items[i]);
		_cleanup_free_ char *text = line ? xstrndup(line, strcspn(line, "\n")) : NULL;
		_cleanup_strv_ struct strv words = { 0 };

		if (line)
			xstrv_split(&words, text, ": ");
		else if (!builtin || !find_line(builtin, "\n", wanted->items[i]))
			xstrv_push(&missing, wanted->items[i]);
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
	if (missing.count) {
		_cleanup_free_ char *names = xstrv_join(&missing, ", ");

		node_build_note(build,
			"neither the host nor its kernel has %s, which a module of the driver "
			"depends on",
			names);
	}
	return 0;
}

static int install_peermem(const struct node_build *build, int set_fd, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/updates/nvidia/nvidia-peermem.ko",
		build->request->krel);
	r = fs_read(set_fd, path, 0, &data, &size);
	if (r == 0)
		r = fs_write_atomic(build->request->root_fd, path, data, size, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path)
		     : run_depmod(build->request->krel, error);
}

int install_set(const struct node_build *build, int set_fd, struct error *error)
{
	static const char *const parts[] = { "lib/modules", "usr/src" };
	_cleanup_strv_ struct strv wanted = { 0 };
	char folder[512], index[256];
	int r;

	if (strcmp(build->request->recipe, "peermem") == 0)
		return install_peermem(build, set_fd, error);
	(void) snprintf(folder, sizeof(folder), "lib/modules/%s/updates/%s", build->request->krel,
		build->request->recipe);
	r = list_wanted(set_fd, folder, &wanted, error);
	if (r < 0)
		return r;
	/* depmod's index first: what has none is not taken for whole. */
	(void) snprintf(index, sizeof(index), "lib/modules/%s/modules.dep", build->request->krel);
	if (unlinkat(build->request->root_fd, index, 0) < 0 && errno != ENOENT)
		return error_set_errno(error, -errno, "/%s", index);
	r = fs_remove_tree(build->request->root_fd, folder);
	if (r < 0)
		return error_set_errno(error, r, "/%s", folder);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!fs_exists(set_fd, parts[i]))
			continue;
		r = copy_tree(set_fd, parts[i], build->request->root_fd, parts[i]);
		if (r < 0)
			return error_set_errno(error, r, "/%s", parts[i]);
	}
	r = copy_dependencies(build, &wanted, error);
	return r < 0 ? r : run_depmod(build->request->krel, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/install.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "common/fs.h"
#include "module/elf.h"
#include "module/kernel_facts.h"

#define RECIPE_FOLDER "lib/modules/%s/updates/%s"

/* The image's own depmod: it is what the kit's kmod and modprobe read. */
static int run_depmod(const char *krel, struct error *error)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return error_set_errno(error, -errno, "fork");
	if (pid == 0) {
		(void) execl("/usr/sbin/depmod", "depmod", krel, (char *) NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, "depmod");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(error, -EIO, "depmod %s failed (status %d)", krel, status);
	return 0;
}

/* Compares module names where '-' and '_' are one. */
static bool same_name(const char *a, size_t length, const char *b)
{
	if (strlen(b) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (a[i] != b[i] && !(strchr("-_", a[i]) && strchr("-_", b[i])))
			return false;
	return true;
}

/* Does "kernel/drivers/gpu/drm/drm.ko.xz" hold the module @name? @length: of the path. */
static bool path_is(const char *path, size_t length, const char *name)
{
	const char *base = path;
	const char *dot;

	for (size_t i = 0; i < length; i++)
		if (path[i] == '/')
			base = path + i + 1;
	dot = memchr(base, '.', (size_t) (path + length - base));
	return dot && same_name(base, (size_t) (dot - base), name);
}

/* The line of modules.dep whose module is @name, or NULL. */
static const char *find_line(const char *index, const char *name)
{
	for (const char *line = index; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (path_is(line, strcspn(line, ":\n"), name))
			return line;
	return NULL;
}

static bool is_builtin(const char *list, const char *name)
{
	for (const char *line = list; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (path_is(line, strcspn(line, "\n"), name))
			return true;
	return false;
}

/* Every path of a line "a.ko: b.ko c.ko": the module and all that it needs. */
static int take_line(const char *line, struct strv *paths)
{
	_cleanup_free_ char *text = strndup(line, strcspn(line, "\n"));
	_cleanup_strv_ struct strv words = { 0 };
	int r = text ? strv_split(&words, text, ": ") : -ENOMEM;

	for (size_t i = 0; i < words.count && r == 0; i++)
		r = strv_push_unique(paths, words.items[i]);
	return r;
}

/* What the modules of the set depend on, each other left out. */
static int list_wanted(int set_fd, const char *folder, struct strv *wanted, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(set_fd, folder, &files);

	for (size_t i = 0; i < files.count && r == 0; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		_cleanup_strv_ struct strv names = { 0 };
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", folder, files.items[i]);
		r = elf_module_open(set_fd, path, &module, error);
		if (r < 0)
			return r;
		r = elf_module_depends(module, &names);
		for (size_t k = 0; k < names.count && r == 0; k++) {
			bool ours = false;

			for (size_t n = 0; n < files.count && !ours; n++)
				ours = path_is(
					files.items[n], strlen(files.items[n]), names.items[k]);
			if (!ours)
				r = strv_push_unique(wanted, names.items[k]);
		}
	}
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

static int read_text(int dir_fd, const char *krel, const char *file, char **ret_text)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", krel, file);
	return fs_read(dir_fd, path, 0, ret_text, NULL);
}

/* Copies one file below lib/modules/<krel>, following links: the host may have it elsewhere. */
static int copy_module_file(int from_fd, int to_fd, const char *krel, const char *file)
{
	_cleanup_free_ char *data = NULL;
	char path[PATH_MAX];
	size_t size;
	char *slash;
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", krel, file);
	r = fs_read(from_fd, path, 0, &data, &size);
	slash = strrchr(path, '/');
	if (r == 0) {
		*slash = '\0';
		r = fs_mkdir_parents(to_fd, path, 0755);
		*slash = '/';
	}
	return r < 0 ? r : fs_write_atomic(to_fd, path, data, size, 0644);
}

static int copy_dependencies(int root_fd, int host_fd, const char *krel, const struct strv *wanted,
	struct strv *missing, struct error *error)
{
	static const char *const lists[] = { "modules.builtin", "modules.builtin.modinfo",
		"modules.order" };
	_cleanup_free_ char *index = NULL;
	_cleanup_free_ char *builtin = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	int r;

	if (read_text(host_fd, krel, "modules.dep", &index) < 0 && wanted->count)
		return error_set(error, -ENOENT,
			"the host's /lib/modules/%s has no modules.dep: its own modules, which the "
			"driver depends on (%s …), cannot be found: run depmod on the host",
			krel, wanted->items[0]);
	if (read_text(host_fd, krel, "modules.builtin", &builtin) < 0)
		builtin = strdup("");
	for (size_t i = 0; i < wanted->count; i++) {
		const char *line = find_line(index, wanted->items[i]);

		r = line ? take_line(line, &paths) : 0;
		if (!line && (!builtin || !is_builtin(builtin, wanted->items[i])))
			r = strv_push(missing, wanted->items[i]);
		if (r < 0)
			return error_set_errno(error, r, "modules.dep");
	}
	for (size_t i = 0; i < paths.count; i++) {
		r = copy_module_file(host_fd, root_fd, krel, paths.items[i]);
		if (r < 0)
			return error_set_errno(
				error, r, "the host's /lib/modules/%s/%s", krel, paths.items[i]);
	}
	/* Optional for depmod, which warns without them. */
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		r = copy_module_file(host_fd, root_fd, krel, lists[i]);
		if (r < 0 && r != -ENOENT)
			return error_set_errno(error, r, "%s", lists[i]);
	}
	return 0;
}

/* depmod's index first: what has none is not taken for whole. */
static int clear_place(int root_fd, const char *krel, const char *folder, struct error *error)
{
	char index[256];
	int r = 0;

	(void) snprintf(index, sizeof(index), "lib/modules/%s/modules.dep", krel);
	if (unlinkat(root_fd, index, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = fs_remove_tree(root_fd, folder);
	return r < 0 ? error_set_errno(error, r, "/%s", folder) : 0;
}

int install_set(int root_fd, int host_fd, int set_fd, const char *krel, const char *recipe,
	struct strv *missing, struct error *error)
{
	/* The facts are of a set that was made elsewhere: OpenShift's driver toolkit. */
	static const char *const parts[] = { "lib/modules", "usr/src", KERNEL_FACTS_FOLDER };
	_cleanup_strv_ struct strv wanted = { 0 };
	char folder[512];
	int r;

	(void) snprintf(folder, sizeof(folder), RECIPE_FOLDER, krel, recipe);
	r = list_wanted(set_fd, folder, &wanted, error);
	if (r == 0)
		r = clear_place(root_fd, krel, folder, error);
	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++) {
		r = fs_exists(set_fd, parts[i]) ? copy_tree(set_fd, parts[i], root_fd, parts[i])
						: 0;
		if (r < 0)
			return error_set_errno(error, r, "/%s", parts[i]);
	}
	if (r == 0)
		r = copy_dependencies(root_fd, host_fd, krel, &wanted, missing, error);
	return r < 0 ? r : run_depmod(krel, error);
}

int install_peermem(int root_fd, int set_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	(void) snprintf(path, sizeof(path), RECIPE_FOLDER "/nvidia-peermem.ko", krel, "nvidia");
	r = fs_read(set_fd, path, 0, &data, &size);
	if (r == 0)
		r = fs_write_atomic(root_fd, path, data, size, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path) : run_depmod(krel, error);
}

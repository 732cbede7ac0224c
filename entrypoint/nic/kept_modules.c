/* SPDX-License-Identifier: Apache-2.0 */
/* Module files by build id: the host's, the image's, and copies kept of an earlier image's. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/nic_internal.h"

/* Deeper than any kernel's module tree. */
#define DEPTH_MAX 12

/* In the journals' folder: what the image that was loaded last has, a folder for its kernel. */
#define KEPT    "loaded"
#define NEW     KEPT ".new"
#define ID_FILE "set"

/* ---- files by build id */

void module_lookup_free(struct module_lookup *lookup)
{
	strv_free(&lookup->files);
	strv_free(&lookup->skipped);
	lookup->listed = false;
}

static int list_tree(struct module_lookup *lookup, const char *folder, int depth)
{
	const struct role *role = lookup->action->role;
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(role->root_fd, folder, &names);

	if (r < 0)
		return r == -ENOMEM ? r : 0; /* no folder: something else that lies there */
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		const char *base = names.items[i];
		char path[PATH_MAX];

		/* Headers, and the indexes that depmod makes, are no modules. */
		if (strcmp(base, "build") == 0 || strcmp(base, "source") == 0 ||
			strncmp(base, "modules.", strlen("modules.")) == 0 ||
			snprintf(path, sizeof(path), "%s/%s", folder, base) >= (int) sizeof(path))
			continue;
		if (module_suffix(path))
			r = strv_push(&lookup->files, path);
		else if (depth > 0 && !strchr(base, '.'))
			r = list_tree(lookup, path, depth - 1);
	}
	return r;
}

/* The best place first: the host's tree, what an earlier image kept, this image. */
static int list_all(struct module_lookup *lookup)
{
	const struct nic *nic = lookup->action->role;
	const char *krel = nic->role.krel;
	char host[PATH_MAX], kept[PATH_MAX], image[PATH_MAX];

	if (lookup->listed)
		return 0;
	lookup->listed = true;
	(void) snprintf(host, sizeof(host), "%s/lib/modules/%s", nic->role.host_root + 1, krel);
	(void) snprintf(kept, sizeof(kept), "%s/" KEPT "/%s", nic->inputs.journal_folder, krel);
	(void) snprintf(image, sizeof(image), "lib/modules/%s", krel);
	if (list_tree(lookup, host, DEPTH_MAX) < 0 || list_tree(lookup, kept, 1) < 0)
		return -ENOMEM;
	return list_tree(lookup, image, DEPTH_MAX);
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

bool module_is_of_host(const struct module_lookup *lookup, const char *path)
{
	const struct role *role = lookup->action->role;

	return is_below(path, role->host_root + 1);
}

/*
 * Is it kept where others than root can have put it, which have the inventory's folder, too? Then
 * it is not loaded, whatever build id it says it has, and reported.
 */
static bool is_distrusted(struct module_lookup *lookup, const char *path)
{
	const struct nic *nic = lookup->action->role;
	const char *folder = nic->inputs.journal_folder;
	_cleanup_close_ int fd = -1;
	struct error why = { 0 };

	if (!is_below(path, folder))
		return false;
	fd = nic_open_owned(nic->role.root_fd, folder, path, &why);
	if (fd >= 0)
		return false;
	if (!strv_contains(&lookup->skipped, path))
		nic_note(lookup->action,
			"a kept module is not trusted and not loaded: /%.300s: %.500s", path,
			why.text);
	(void) !strv_push_unique(&lookup->skipped, path); /* else it is reported twice */
	return true;
}

/* @ret_real: its path without links; those of the host's tree (weak-updates) lead there. */
static bool is_the_build(
	struct module_lookup *lookup, const char *path, const char *build_id, char **ret_real)
{
	const struct role *role = lookup->action->role;
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	const char *top = module_is_of_host(lookup, path) ? role->host_root + 1 : "";
	_cleanup_free_ char *real = NULL;
	char id[BUILD_ID_HEX_SIZE];
	struct error ignored;

	if (is_distrusted(lookup, path) ||
		chase_in(role->root_fd, top, path + strlen(top), &real) < 0 ||
		elf_module_open(role->root_fd, real, &file, &ignored) < 0)
		return false;
	elf_module_build_id(file, id);
	if (strcmp(id, build_id) != 0)
		return false;
	*ret_real = TAKE_PTR(real);
	return true;
}

int module_find(
	struct module_lookup *lookup, const char *name, const char *build_id, char **ret_path)
{
	int r = list_all(lookup);

	if (r < 0)
		return r;
	for (size_t i = 0; *build_id && i < lookup->files.count; i++) {
		char file_name[ELF_STRUCT_NAME_SIZE];

		if (module_name_of_file(lookup->files.items[i], file_name, sizeof(file_name)) &&
			strcmp(file_name, name) == 0 &&
			is_the_build(lookup, lookup->files.items[i], build_id, ret_path))
			return 0;
	}
	return -ENOENT;
}

bool module_is_on_host(struct module_lookup *lookup, const char *name, const char *build_id)
{
	_cleanup_free_ char *path = NULL;

	/* The host's tree comes first. */
	return module_find(lookup, name, build_id, &path) == 0 && module_is_of_host(lookup, path);
}

/* ---- copies for the next image */

static int copy_set(
	int root_fd, int kept_fd, const char *folder, const struct strv *paths, const char *id)
{
	_cleanup_close_ int folder_fd = -1;
	int r = fs_mkdir_parents(kept_fd, folder, 0755);

	if (r < 0)
		return r;
	folder_fd = openat(kept_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return -errno;
	for (size_t i = 0; i < paths->count; i++) {
		const char *slash = strrchr(paths->items[i], '/');
		const char *name = slash ? slash + 1 : paths->items[i];

		r = copy_apart(root_fd, paths->items[i], folder_fd, name);
		if (r == 0)
			r = fs_sync(folder_fd, name);
		if (r < 0)
			return r;
	}
	r = fs_write_atomic(folder_fd, ID_FILE, id, strlen(id), 0644);
	if (r == 0)
		r = fs_sync(kept_fd, folder);
	return r < 0 ? r : fs_sync(kept_fd, NEW);
}

/* The new folder takes the old one's place, also where the file system cannot exchange two. */
static int show_set(int kept_fd)
{
	int r;

	if (renameat2(kept_fd, NEW, kept_fd, KEPT, RENAME_EXCHANGE) < 0) {
		if (errno != ENOENT && errno != EINVAL && errno != ENOSYS)
			return -errno;
		r = fs_remove_tree(kept_fd, KEPT);
		if (r < 0)
			return r;
		if (renameat(kept_fd, NEW, kept_fd, KEPT) < 0)
			return -errno;
	}
	return fs_sync(kept_fd, ".");
}

int modules_keep(
	const struct nic *nic, const struct strv *paths, const char *id, struct error *error)
{
	const char *folder = nic->inputs.journal_folder;
	int root_fd = nic->role.root_fd;
	_cleanup_close_ int kept_fd = -1;
	_cleanup_free_ char *kept_id = NULL;
	char id_path[128], new_folder[128];
	int r = fs_mkdir_parents(root_fd, folder, 0755);

	if (r == 0)
		kept_fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (kept_fd < 0)
		return error_set_errno(error, r < 0 ? r : -errno, "/%s", folder);
	(void) snprintf(id_path, sizeof(id_path), KEPT "/%s/" ID_FILE, nic->role.krel);
	if (fs_read_line(kept_fd, id_path, &kept_id) == 0 && strcmp(kept_id, id) == 0)
		return 0;
	(void) snprintf(new_folder, sizeof(new_folder), NEW "/%s", nic->role.krel);
	r = fs_remove_tree(kept_fd, NEW);
	if (r == 0)
		r = copy_set(root_fd, kept_fd, new_folder, paths, id);
	kill_point("swap:kept:copied");
	if (r == 0)
		r = show_set(kept_fd);
	kill_point("swap:kept:shown");
	if (fs_remove_tree(kept_fd, NEW) < 0 && r == 0)
		r = -EIO;
	return r < 0 ? error_set_errno(
			       error, r, "copies of the loaded modules in /%s/" KEPT, folder)
		     : 0;
}

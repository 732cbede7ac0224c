/* SPDX-License-Identifier: Apache-2.0 */
/* Module files, known by their build ids, and copies of them on the node. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/nic/nic_internal.h"

/* Deeper than any kernel's module tree. */
#define DEPTH_MAX 12

#define ID_FILE "set"

/* ---- files by build id */

void module_lookup_free(struct module_lookup *lookup)
{
	strv_free(&lookup->files);
	strv_free(&lookup->skipped);
	lookup->listed = false;
}

static int list_folder(struct module_lookup *lookup, const char *folder, int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(lookup->root_fd, folder, &names);

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
			r = list_folder(lookup, path, depth - 1);
	}
	return r;
}

/* The best place first. */
static int list_all(struct module_lookup *lookup)
{
	char host[PATH_MAX], image[PATH_MAX];
	int r = 0;

	if (lookup->listed)
		return 0;
	lookup->listed = true;
	(void) snprintf(host, sizeof(host), "%s/lib/modules/%s", lookup->host, lookup->krel);
	(void) snprintf(image, sizeof(image), "lib/modules/%s", lookup->krel);
	if (*lookup->host)
		r = list_folder(lookup, host, DEPTH_MAX);
	if (r == 0)
		r = list_folder(lookup, lookup->kept, 1);
	return r < 0 ? r : list_folder(lookup, image, DEPTH_MAX);
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return length && strncmp(path, folder, length) == 0 && path[length] == '/';
}

bool module_is_of_host(const struct module_lookup *lookup, const char *path)
{
	return is_below(path, lookup->host);
}

/* What others could have put there is not loaded, whatever build id it says it has. */
static bool is_trusted(struct module_lookup *lookup, const char *path)
{
	_cleanup_close_ int base_fd = -1;
	_cleanup_close_ int fd = -1;
	struct error why = { "" };

	if (!lookup->kept_in || !is_below(path, lookup->kept) || !is_below(path, lookup->kept_in))
		return true;
	base_fd = open_in_root(lookup->root_fd, lookup->kept_in, O_PATH | O_DIRECTORY);
	if (base_fd < 0)
		(void) error_set_errno(&why, base_fd, "/%s", lookup->kept_in);
	else
		fd = open_owned(base_fd, path + strlen(lookup->kept_in) + 1, O_RDONLY, &why);
	if (fd >= 0)
		return true;
	if (!lookup->action || strv_contains(&lookup->skipped, path))
		return false;
	(void) !strv_push(&lookup->skipped, path); /* else it is reported twice */
	nic_note(lookup->action, "a kept module is skipped: /%.300s, in it %.500s", path, why.text);
	return false;
}

/* @real: its path without links; those of the host's tree (weak-updates) lead there. */
static bool is_the_build(
	struct module_lookup *lookup, const char *path, const char *build_id, char real[PATH_MAX])
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	bool is_of_host = module_is_of_host(lookup, path);
	_cleanup_close_ int host_fd = -1;
	_cleanup_free_ char *below = NULL;
	char id[BUILD_ID_HEX_SIZE];
	struct error ignored;

	if (!is_trusted(lookup, path))
		return false;
	if (is_of_host)
		host_fd = openat(lookup->root_fd, lookup->host, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if ((is_of_host ? chase(host_fd, path + strlen(lookup->host) + 1, &below)
			: chase(lookup->root_fd, path, &below)) < 0)
		return false;
	if (snprintf(real, PATH_MAX, "%s%s%s", is_of_host ? lookup->host : "",
		    is_of_host ? "/" : "", below) >= PATH_MAX ||
		elf_module_open(lookup->root_fd, real, &file, &ignored) < 0)
		return false;
	elf_module_build_id(file, id);
	return strcmp(id, build_id) == 0;
}

int module_find(
	struct module_lookup *lookup, const char *name, const char *build_id, char **ret_path)
{
	int r = list_all(lookup);

	if (r < 0)
		return r;
	for (size_t i = 0; *build_id && i < lookup->files.count; i++) {
		char file_name[ELF_STRUCT_NAME_SIZE];
		char real[PATH_MAX];

		if (!module_name_of_file(lookup->files.items[i], file_name, sizeof(file_name)) ||
			strcmp(file_name, name) != 0 ||
			!is_the_build(lookup, lookup->files.items[i], build_id, real))
			continue;
		*ret_path = strdup(real);
		return *ret_path ? 0 : -ENOMEM;
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

static int copy_set(int root_fd, const char *folder, const struct strv *paths, const char *id)
{
	_cleanup_close_ int folder_fd = -1;
	int r = fs_mkdir_parents(root_fd, folder, 0755);

	if (r < 0)
		return r;
	folder_fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	return r < 0 ? r : fs_sync(root_fd, folder);
}

/* The new folder takes the old one's place, also where the file system cannot exchange two. */
static int exchange(int root_fd, const char *made, const char *folder)
{
	const char *slash = strrchr(folder, '/');
	char above[PATH_MAX];
	int r;

	if (renameat2(root_fd, made, root_fd, folder, RENAME_EXCHANGE) < 0) {
		if (errno != ENOENT && errno != EINVAL && errno != ENOSYS)
			return -errno;
		r = fs_remove_tree(root_fd, folder);
		if (r < 0)
			return r;
		if (renameat(root_fd, made, root_fd, folder) < 0)
			return -errno;
	}
	(void) snprintf(above, sizeof(above), "%.*s", slash ? (int) (slash - folder) : 1,
		slash ? folder : ".");
	return fs_sync(root_fd, above);
}

int modules_keep(int root_fd, const char *folder, const char *krel, const struct strv *paths,
	const char *id, struct error *error)
{
	_cleanup_free_ char *kept_id = NULL;
	char made[PATH_MAX], below[PATH_MAX], id_path[PATH_MAX];
	int r;

	(void) snprintf(id_path, sizeof(id_path), "%s/%s/" ID_FILE, folder, krel);
	if (fs_read_line(root_fd, id_path, &kept_id) == 0 && strcmp(kept_id, id) == 0)
		return 0;
	if (snprintf(made, sizeof(made), "%s.new", folder) >= (int) sizeof(made) ||
		snprintf(below, sizeof(below), "%s/%s", made, krel) >= (int) sizeof(below))
		return error_set_errno(error, -ENAMETOOLONG, "/%s", folder);
	r = fs_remove_tree(root_fd, made);
	if (r == 0)
		r = copy_set(root_fd, below, paths, id);
	if (r == 0)
		r = fs_sync(root_fd, made);
	kill_point("swap:kept:copied");
	if (r == 0)
		r = exchange(root_fd, made, folder);
	kill_point("swap:kept:shown");
	if (fs_remove_tree(root_fd, made) < 0 && r == 0)
		r = -EIO;
	return r < 0 ? error_set_errno(error, r, "copies of the loaded modules in /%s", folder) : 0;
}

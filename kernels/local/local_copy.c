/* SPDX-License-Identifier: Apache-2.0 */
/* Files that were selected: into a key, and into an output. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/local/local_files.h"

int local_files_hash(const struct local_files *files, struct hash *hash, struct error *error)
{
	for (size_t i = 0; i < files->count; i++) {
		const struct local_file *file = &files->items[i];
		int r = 0;

		hash_add_text(hash, file->to);
		hash_add_text(hash, file->link ? file->link : "");
		if (!file->link)
			r = hash_add_tree(hash, AT_FDCWD, file->from);
		if (r < 0)
			return error_set_errno(error, r, "%s", file->from);
	}
	return 0;
}

static int copy_one(const struct local_file *file, int folder_fd, bool apart)
{
	if (file->link)
		return symlinkat(file->link, folder_fd, file->to) < 0 ? -errno : 0;
	if (!apart && linkat(AT_FDCWD, file->from, folder_fd, file->to, 0) == 0)
		return 0;
	return copy_apart(AT_FDCWD, file->from, folder_fd, file->to);
}

int local_files_copy(
	const struct local_files *files, int folder_fd, bool apart, struct error *error)
{
	_cleanup_free_ char *made = strdup("");

	for (size_t i = 0; i < files->count; i++) {
		const struct local_file *file = &files->items[i];
		const char *slash = strrchr(file->to, '/');
		_cleanup_free_ char *parent =
			strndup(file->to, slash ? (size_t) (slash - file->to) : 0);
		int r = parent && made ? 0 : -ENOMEM;

		if (r == 0 && *parent && strcmp(parent, made) != 0) {
			r = fs_mkdir_parents(folder_fd, parent, 0755);
			free(made);
			made = TAKE_PTR(parent);
		}
		if (r == 0)
			r = copy_one(file, folder_fd, apart);
		if (r == -EEXIST) /* an earlier input has it */
			r = 0;
		if (r < 0)
			return error_set_errno(error, r, "%s", file->from);
	}
	return 0;
}

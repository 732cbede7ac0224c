/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local_files.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/copy.h"

int local_files_add(struct local_files *files, const char *from, const char *to, const char *link)
{
	struct local_file *file;

	if (files->count == files->capacity) {
		size_t capacity = files->capacity ? 2 * files->capacity : 1024;
		struct local_file *grown =
			reallocarray(files->items, capacity, sizeof(*files->items));

		if (!grown)
			return -ENOMEM;
		files->items = grown;
		files->capacity = capacity;
	}
	file = &files->items[files->count++];
	file->from = strdup(from);
	file->to = strdup(to);
	file->link = link ? strdup(link) : NULL;
	return file->from && file->to && (!link || file->link) ? 0 : -ENOMEM;
}

static void file_free(struct local_file *file)
{
	free(file->from);
	free(file->to);
	free(file->link);
}

void local_files_free(struct local_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		file_free(&files->items[i]);
	free(files->items);
	*files = (struct local_files){ 0 };
}

/* glibc's qsort() is stable only as long as it has memory: so the order of adding is asked too. */
struct ranked {
	struct local_file file;
	size_t rank;
};

static int compare(const void *a, const void *b)
{
	const struct ranked *left = a;
	const struct ranked *right = b;
	int order = strcmp(left->file.to, right->file.to);

	return order ? order : (left->rank > right->rank) - (left->rank < right->rank);
}

void local_files_sort(struct local_files *files)
{
	_cleanup_free_ struct ranked *ranked = calloc(files->count + 1, sizeof(*ranked));
	size_t kept = 0;

	if (!ranked)
		return;
	for (size_t i = 0; i < files->count; i++)
		ranked[i] = (struct ranked){ files->items[i], i };
	qsort(ranked, files->count, sizeof(*ranked), compare);
	for (size_t i = 0; i < files->count; i++) {
		if (kept && strcmp(files->items[kept - 1].to, ranked[i].file.to) == 0)
			file_free(&ranked[i].file);
		else
			files->items[kept++] = ranked[i].file;
	}
	files->count = kept;
}

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

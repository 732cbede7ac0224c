/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/local_files.h"

#include <string.h>

#include "kernels/archive/unpack.h"

int local_files_add(struct local_files *files, const char *from, const char *to, const char *link)
{
	struct local_file *file;

	if (unpack_leads_out(to))
		return -EXDEV;
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

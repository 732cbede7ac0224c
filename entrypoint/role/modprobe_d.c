/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/modprobe_d.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/strv.h"

#define FILE_LIMIT (1UL << 20)

static bool is_read(const char *name)
{
	return *name != '.' && (str_ends_with(name, ".conf") || str_ends_with(name, ".alias"));
}

static int read_file(
	int root_fd, const char *top, const char *path, modprobe_file_fn *each, void *data)
{
	_cleanup_free_ char *real = NULL;
	_cleanup_free_ char *text = NULL;
	int r = chase_in(root_fd, top, path + strlen(top), &real);

	if (r == 0)
		r = fs_read(root_fd, real, FILE_LIMIT, &text, NULL);
	return r == -ENOENT ? 0 : each(data, path, text, r);
}

int modprobe_d_read(int root_fd, const struct modprobe_folder *folders, size_t count,
	modprobe_file_fn *each, void *data)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	int r = 0;

	for (size_t f = 0; r == 0 && f < count; f++) {
		_cleanup_free_ char *real = NULL;

		if (chase_in(root_fd, folders[f].top, folders[f].path, &real) == -ENOMEM ||
			(real && fs_list(root_fd, real, &names) == -ENOMEM))
			return -ENOMEM;
		r = strv_push(&paths, real ? real : "");
	}
	strv_sort(&names);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		if (!is_read(names.items[i]) ||
			(i && strcmp(names.items[i - 1], names.items[i]) == 0))
			continue;
		for (size_t f = 0; f < count; f++) {
			char path[PATH_MAX];

			(void) snprintf(
				path, sizeof(path), "%s/%s", paths.items[f], names.items[i]);
			if (!*paths.items[f] || !fs_exists(root_fd, path))
				continue;
			r = read_file(root_fd, folders[f].top, path, each, data);
			break;
		}
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/role_list.h"

#include <string.h>
#include <unistd.h>

#include "common/fs.h"

#define LIST_PATH_SIZE 128

static void list_path(const struct role *role, const char *list, char path[LIST_PATH_SIZE])
{
	(void) snprintf(path, LIST_PATH_SIZE, "%s/%s.%s", role->state_folder, role->name, list);
}

int role_list_write(
	const struct role *role, const char *list, const struct strv *items, struct error *error)
{
	_cleanup_free_ char *text = strv_join(items, "\n");
	char path[LIST_PATH_SIZE];
	int r = -ENOMEM;

	list_path(role, list, path);
	if (text)
		r = fs_write_atomic(role->root_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path) : 0;
}

int role_list_read(const struct role *role, const char *list, struct strv *items)
{
	_cleanup_free_ char *text = NULL;
	char path[LIST_PATH_SIZE];
	int r;

	list_path(role, list, path);
	r = fs_read(role->root_fd, path, 0, &text, NULL);
	return r < 0 ? r : strv_split(items, text, "\n");
}

void role_list_remove(const struct role *role, const char *list)
{
	char path[LIST_PATH_SIZE];

	list_path(role, list, path);
	(void) unlinkat(role->root_fd, path, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/role_parameters.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/role_list.h"

int role_parameters_remember(const struct role *role, struct loader *loader, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };

	for (size_t i = 0; i < role->driver_modules.count; i++) {
		const char *module = role->driver_modules.items[i];
		_cleanup_free_ char *options = NULL;
		int r = loader_options(loader, module, &options, error);

		if (r < 0)
			return r;
		if (strv_pushf(&lines, "%s %s", module, options) < 0)
			return error_set_errno(error, -ENOMEM, "%s", module);
	}
	return role_list_write(role, ROLE_PARAMETERS_LIST, &lines, error);
}

const char *role_parameters_find(const struct strv *lines, const char *module)
{
	size_t length = strlen(module);

	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], module, length) == 0 && lines->items[i][length] == ' ')
			return lines->items[i] + length + 1;
	return NULL;
}

int role_parameters_changed(const struct role *role, struct loader *loader,
	const struct strv *present, struct worker *worker, bool *ret, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &lines);

	*ret = false;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set_errno(error, r, "list of parameters");
	for (size_t i = 0; i < present->count; i++) {
		const char *module = present->items[i];
		const char *then = role_parameters_find(&lines, module);
		_cleanup_free_ char *now = NULL;

		r = loader_options(loader, module, &now, error);
		if (r < 0)
			return r;
		if (!then || strcmp(then, now) == 0)
			continue;
		*ret = true;
		worker_report(worker, WORKER_NOTE, 0,
			"%s was loaded with \"%s\" and shall have \"%s\": it is loaded anew",
			module, then, now);
	}
	return 0;
}

void role_parameters_forget(const struct role *role)
{
	role_list_remove(role, ROLE_PARAMETERS_LIST);
}

int role_parameters_write(
	const struct role *role, const char *path, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = strv_push(lines, ""); /* the last line ends too */

	if (r == 0)
		text = strv_join(lines, "\n");
	r = text ? fs_mkdir_parents(role->root_fd, "etc/modprobe.d", 0755) : -ENOMEM;
	if (r == 0)
		r = fs_write_atomic(role->root_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", path) : 0;
}

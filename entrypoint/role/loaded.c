/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/loaded.h"

#include <string.h>

#include "common/fs.h"
#include "module/sysmodule.h"

static bool read_srcversion(int root_fd, const char *name, char **ret)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%.100s/srcversion", name);
	return fs_read_line(root_fd, path, ret) == 0 && **ret;
}

enum loaded loaded_compare(int root_fd, const char *name, const struct elf_module *file)
{
	const char *of_file = elf_module_info(file, "srcversion");
	_cleanup_free_ char *srcversion = NULL;
	char loaded_id[BUILD_ID_HEX_SIZE];
	char file_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(root_fd, name, loaded_id);
	elf_module_build_id(file, file_id);
	if (*loaded_id && *file_id)
		return strcmp(loaded_id, file_id) == 0 ? LOADED_SAME : LOADED_OTHER;
	if (read_srcversion(root_fd, name, &srcversion))
		return of_file && strcmp(srcversion, of_file) == 0 ? LOADED_SAME : LOADED_OTHER;
	return *loaded_id ? LOADED_OTHER : LOADED_UNKNOWN;
}

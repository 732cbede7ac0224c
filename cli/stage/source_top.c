/* SPDX-License-Identifier: Apache-2.0 */
/* Where a driver's source begins: what an archive is unpacked to has folders around it. */
#include <fcntl.h>
#include <sys/stat.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"

int source_find_top(const char *folder, char **ret_path, struct error *error)
{
	_cleanup_free_ char *path = xstrdup(folder);

	for (;;) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *below = NULL;
		struct stat status;
		int r = fs_list(AT_FDCWD, path, &names);

		if (r < 0)
			return error_set_errno(error, r, "%s", folder);
		if (names.count == 1)
			below = xasprintf("%s/%s", path, names.items[0]);
		if (!below || lstat(below, &status) < 0 || !S_ISDIR(status.st_mode)) {
			*ret_path = TAKE_PTR(path);
			return 0;
		}
		free(path);
		path = TAKE_PTR(below);
	}
}

int source_top(const struct build *build, enum driver driver, char **ret_path, struct error *error)
{
	const struct source *source = &build->sources[driver];

	if (source->form != SOURCE_TREE)
		return source_find_top(stage_output(build, STAGE_SOURCE, driver), ret_path, error);
	*ret_path = xstrdup(source->path);
	return 0;
}

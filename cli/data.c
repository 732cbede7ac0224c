/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/data.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"

static bool holds_data(const char *path)
{
	_cleanup_free_ char *recipes = NULL;

	return asprintf(&recipes, "%s/containers/recipes", path) >= 0 &&
	       fs_exists(AT_FDCWD, recipes);
}

static int program_folder(char **ret_path)
{
	_cleanup_free_ char *path = realpath("/proc/self/exe", NULL);
	char *slash = path ? strrchr(path, '/') : NULL;

	if (!slash)
		return path ? -EINVAL : -errno;
	*slash = '\0';
	*ret_path = TAKE_PTR(path);
	return 0;
}

int data_find(char **ret_path, struct error *error)
{
	const char *named = getenv("SLIPWAY_DATADIR");
	static const char *const places[] = { "../share/slipway", ".." };
	_cleanup_free_ char *folder = NULL;
	int r;

	if (named && *named) {
		*ret_path = holds_data(named) ? realpath(named, NULL) : NULL;
		return *ret_path
			       ? 0
			       : error_set(error, -ENOENT,
					 "SLIPWAY_DATADIR=%s: no containers/recipes there", named);
	}
	r = program_folder(&folder);
	if (r < 0)
		return error_set_errno(error, r, "/proc/self/exe");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *place = NULL;

		if (asprintf(&place, "%s/%s", folder, places[i]) < 0)
			return error_set_errno(error, -ENOMEM, "data folder");
		if (!holds_data(place))
			continue;
		*ret_path = realpath(place, NULL);
		if (*ret_path)
			return 0;
	}
	return error_set(error, -ENOENT,
		"no data folder: neither %s/../share/slipway nor the source tree above %s has "
		"containers/recipes; set SLIPWAY_DATADIR",
		folder, folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which Module.symvers tells of the running kernel, and which of drivers that are loaded. */
#include "common/fs.h"
#include "module/running_parts.h"

static int open_first(struct running *running, const struct strv *paths, struct error *error)
{
	for (size_t i = 0; i < paths->count; i++)
		if (fs_exists(running->root_fd, paths->items[i]))
			return symvers_open(
				running->root_fd, paths->items[i], &running->given, error);
	return 0;
}

static int default_paths(const struct running *running, struct strv *paths)
{
	static const char *const files[] = { "build/Module.symvers", "symvers.zst", "symvers.xz",
		"symvers.gz", "symvers" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = strv_pushf(paths, "lib/modules/%s/%s", running->krel, files[i]);
	return r;
}

static int read_drivers(struct running *running, struct error *error)
{
	const struct strv *paths = running->sources.driver_symvers;
	int r = 0;

	for (size_t i = 0; paths && r == 0 && i < paths->count; i++) {
		if (!fs_exists(running->root_fd, paths->items[i]))
			continue;
		if (running->drivers)
			r = symvers_add(running->drivers, running->root_fd, paths->items[i], error);
		else
			r = symvers_open(
				running->root_fd, paths->items[i], &running->drivers, error);
	}
	return r;
}

int running_read_whole(struct running *running, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };

	symvers_close(&running->given);
	running->given_is_part = false;
	if (running->sources.symvers)
		return open_first(running, running->sources.symvers, error);
	if (default_paths(running, &paths) < 0)
		return error_set_errno(error, -ENOMEM, "symbol versions");
	return open_first(running, &paths, error);
}

int running_read_symvers(struct running *running, struct error *error)
{
	const char *used = running->sources.used_symvers;
	int r;

	running->given_is_part =
		used && running->sources.module_count > 0 && fs_exists(running->root_fd, used);
	if (running->given_is_part)
		r = symvers_open(running->root_fd, used, &running->given, error);
	else
		r = running_read_whole(running, error);
	return r < 0 ? r : read_drivers(running, error);
}

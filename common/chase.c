/* SPDX-License-Identifier: Apache-2.0 */
#include "common/chase.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "common/strv.h"

#define LINKS_MAX 40 /* as the kernel's own path_resolution(7) */

struct way {
	struct strv done; /* components without links */
	char *rest;       /* what is still to be looked at */
	unsigned int links;
	bool beneath; /* nothing may even try to lead out */
};

static void way_free(struct way *way)
{
	strv_free(&way->done);
	free(way->rest);
}

/* Takes the first component off the rest; an empty one when there is none. */
static void next_component(char *rest, char component[NAME_MAX + 1])
{
	size_t skip = strspn(rest, "/");
	size_t length = strcspn(rest + skip, "/");
	size_t kept = length > NAME_MAX ? NAME_MAX : length;

	memcpy(component, rest + skip, kept);
	component[kept] = '\0';
	memmove(rest, rest + skip + length, strlen(rest + skip + length) + 1);
}

static int follow(struct way *way, const char *target)
{
	char *rest;

	if (++way->links > LINKS_MAX)
		return -ELOOP;
	if (way->beneath && *target == '/')
		return -EXDEV;
	if (asprintf(&rest, "%s/%s", target, way->rest) < 0)
		return -ENOMEM;
	free(way->rest);
	way->rest = rest;
	if (*target == '/')
		strv_free(&way->done);
	return 0;
}

static int step(struct way *way, int root_fd, const char *component)
{
	_cleanup_free_ char *path = NULL;
	char target[PATH_MAX];
	ssize_t length;
	int r;

	if (strcmp(component, ".") == 0)
		return 0;
	if (strcmp(component, "..") == 0) {
		if (way->beneath && way->done.count == 0)
			return -EXDEV;
		if (way->done.count)
			strv_remove(&way->done, way->done.count - 1);
		return 0;
	}
	r = strv_push(&way->done, component);
	path = r < 0 ? NULL : strv_join(&way->done, "/");
	if (!path)
		return -ENOMEM;
	length = readlinkat(root_fd, path, target, sizeof(target) - 1);
	if (length < 0)
		return errno == EINVAL ? 0 : -errno;
	target[length] = '\0';
	strv_remove(&way->done, way->done.count - 1);
	return follow(way, target);
}

static int chase_as(int root_fd, const char *path, bool beneath, char **ret_path)
{
	_cleanup_(way_free) struct way way = { .rest = strdup(path), .beneath = beneath };
	char component[NAME_MAX + 1];
	int r = 0;

	if (!way.rest)
		return -ENOMEM;
	if (beneath && *path == '/')
		return -EXDEV;
	for (;;) {
		next_component(way.rest, component);
		if (!*component)
			break;
		r = step(&way, root_fd, component);
		if (r < 0)
			return r;
	}
	*ret_path = way.done.count ? strv_join(&way.done, "/") : strdup(".");
	return *ret_path ? 0 : -ENOMEM;
}

int chase(int root_fd, const char *path, char **ret_path)
{
	return chase_as(root_fd, path, false, ret_path);
}

int chase_beneath(int dir_fd, const char *path, char **ret_path)
{
	return chase_as(dir_fd, path, true, ret_path);
}

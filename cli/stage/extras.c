/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/extras.h"

#include <fcntl.h>

#include "common/fs.h"

/* Of the userspace: packages of the same driver version, and "+NAME" of any, where there are such.
 */
static int read_userspace(const char *data, struct strv *names, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	int r;

	if (asprintf(&path, "%s/containers/recipes/userspace.packages", data) < 0)
		return error_set_errno(error, -ENOMEM, "userspace.packages");
	r = fs_read(AT_FDCWD, path, 0, &text, NULL);
	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++)
		if (*lines.items[i] != '#')
			r = strv_push(names, lines.items[i]);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int check(const struct catalogue *os, bool ofed, bool nvidia, struct error *error)
{
	if (ofed && !*os->image.linux_source_package)
		return error_set(error, -EINVAL,
			"--ofed reference: %s has no package of kernel source in its catalogue: name "
			"a tree or a tarball",
			os->os);
	if (nvidia && !*os->image.nvidia_package)
		return error_set(error, -EINVAL,
			"--nvidia debian: %s has no package of NVIDIA's modules in its catalogue: "
			"name a tree or a tarball",
			os->os);
	return 0;
}

static struct resolve_extra userspace_extra(const struct catalogue *os, const char *line)
{
	bool any = *line == '+';

	return (struct resolve_extra){
		.name = any ? line + 1 : line,
		.purpose = LOCK_NVIDIA_USERSPACE,
		.same_upstream_as = any ? NULL : os->image.nvidia_package,
		.optional = any,
	};
}

int extras_list(const char *data, const struct catalogue *os, bool ofed, bool nvidia,
	struct extras *ret, struct error *error)
{
	_cleanup_(extras_free) struct extras extras = { 0 };
	int r = check(os, ofed, nvidia, error);

	if (r == 0 && nvidia)
		r = read_userspace(data, &extras.names, error);
	if (r < 0)
		return r;
	extras.items = calloc(extras.names.count + 2, sizeof(*extras.items));
	if (!extras.items)
		return error_set_errno(error, -ENOMEM, "resolve");
	if (ofed)
		extras.items[extras.count++] =
			(struct resolve_extra){ .name = os->image.linux_source_package,
				.purpose = LOCK_OFED_SOURCE,
				.beside_kernel = true };
	if (nvidia)
		extras.items[extras.count++] =
			(struct resolve_extra){ .name = os->image.nvidia_package,
				.purpose = LOCK_NVIDIA_SOURCE };
	for (size_t i = 0; i < extras.names.count; i++)
		extras.items[extras.count++] = userspace_extra(os, extras.names.items[i]);
	*ret = extras;
	extras = (struct extras){ 0 };
	return 0;
}

void extras_free(struct extras *extras)
{
	free(extras->items);
	strv_free(&extras->names);
	*extras = (struct extras){ 0 };
}

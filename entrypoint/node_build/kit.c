/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/kit.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/image.h"

static void conf_path(const char *folder, char path[PATH_MAX])
{
	(void) snprintf(path, PATH_MAX, "%.4000s/kit.conf", folder);
}

bool kit_is_there(int root_fd, const char *folder)
{
	char path[PATH_MAX];

	conf_path(folder, path);
	return fs_exists(root_fd, path);
}

/* A copy says whose driver it is; else that is the image's. */
static void read_version(int root_fd, const char *text, struct kit *kit)
{
	struct image image;

	conf_value(text, "version", kit->version, sizeof(kit->version));
	if (*kit->version)
		return;
	image_read(root_fd, "", &image);
	(void) snprintf(kit->version, sizeof(kit->version), "%s", image.version);
}

int kit_read(int root_fd, const char *folder, struct kit *kit, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r;

	conf_path(folder, path);
	r = fs_read(root_fd, path, 65536, &text, NULL);
	if (r == -ENOENT)
		return error_set(error, r,
			"this image has no kit to compile with (/%s): slipway build "
			"--sources-image makes one that has",
			path);
	if (r < 0)
		return error_set_errno(error, r, "/%s", path);
	kit->folder = folder;
	conf_value(text, "id", kit->id, sizeof(kit->id));
	read_version(root_fd, text, kit);
	return *kit->id ? 0 : error_set(error, -EINVAL, "/%s names no id", path);
}

int kit_copy(int root_fd, const struct kit *kit, const char *folder)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r;

	if (asprintf(&text, "id=%s\nversion=%s\n", kit->id, kit->version) < 0)
		return -ENOMEM;
	r = copy_tree(root_fd, kit->folder, root_fd, folder);
	conf_path(folder, path);
	return r < 0 ? r : fs_write_atomic(root_fd, path, text, strlen(text), 0644);
}

/* "12" of CONFIG_GCC_VERSION=120200; 0 where there is no such line. */
static unsigned version_of(const char *config, const char *key)
{
	char value[32];

	conf_value(config, key, value, sizeof(value));
	return (unsigned) strtoul(value, NULL, 10) / 10000;
}

/* Before 4.18 the text of a configuration does not tell: 0. */
static unsigned wanted_major(const char *config, const char **family)
{
	char value[8];
	unsigned major;

	conf_value(config, "CONFIG_CC_IS_CLANG", value, sizeof(value));
	*family = *value == 'y' ? "clang" : "gcc";
	major = version_of(config, *value == 'y' ? "CONFIG_CLANG_VERSION" : "CONFIG_GCC_VERSION");
	return major;
}

/* The compilers "FAMILY-N" of the image; the one nearest to @major, the newer of two. */
static unsigned nearest_major(int root_fd, const char *family, unsigned major)
{
	_cleanup_strv_ struct strv names = { 0 };
	size_t length = strlen(family);
	unsigned best = 0;

	if (fs_list(root_fd, "usr/bin", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		char *end;
		unsigned found;

		if (strncmp(name, family, length) != 0 || name[length] != '-')
			continue;
		found = (unsigned) strtoul(name + length + 1, &end, 10);
		if (*end || !found)
			continue;
		if (!best || abs((int) (found - major)) < abs((int) (best - major)) ||
			(found > best && abs((int) (found - major)) == abs((int) (best - major))))
			best = found;
	}
	return best;
}

int kit_compiler(
	int root_fd, const char *config, char name[32], char note[256], struct error *error)
{
	const char *family;
	unsigned wanted = wanted_major(config, &family);
	unsigned found = nearest_major(root_fd, family, wanted);
	char path[64];

	note[0] = '\0';
	(void) snprintf(name, 32, "%s", family);
	if (found)
		(void) snprintf(name, 32, "%s-%u", family, found);
	(void) snprintf(path, sizeof(path), "usr/bin/%s", name);
	if (!fs_exists(root_fd, path))
		return error_set(error, -ENOENT,
			"the kernel was made with %s %u and the image has no %s: build the "
			"image with slipway build --sources-image --compiler %s-%u",
			family, wanted, family, family, wanted);
	if (wanted && found != wanted)
		(void) snprintf(note, 256,
			"the kernel was made with %s %u; the image has %s %u, which compiles as well "
			"unless the kernel uses plugins of its compiler",
			family, wanted, family, found);
	return 0;
}

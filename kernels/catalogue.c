/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/catalogue.h"

#include <fcntl.h>
#include <ini.h>
#include <string.h>

#include "common/fs.h"

static const struct {
	const char *key;
	size_t offset;
} keys[] = {
	{ "id", offsetof(struct catalogue, id) },
	{ "version_id", offsetof(struct catalogue, version_id) },
	{ "origin", offsetof(struct catalogue, origin) },
	{ "codename", offsetof(struct catalogue, codename) },
	{ "keyring", offsetof(struct catalogue, keyring) },
	{ "components", offsetof(struct catalogue, components) },
	{ "series", offsetof(struct catalogue, series) },
	{ "flavour", offsetof(struct catalogue, flavour) },
	{ "nvidia_package", offsetof(struct catalogue, nvidia_package) },
	{ "linux_source_package", offsetof(struct catalogue, linux_source_package) },
};

static char **field(struct catalogue *catalogue, size_t offset)
{
	return (char **) (void *) ((char *) catalogue + offset);
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct catalogue *catalogue = user;

	(void) section;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char **slot = field(catalogue, keys[i].offset);

		if (strcmp(name, keys[i].key) != 0)
			continue;
		free(*slot);
		*slot = strdup(value);
		return *slot != NULL;
	}
	return 0;
}

static int unknown_os(const char *folder, const char *os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *known = NULL;

	if (fs_list(AT_FDCWD, folder, &names) < 0)
		return error_set(error, -ENOENT, "%s: no catalogue of distributions there", folder);
	for (size_t i = 0; i < names.count; i++) {
		char *suffix = strstr(names.items[i], ".ini");

		if (suffix)
			*suffix = '\0';
	}
	known = strv_join(&names, ", ");
	return error_set(error, -ENODATA, "--os %s: not known; known are: %s", os,
		known ? known : "(out of memory)");
}

static int check_complete(const struct catalogue *catalogue, const char *path, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *value =
			*(char *const *) (const void *) ((const char *) catalogue + keys[i].offset);

		if (!value)
			return error_set(error, -EINVAL, "%s: %s is missing", path, keys[i].key);
	}
	return 0;
}

int catalogue_open(const char *folder, const char *os, struct catalogue *ret, struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	_cleanup_free_ char *path = NULL;
	int line;
	int r;

	if (strchr(os, '/') || *os == '.')
		return unknown_os(folder, os, error);
	if (asprintf(&path, "%s/%s.ini", folder, os) < 0)
		return error_set_errno(error, -ENOMEM, "%s", os);
	if (!fs_exists(AT_FDCWD, path))
		return unknown_os(folder, os, error);
	line = ini_parse(path, on_key, &catalogue);
	if (line)
		return error_set(error, -EINVAL, "%s:%d: unknown key or broken line", path, line);
	r = check_complete(&catalogue, path, error);
	if (r < 0)
		return r;
	catalogue.os = strdup(os);
	if (!catalogue.os)
		return error_set_errno(error, -ENOMEM, "%s", os);
	*ret = catalogue;
	catalogue = (struct catalogue){ 0 };
	return 0;
}

void catalogue_free(struct catalogue *catalogue)
{
	free(catalogue->os);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		free(*field(catalogue, keys[i].offset));
	*catalogue = (struct catalogue){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/source.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

int source_identify(const char *option, const char *text, const char *package_word,
	struct source *ret, struct error *error)
{
	struct source source = { .kind = SOURCE_PACKAGE };
	struct stat status;

	if (package_word && strcmp(text, package_word) == 0) {
		*ret = source;
		return 0;
	}
	if (stat(text, &status) < 0)
		return error_set(error, -EINVAL, "%s %s: %s: name a source tree%s%s%s", option,
			text, strerror(errno),
			package_word ? ", a tarball or the word \"" : " or a tarball",
			package_word ? package_word : "", package_word ? "\"" : "");
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		return error_set(
			error, -EINVAL, "%s %s: neither a folder nor a file", option, text);
	source.kind = S_ISDIR(status.st_mode) ? SOURCE_TREE : SOURCE_ARCHIVE;
	source.path = realpath(text, NULL);
	if (!source.path)
		return error_set_errno(error, -errno, "%s %s", option, text);
	*ret = source;
	return 0;
}

void source_free(struct source *source)
{
	free(source->path);
	*source = (struct source){ 0 };
}

int source_add_content(const struct source *source, struct hash *hash, struct error *error)
{
	int r = hash_add_tree(hash, AT_FDCWD, source->path);

	return r < 0 ? error_set_errno(error, r, "%s", source->path) : 0;
}

int source_find_top(const char *folder, char **ret_path)
{
	_cleanup_free_ char *path = strdup(folder);

	for (;;) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *below = NULL;
		struct stat status;
		int r = path ? fs_list(AT_FDCWD, path, &names) : -ENOMEM;

		if (r < 0)
			return r;
		if (names.count != 1)
			break;
		if (asprintf(&below, "%s/%s", path, names.items[0]) < 0)
			return -ENOMEM;
		if (lstat(below, &status) < 0 || !S_ISDIR(status.st_mode))
			break;
		free(path);
		path = TAKE_PTR(below);
	}
	*ret_path = TAKE_PTR(path);
	return 0;
}

/* Only exact names count: on a case-folding file system "makefile" answers for "Makefile" too. */
static bool has_name(const struct strv *names, const char *name)
{
	return strv_contains(names, name);
}

int source_check_ofed(const char *path, struct error *error)
{
	static const char *const makefiles[] = { "makefile", "Makefile" };
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, path, &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (!has_name(&names, "configure") && !has_name(&names, "ofed_scripts"))
		return error_set(error, -EINVAL,
			"%s: no OFED kernel source: it has no configure at its top (an "
			"mlnx-ofed-kernel tree is wanted)",
			path);
	for (size_t i = 0; i < ARRAY_SIZE(makefiles); i++)
		if (!has_name(&names, makefiles[i]))
			return error_set(error, -EINVAL,
				"%s: its %s is missing. The tree needs both \"makefile\" (targets) "
				"and \"Makefile\" (kbuild): a file system that folds case keeps "
				"only one of them; unpack it on another",
				path, makefiles[i]);
	return 0;
}

int source_check_nvidia(const char *path, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, path, &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (has_name(&names, "kernel-open") ||
		(has_name(&names, "Kbuild") && has_name(&names, "nvidia")))
		return 0;
	return error_set(error, -EINVAL,
		"%s: no source of NVIDIA's open kernel modules: it has neither kernel-open/ nor "
		"Kbuild and nvidia/ at its top",
		path);
}

int source_nvidia_version(const char *path, char **ret_version, struct error *error)
{
	static const char *const places[] = { "kernel-open/Kbuild", "Kbuild" };
	static const char name[] = "NV_VERSION_STRING=\\\"";

	*ret_version = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(places) && !*ret_version; i++) {
		_cleanup_free_ char *file = NULL;
		_cleanup_free_ char *text = NULL;
		const char *found;
		int r;

		if (asprintf(&file, "%s/%s", path, places[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", path);
		r = fs_read(AT_FDCWD, file, 0, &text, NULL);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return error_set_errno(error, r, "%s", file);
		found = strstr(text, name);
		if (!found)
			continue;
		found += strlen(name);
		*ret_version = strndup(found, strspn(found, "0123456789."));
		if (!*ret_version)
			return error_set_errno(error, -ENOMEM, "%s", file);
	}
	return 0;
}

static int check_file(const char *path, const char *file, const char *what, struct error *error)
{
	_cleanup_free_ char *full = NULL;

	if (asprintf(&full, "%s/%s", path, file) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	return fs_exists(AT_FDCWD, full)
		       ? 0
		       : error_set(error, -EINVAL, "%s: no source of %s: it has no %s", path, what,
				 file);
}

int source_check_gdrcopy(const char *path, struct error *error)
{
	return check_file(path, "src/gdrdrv/gdrdrv.c", "GDRCopy", error);
}

int source_check_nvidia_fs(const char *path, struct error *error)
{
	return check_file(path, "src/nvfs-core.c", "nvidia-fs", error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/strv.h"

static const char debian_include[] = "include /usr/src/";

static int open_build(int root_fd, const char *krel, int *ret_fd, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	if (asprintf(&path, "lib/modules/%s/build", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno,
			"kernel tree: %s (the headers package should have brought it)", path);
	*ret_fd = fd;
	return 0;
}

int kernel_tree_relocate(int root_fd, const char *krel, struct error *error)
{
	_cleanup_close_ int build_fd = -1;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *moved = NULL;
	const char *found;
	int r = open_build(root_fd, krel, &build_fd, error);

	if (r < 0)
		return r;
	r = fs_read(build_fd, "Makefile", 0, &text, NULL);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: Makefile");
	found = strstr(text, debian_include);
	if (!found || (found != text && found[-1] != '\n'))
		return 0;
	if (asprintf(&moved, "%.*sinclude $(dir $(lastword $(MAKEFILE_LIST)))../%s",
		    (int) (found - text), text, found + strlen(debian_include)) < 0)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	r = fs_write_atomic(build_fd, "Makefile", moved, strlen(moved), 0644);
	return r < 0 ? error_set_errno(error, r, "kernel tree: Makefile") : 0;
}

/* The value of a CONFIG_ line, without quotes; NULL when it is not set. */
static char *config_value(const char *config, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = config; line && *line; line = strchr(line, '\n')) {
		const char *value;
		size_t size;

		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || line[length] != '=')
			continue;
		value = line + length + 1;
		size = strcspn(value, "\n");
		if (size >= 2 && value[0] == '"') {
			value++;
			size -= 2;
		}
		return strndup(value, size);
	}
	return NULL;
}

static bool config_is_set(const char *config, const char *key)
{
	_cleanup_free_ char *value = config_value(config, key);

	return value && strcmp(value, "y") == 0;
}

/* CONFIG_GCC_VERSION=120200 is gcc-12, CONFIG_CLANG_VERSION=160006 is clang-16. */
static int compiler_of(const char *config, char **ret_compiler, struct error *error)
{
	bool clang = config_is_set(config, "CONFIG_CC_IS_CLANG");
	const char *key = clang ? "CONFIG_CLANG_VERSION" : "CONFIG_GCC_VERSION";
	_cleanup_free_ char *value = config_value(config, key);
	long version = value ? strtol(value, NULL, 10) : 0;

	if (version < 10000)
		return error_set(error, -EINVAL,
			"kernel tree: its .config has no %s: which compiler the kernel was built "
			"with cannot be told",
			key);
	if (asprintf(ret_compiler, "%s-%ld", clang ? "clang" : "gcc", version / 10000) < 0)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	return 0;
}

/* The release that modules get. Debian's include/config/kernel.release holds another one. */
static char *release_of(int build_fd)
{
	static const char define[] = "#define UTS_RELEASE \"";
	_cleanup_free_ char *text = NULL;
	const char *found;

	if (fs_read(build_fd, "include/generated/utsrelease.h", 0, &text, NULL) < 0)
		return NULL;
	found = strstr(text, define);
	if (!found)
		return NULL;
	found += strlen(define);
	return strndup(found, strcspn(found, "\"\n"));
}

static int check_release(int build_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *release = release_of(build_fd);

	if (!release)
		return error_set(error, -EINVAL,
			"kernel tree: no include/generated/utsrelease.h: it is not prepared for "
			"compiling modules");
	if (strcmp(release, krel) != 0)
		return error_set(error, -EINVAL, "kernel tree: it is of kernel %s, not of %s",
			release, krel);
	if (!fs_exists(build_fd, "Module.symvers"))
		return error_set(error, -EINVAL,
			"kernel tree: no Module.symvers: symbol versions cannot be checked");
	return 0;
}

int kernel_tree_read(int root_fd, const char *krel, struct kernel_tree *ret, struct error *error)
{
	_cleanup_(kernel_tree_free) struct kernel_tree tree = { 0 };
	_cleanup_close_ int build_fd = -1;
	_cleanup_free_ char *config = NULL;
	int r = open_build(root_fd, krel, &build_fd, error);

	if (r == 0)
		r = check_release(build_fd, krel, error);
	if (r < 0)
		return r;
	r = fs_read(build_fd, ".config", 0, &config, NULL);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree: .config");
	r = compiler_of(config, &tree.compiler, error);
	if (r < 0)
		return r;
	tree.krel = strdup(krel);
	tree.compiler_text = config_value(config, "CONFIG_CC_VERSION_TEXT");
	if (!tree.compiler_text)
		tree.compiler_text = strdup("");
	if (!tree.krel || !tree.compiler_text)
		return error_set_errno(error, -ENOMEM, "kernel tree");
	tree.modversions = config_is_set(config, "CONFIG_MODVERSIONS");
	tree.module_unload = config_is_set(config, "CONFIG_MODULE_UNLOAD");
	*ret = tree;
	tree = (struct kernel_tree){ 0 };
	return 0;
}

void kernel_tree_free(struct kernel_tree *tree)
{
	free(tree->krel);
	free(tree->compiler);
	free(tree->compiler_text);
	*tree = (struct kernel_tree){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/host_tree.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/path.h"
#include "common/hash.h"
#include "common/fs.h"
#include "entrypoint/node_build/host_package.h"

#define SOURCES_FOLDER "usr/src"

void host_tree_free(struct host_tree *tree)
{
	free(tree->build);
	free(tree->source);
	strv_free(&tree->folders);
	strv_free(&tree->links);
	*tree = (struct host_tree){ 0 };
}

uint64_t host_file_hash(int dir_fd, const char *path)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	uint64_t hash = FNV64_START;
	unsigned char buffer[65536];
	ssize_t size;

	if (fd < 0)
		return 0;
	while ((size = read(fd, buffer, sizeof(buffer))) > 0)
		hash = fnv64_bytes(hash, buffer, (size_t) size);
	return hash;
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static bool is_covered(const struct host_tree *tree, const char *path)
{
	for (size_t i = 0; i < tree->folders.count; i++)
		if (is_below(path, tree->folders.items[i]))
			return true;
	return false;
}

static int add_folder(struct host_tree *tree, const char *path)
{
	return is_covered(tree, path) ? 0 : strv_push(&tree->folders, path);
}

static int add_link(int host_fd, struct host_tree *tree, const char *path)
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(host_fd, path, target, sizeof(target) - 1);

	if (size < 0)
		return 0;
	target[size] = '\0';
	return strv_pushf(&tree->links, "%s %s", path, target);
}

/* Headers refer to their neighbours below usr/src: all of them, but for what a recipe makes. */
static int add_neighbours(int host_fd, struct host_tree *tree)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(host_fd, SOURCES_FOLDER, &names);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < names.count && r == 0; i++) {
		char path[PATH_MAX];
		struct stat status;

		(void) snprintf(path, sizeof(path), SOURCES_FOLDER "/%s", names.items[i]);
		if (strchr(path, ' ') || is_below(path, SOURCES_FOLDER "/ofa_kernel") ||
			fstatat(host_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(status.st_mode))
			r = add_folder(tree, path);
		else if (S_ISLNK(status.st_mode))
			r = add_link(host_fd, tree, path);
	}
	return r;
}

/* Where the links at the top of a tree lead, such as Debian's scripts and tools. */
static int add_link_targets(int host_fd, struct host_tree *tree, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(host_fd, folder, &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *target = NULL;
		char path[PATH_MAX];
		struct stat status;

		(void) snprintf(path, sizeof(path), "%s/%s", folder, names.items[i]);
		if (fstatat(host_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISLNK(status.st_mode) || chase(host_fd, path, &target) < 0)
			continue;
		if (fstatat(host_fd, target, &status, 0) == 0 && S_ISDIR(status.st_mode))
			r = add_folder(tree, target);
	}
	return r;
}

/* Where the host's own link leads, when that is nowhere: a folder that this container lacks? */
static void describe_link(int host_fd, const char *krel, char *text, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t length;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/build", krel);
	length = readlinkat(host_fd, path, target, sizeof(target) - 1);
	if (length < 0) {
		(void) snprintf(text, size, "there is no /%.200s", path);
		return;
	}
	target[length] = '\0';
	(void) snprintf(text, size, "/%.120s leads to %.200s, which is not there%s", path, target,
		*target == '/' && !is_below(target, "/usr") && !is_below(target, "/lib")
			? " or not mounted into this container"
			: "");
}

static int no_build(int host_fd, const char *krel, struct error *error)
{
	char link[512], package[384];

	describe_link(host_fd, krel, link, sizeof(link));
	host_package_name(host_fd, krel, package, sizeof(package));
	return error_set(error, -ENOENT,
		"the host has no headers of the kernel %s: %s. Install %s on the host, or use an "
		"image that was built for this kernel",
		krel, link, package);
}

/*
 * What the host's modules folder leads to, or where distributions put headers by themselves. Where
 * only the host's /usr is seen, its modules are below that.
 */
static int find_build(int host_fd, const char *krel, struct host_tree *tree, struct error *error)
{
	static const char *const places[] = { "lib/modules/%s/build", "usr/lib/modules/%s/build",
		"usr/src/linux-headers-%s", "usr/src/kernels/%s" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char path[PATH_MAX];
		int r;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void) snprintf(path, sizeof(path), places[i], krel);
#pragma GCC diagnostic pop
		r = chase(host_fd, path, &tree->build);
		if (r == 0)
			return 0;
		if (r == -ENOMEM)
			return error_set_errno(error, r, "%s", path);
	}
	return no_build(host_fd, krel, error);
}

static int find_source(int host_fd, const char *krel, struct host_tree *tree)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/source", krel);
	if (chase(host_fd, path, &tree->source) == 0)
		return 0;
	(void) snprintf(path, sizeof(path), "%s/source", tree->build);
	if (chase(host_fd, path, &tree->source) == 0)
		return 0;
	tree->source = strdup(tree->build);
	return tree->source ? 0 : -ENOMEM;
}

/* UTS_RELEASE is what modules get as their kernel's name. */
static int check_tree(
	int host_fd, const char *krel, const struct host_tree *tree, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	char wanted[128];

	(void) snprintf(path, sizeof(path), "%s/Module.symvers", tree->build);
	if (!fs_exists(host_fd, path))
		return error_set(error, -EINVAL,
			"the host's /%s is missing: the headers are not those of a kernel that was "
			"built to its end; install the headers package of %s again",
			path, krel);
	(void) snprintf(path, sizeof(path), "%s/include/generated/utsrelease.h", tree->build);
	(void) snprintf(wanted, sizeof(wanted), "#define UTS_RELEASE \"%s\"", krel);
	if (fs_read(host_fd, path, 65536, &text, NULL) < 0 || !strstr(text, wanted))
		return error_set(error, -EINVAL,
			"the host's /%s does not say %s: the headers are not prepared, or of another "
			"kernel",
			path, krel);
	return 0;
}

int host_tree_find(int host_fd, const char *krel, struct host_tree *ret, struct error *error)
{
	_cleanup_(host_tree_free) struct host_tree tree = { 0 };
	int r = find_build(host_fd, krel, &tree, error);

	if (r < 0)
		return r;
	r = find_source(host_fd, krel, &tree);
	if (r == 0)
		r = add_neighbours(host_fd, &tree);
	if (r == 0)
		r = add_folder(&tree, tree.build);
	if (r == 0)
		r = add_folder(&tree, tree.source);
	if (r == 0)
		r = add_link_targets(host_fd, &tree, tree.build);
	if (r == 0)
		r = add_link_targets(host_fd, &tree, tree.source);
	if (r < 0)
		return error_set_errno(error, r, "headers of the host");
	r = check_tree(host_fd, krel, &tree, error);
	if (r < 0)
		return r;
	*ret = tree;
	tree = (struct host_tree){ 0 };
	return 0;
}

int host_tree_config(
	int host_fd, const struct host_tree *tree, char **ret_text, struct error *error)
{
	static const char *const places[] = { ".config", "include/config/auto.conf" };
	char path[PATH_MAX];
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r < 0; i++) {
		(void) snprintf(path, sizeof(path), "%s/%s", tree->build, places[i]);
		r = fs_read(host_fd, path, 0, ret_text, NULL);
	}
	return r < 0 ? error_set_errno(error, r, "the host's /%s", path) : 0;
}

int host_tree_identity(int host_fd, const struct host_tree *tree, struct strv *lines)
{
	static const char *const files[] = { "Module.symvers", ".config",
		"include/generated/utsrelease.h", "include/generated/utsversion.h",
		"include/generated/compile.h", "include/generated/autoconf.h" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0; i++) {
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", tree->build, files[i]);
		r = strv_pushf(lines, "%s=%016" PRIx64, files[i], host_file_hash(host_fd, path));
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "kernels/tree/tree.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "module/kernel_config.h"

#define SOURCES_FOLDER "usr/src"

void headers_close(struct headers *headers)
{
	cleanup_close(&headers->root_fd);
	free(headers->build);
	free(headers->source);
	strv_free(&headers->folders);
	strv_free(&headers->links);
	*headers = (struct headers) HEADERS_NONE;
}

/* ---- what a build needs to see of them */

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static void add_folder(struct headers *headers, const char *path)
{
	for (size_t i = 0; i < headers->folders.count; i++)
		if (is_below(path, headers->folders.items[i]))
			return;
	xstrv_push(&headers->folders, path);
}

/* Headers refer to their neighbours below usr/src: all of them, but for what a recipe makes. */
static void add_neighbours(struct headers *headers)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(headers->root_fd, SOURCES_FOLDER, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf(SOURCES_FOLDER "/%s", names.items[i]);
		char target[PATH_MAX];
		struct stat status;
		ssize_t size;

		if (strchr(path, ' ') || is_below(path, SOURCES_FOLDER "/ofa_kernel") ||
			fstatat(headers->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(status.st_mode)) {
			add_folder(headers, path);
		} else if (S_ISLNK(status.st_mode)) {
			size = readlinkat(headers->root_fd, path, target, sizeof(target) - 1);
			if (size >= 0)
				xstrv_pushf(&headers->links, "%s %.*s", path, (int) size, target);
		}
	}
}

/* Adds the targets of links at the top of a tree, such as Debian's scripts and tools. */
static void add_link_targets(struct headers *headers, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(headers->root_fd, folder, &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, names.items[i]);
		_cleanup_free_ char *target = NULL;
		struct stat status;

		if (fstatat(headers->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISLNK(status.st_mode) || chase(headers->root_fd, path, &target) < 0)
			continue;
		if (fstatat(headers->root_fd, target, &status, 0) == 0 && S_ISDIR(status.st_mode))
			add_folder(headers, target);
	}
}

/* ---- where they are */

/*
 * Reports missing headers, and the dangling target of the host's own link: a folder that this
 * container may lack.
 */
static int no_headers(int root_fd, const char *krel, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/build", krel);
	_cleanup_free_ char *package = headers_package(root_fd, krel);
	_cleanup_free_ char *link = NULL;
	char target[PATH_MAX] = "";

	if (readlinkat(root_fd, path, target, sizeof(target) - 1) < 0)
		link = xasprintf("there is no /%s", path);
	else
		link = xasprintf("/%s leads to %.200s, which does not exist%s", path, target,
			*target == '/' && !is_below(target, "/usr") && !is_below(target, "/lib")
				? " or is not mounted into this container"
				: "");
	return error_set(error, -ENOENT,
		"the host has no headers for kernel %s: %s. Install %s on the host, or use an "
		"image that was built for this kernel",
		krel, link, package);
}

/*
 * Follows the link in the host's modules folder, or searches where distributions put headers. If
 * only the host's /usr is visible, its modules are below that.
 */
static int find_build(struct headers *headers, const char *krel, struct error *error)
{
	static const char *const places[][2] = { { "lib/modules/", "/build" },
		{ "usr/lib/modules/", "/build" }, { "usr/src/linux-headers-", "" },
		{ "usr/src/kernels/", "" } };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *path = xasprintf("%s%s%s", places[i][0], krel, places[i][1]);

		if (chase(headers->root_fd, path, &headers->build) == 0)
			return 0;
	}
	return no_headers(headers->root_fd, krel, error);
}

static void find_source(struct headers *headers, const char *krel)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s/source", krel);
	_cleanup_free_ char *below = xasprintf("%s/source", headers->build);

	if (chase(headers->root_fd, path, &headers->source) < 0 &&
		chase(headers->root_fd, below, &headers->source) < 0)
		headers->source = xstrdup(headers->build);
}

/* UTS_RELEASE is what modules get as their kernel's name. */
static int check(const struct headers *headers, const char *krel, struct error *error)
{
	_cleanup_free_ char *symvers = xasprintf("%s/Module.symvers", headers->build);
	_cleanup_close_ int build_fd =
		openat(headers->root_fd, headers->build, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *release = kernel_tree_release(build_fd);

	if (!fs_exists(headers->root_fd, symvers))
		return error_set(error, -EINVAL,
			"the host's /%s is missing: the headers are incomplete; reinstall the "
			"headers package of %s",
			symvers, krel);
	if (!release || strcmp(release, krel) != 0)
		return error_set(error, -EINVAL,
			"the host's /%s/" KERNEL_TREE_RELEASE_HEADER
			" does not name %s: the headers are not prepared or belong to another "
			"kernel",
			headers->build, krel);
	return 0;
}

int headers_open(int root_fd, const char *krel, struct headers *ret, struct error *error)
{
	_cleanup_(headers_close) struct headers headers = {
		.root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0),
	};
	int r;

	if (headers.root_fd < 0)
		return error_set_errno(error, -errno, "headers");
	r = find_build(&headers, krel, error);
	if (r < 0)
		return r;
	find_source(&headers, krel);
	add_neighbours(&headers);
	add_folder(&headers, headers.build);
	add_folder(&headers, headers.source);
	add_link_targets(&headers, headers.build);
	add_link_targets(&headers, headers.source);
	r = check(&headers, krel, error);
	if (r < 0)
		return r;
	*ret = headers;
	headers = (struct headers) HEADERS_NONE;
	return 0;
}

int headers_config(const struct headers *headers, char **ret_text, struct error *error)
{
	char path[PATH_MAX];
	int r = -ENOENT;

	for (size_t i = 0; kernel_config_in_build[i]; i++) {
		(void) snprintf(
			path, sizeof(path), "%s/%s", headers->build, kernel_config_in_build[i]);
		r = fs_read(headers->root_fd, path, 0, ret_text, NULL);
		if (r == 0)
			return 0;
	}
	return error_set_errno(error, r, "the host's /%s", path);
}

void headers_identity(const struct headers *headers, struct strv *lines)
{
	static const char *const files[] = { "Module.symvers", ".config",
		"include/generated/utsrelease.h", "include/generated/utsversion.h",
		"include/generated/compile.h", "include/generated/autoconf.h" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", headers->build, files[i]);

		xstrv_pushf(lines, "%s=%016" PRIx64, files[i],
			node_cache_file_hash(headers->root_fd, path));
	}
}

/* ---- what their package is called */

char *host_os_release(int host_fd)
{
	_cleanup_free_ char *path = NULL;
	char *text = NULL;

	return chase(host_fd, "etc/os-release", &path) < 0 ||
			       fs_read(host_fd, path, 65536, &text, NULL) < 0
		       ? NULL
		       : text;
}

char *headers_package(int host_fd, const char *krel)
{
	const char *flavour = strrchr(krel, '-');
	/* Red Hat's variants are at the end of the release, "+rt", and in the middle of the
	 * package. */
	const char *plus = strchr(krel, '+');
	_cleanup_free_ char *os = host_os_release(host_fd);
	_cleanup_free_ char *id = os ? os_release_value(os, "ID") : NULL;
	_cleanup_free_ char *like = os ? os_release_value(os, "ID_LIKE") : NULL;
	_cleanup_strv_ struct strv family = { 0 };

	xstrv_split(&family, id ? id : "", " ");
	xstrv_split(&family, like ? like : "", " ");
	if (strv_contains(&family, "debian") || strv_contains(&family, "ubuntu"))
		return xasprintf("the package linux-headers-%s (apt-get install)", krel);
	if (strv_contains(&family, "rhel") || strv_contains(&family, "fedora") ||
		strv_contains(&family, "centos"))
		return xasprintf("the package kernel-%s%sdevel-%.*s (dnf install)",
			plus ? plus + 1 : "", plus ? "-" : "", (int) strcspn(krel, "+"), krel);
	if ((strv_contains(&family, "suse") || strv_contains(&family, "sles")) && flavour)
		return xasprintf("the package kernel-%s-devel of version %.*s (zypper install)",
			flavour + 1, (int) (flavour - krel), krel);
	return xasprintf(
		"the headers of exactly that release (Debian, Ubuntu: linux-headers-%s; RHEL, "
		"Rocky: kernel-devel-%s; SUSE: kernel-default-devel)",
		krel, krel);
}

/* ---- which build of the kernel they are of */

void kernel_builds_read(int root_fd, const char *krel, struct kernel_builds *ret)
{
	_cleanup_free_ char *version = NULL;
	_cleanup_close_ int build_fd = -1;
	struct error ignored;
	struct utsname system;

	*ret = (struct kernel_builds){ .running = "" };
	(void) uname(&system);
	if (strcmp(system.release, krel) == 0)
		(void) snprintf(ret->running, sizeof(ret->running), "%s", system.version);
	if (kernel_tree_open(root_fd, krel, &build_fd, &ignored) == 0)
		version = kernel_tree_version(build_fd);
	(void) snprintf(ret->headers, sizeof(ret->headers), "%s", version ? version : "");
}

bool kernel_builds_differ(int root_fd, const char *krel, struct kernel_builds *ret)
{
	kernel_builds_read(root_fd, krel, ret);
	return *ret->running && *ret->headers && strcmp(ret->running, ret->headers) != 0;
}

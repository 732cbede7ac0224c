/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a tree that lies there unpacked. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/tree/record_parts.h"
#include "kernels/tree/tree.h"

static int set(char **string, const char *value)
{
	free(*string);
	*string = strdup(value);
	return *string ? 0 : -ENOMEM;
}

/*
 * Finds the configuration: the tree's own, what kbuild made of it (headers packages that leave
 * .config out have that), or what the kernel's package brought. -ENOENT when none is there.
 */
static int find_config(
	int root_fd, const char *krel, struct kconfig **ret, char **ret_path, struct error *error)
{
	static const struct {
		const char *before;
		const char *after;
	} places[] = {
		{ "lib/modules/", "/build/.config" },
		{ "lib/modules/", "/build/include/config/auto.conf" },
		{ "lib/modules/", "/config" },
		{ "boot/config-", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_close_ int fd = -1;
		_cleanup_free_ char *below = NULL;
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", places[i].before, krel, places[i].after) < 0)
			return error_set_errno(error, -ENOMEM, "%s", krel);
		fd = kernel_tree_openat(root_fd, path, O_RDONLY);
		below = fd < 0 ? NULL : kernel_tree_path(root_fd, fd);
		if (!below)
			continue;
		*ret_path = TAKE_PTR(path);
		return kconfig_read(root_fd, below, ret, error);
	}
	return -ENOENT;
}

/* LINUX_COMPILER of compile.h: kernels before 4.18 have no CONFIG_CC_VERSION_TEXT. */
static char *compile_header_text(int build_fd)
{
	static const char define[] = "#define LINUX_COMPILER \"";
	_cleanup_free_ char *text = NULL;
	const char *found;

	if (fs_read(build_fd, "include/generated/compile.h", 1 << 16, &text, NULL) < 0)
		return NULL;
	found = strstr(text, define);
	if (!found)
		return NULL;
	found += sizeof(define) - 1;
	return strndup(found, strcspn(found, "\"\n"));
}

static bool has_randseed(int root_fd, const char *krel, int build_fd)
{
	static const char *const files[] = {
		"scripts/basic/randstruct.seed",
		"scripts/gcc-plugins/randomize_layout_seed.h",
	};
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int source_fd = -1;

	if (asprintf(&path, "lib/modules/%s/source", krel) < 0)
		return false;
	source_fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (faccessat(build_fd, files[i], F_OK, 0) == 0 ||
			(source_fd >= 0 && faccessat(source_fd, files[i], F_OK, 0) == 0))
			return true;
	return false;
}

static int check_release(
	int build_fd, const char *krel, struct kernel_record *record, struct error *error)
{
	_cleanup_free_ char *release = kernel_tree_release(build_fd);

	if (release && strcmp(release, krel) != 0)
		return error_set(error, -EINVAL, "kernel tree: it is of kernel %s, not of %s",
			release, krel);
	record->prepared = release != NULL;
	return 0;
}

static int look(int root_fd, int build_fd, struct kernel_record *record, struct error *error)
{
	int r;

	record->has_symvers = faccessat(build_fd, "Module.symvers", F_OK, 0) == 0;
	record->has_vmlinux = faccessat(build_fd, "vmlinux", F_OK, 0) == 0;
	record->has_randseed = has_randseed(root_fd, record->krel, build_fd);
	free(record->tools_arch);
	record->tools_arch = NULL;
	r = kernel_tree_tools_arch(root_fd, build_fd, &record->tools_arch);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree");
	return record_compute_vermagic(record, root_fd, build_fd, error);
}

int kernel_record_make(
	int root_fd, const char *krel, struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *compiler = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int build_fd = -1;
	int r = kernel_tree_open(root_fd, krel, &build_fd, error);

	if (r == 0)
		r = check_release(build_fd, krel, &record, error);
	if (r < 0)
		return r;
	r = find_config(root_fd, krel, &config, &path, error);
	/* Nothing set at all, and no path: lint judges that. */
	if (r == -ENOENT)
		r = kconfig_parse("no configuration", "", 0, &config, error);
	if (r < 0)
		return r;
	compiler = compile_header_text(build_fd);
	r = record_fill(&record, config, krel, compiler, error);
	if (r < 0)
		return r;
	if (set(&record.config_source, path ? path : "") < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	r = look(root_fd, build_fd, &record, error);
	if (r < 0)
		return r;
	*ret = record;
	record = (struct kernel_record){ 0 };
	return 0;
}

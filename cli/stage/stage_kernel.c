/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's packages unpacked: its tree to compile against, and its own modules. What
 * --kernel-from names comes before what the lock names.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "kernels/tree/tree.h"
#include "kernels/archive/unpack.h"

int kernel_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	(void) error;
	hash_add_text(
		hash, KERNEL_RECORD_FILE " 1"); /* the form of what is written beside the tree */
	hash_add_text(hash, build->lock.krel);
	if (build->local.has_headers)
		local_add_inputs(&build->local, hash);
	else
		stage_add_packages(build, LOCK_HEADERS, hash);
	return 0;
}

int modules_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	(void) error;
	hash_add_text(hash, build->lock.krel);
	if (build->local.has_modules)
		local_add_inputs(&build->local, hash);
	else
		stage_add_packages(build, LOCK_MODULES, hash);
	return 0;
}

/* Everything below lib/modules; the boot image and documentation are nobody's input here. */
static bool is_of_modules(void *context, const char *path)
{
	(void) context;
	if (strncmp(path, "usr/", 4) == 0)
		path += 4;
	return strcmp(path, "lib") == 0 || strcmp(path, "lib/modules") == 0 ||
	       strncmp(path, "lib/modules/", 12) == 0;
}

static bool is_no_documentation(void *context, const char *path)
{
	(void) context;
	return strncmp(path, "usr/share/", 10) != 0;
}

static int unpack_packages(
	struct build *build, const char *purpose, const struct unpack *unpack, struct error *error)
{
	for (size_t i = 0; i < build->lock.count; i++) {
		const struct lock_package *package = &build->lock.packages[i];
		_cleanup_free_ char *path = NULL;
		int r;

		if (strcmp(package->purpose, purpose) != 0)
			continue;
		if (asprintf(&path, "blobs/sha256/%s", package->sha256) < 0)
			return error_set_errno(error, -ENOMEM, "%s", package->name);
		progress_step(&build->context.progress, package->name);
		r = unpack_package(unpack, build->context.cache.fd, path, error);
		if (r < 0)
			return error_prefix(error, r, "%s", package->name);
	}
	return 0;
}

static int run_local(struct build *build, const char *folder,
	int (*make)(const struct local_kernel *, const char *, const char *, struct error *),
	struct error *error)
{
	_cleanup_free_ char *scratch = NULL;
	int r = cache_new_folder(&build->context.cache, "local", &scratch);

	if (r < 0)
		return error_set_errno(error, r, "%s", build->context.cache.path);
	for (size_t i = 0; i < build->local.count; i++)
		progress_step(&build->context.progress, build->local.inputs[i].path);
	return make(&build->local, scratch, folder, error);
}

static int unpack_tree(struct build *build, const struct stage_place *place, struct error *error)
{
	struct unpack unpack = { .folder = place->folder, .wanted = is_no_documentation };
	int r;

	if (build->local.has_headers)
		return run_local(build, place->folder, local_make_tree, error);
	r = stage_fetch(build, LOCK_HEADERS, error);
	return r < 0 ? r : unpack_packages(build, LOCK_HEADERS, &unpack, error);
}

int kernel_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_close_ int fd = -1;
	int r = unpack_tree(build, place, error);

	if (r < 0)
		return r;
	fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->folder);
	r = kernel_tree_relocate(fd, build->lock.krel, error);
	if (r == 0)
		r = kernel_record_make(fd, build->lock.krel, &record, error);
	return r < 0 ? r : kernel_record_save(&record, fd, error);
}

int modules_run(struct build *build, const struct stage_place *place, struct error *error)
{
	struct unpack unpack = { .folder = place->folder, .wanted = is_of_modules };
	_cleanup_close_ int fd = -1;
	int r;

	if (build->local.has_modules)
		return run_local(build, place->folder, local_make_modules, error);
	r = stage_fetch(build, LOCK_MODULES, error);
	if (r == 0)
		r = unpack_packages(build, LOCK_MODULES, &unpack, error);
	if (r < 0)
		return r;
	fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->folder);
	return kernel_tree_settle_modules(fd, build->lock.krel, error);
}

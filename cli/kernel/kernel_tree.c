/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's packages unpacked: its tree to compile against, and its own modules. What
 * --kernel-from names comes before what the lock names.
 */
#include "cli/kernel/kernel.h"

#include <fcntl.h>
#include <string.h>

#include "cli/cache/cache.h"
#include "cli/accept_key.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/repo/rpm.h"
#include "kernels/resolve/lock_fetch.h"
#include "kernels/tree/tree.h"

const char *kernel_files_option(const struct kernel *kernel)
{
	const char *option = kernel->request.files_option;

	return option ? option : "--kernel-from";
}

/* ---- packages of the lock */

static struct fetch fetch_of(const struct kernel *kernel)
{
	const struct context *context = kernel->context;

	return (struct fetch){
		.download = context->download,
		.os = &context->os,
		.mirrors = &context->mirrors,
		.scratch_fd = -1,
		.keyring = context->options->keyring,
		.allow_unsigned = context->options->allow_unsigned,
		.trusted = kernel->request.bundle,
	};
}

static void on_missing(void *data, size_t count, uint64_t size_bytes)
{
	struct kernel *kernel = data;
	char text[80];

	(void) snprintf(text, sizeof(text), "fetching %zu package%s, %.1f MB", count,
		count == 1 ? "" : "s", (double) size_bytes / 1e6);
	progress_step(&kernel->context->progress, text);
}

int kernel_fetch(struct kernel *kernel, const char *purpose, struct error *error)
{
	struct context *context = kernel->context;
	_cleanup_(store_close) struct store store = { .fd = -1 };
	_cleanup_close_ int scratch_fd = -1;
	_cleanup_strv_ struct strv without_signature = { 0 };
	struct fetch fetch;
	int r = context_download(context, error);

	if (r == 0)
		r = store_open(context->cache.fd, "blobs", &store, error);
	if (r < 0)
		return r;
	scratch_fd = open(context->cache.scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scratch_fd < 0)
		return error_set_errno(error, -errno, "%s", context->cache.scratch_path);
	fetch = fetch_of(kernel);
	fetch.store = &store;
	fetch.scratch_fd = scratch_fd;
	fetch.without_signature = &without_signature;
	r = fetch_packages(&fetch, &kernel->lock, purpose, on_missing, kernel, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < kernel->lock.count; i++) {
		const struct lock_package *package = &kernel->lock.packages[i];

		if (!purpose || strcmp(package->purpose, purpose) == 0)
			cache_name_download(&context->cache, package->sha256, package->name);
	}
	if (without_signature.count) {
		_cleanup_free_ char *names = xstrv_join(&without_signature, ", ");

		progress_notef(&context->progress,
			"WARNING: used without a signature check, because of --allow-unsigned: %s",
			names);
	}
	return 0;
}

void kernel_add_packages(const struct kernel *kernel, const char *purpose, struct hash *hash)
{
	const struct fetch fetch = fetch_of(kernel);

	for (size_t i = 0; i < kernel->lock.count; i++) {
		const struct lock_package *package = &kernel->lock.packages[i];

		if (strcmp(package->purpose, purpose) != 0)
			continue;
		hash_add_text(hash, package->name);
		hash_add_text(hash, package->sha256);
		fetch_add_trust(&fetch, package, hash);
	}
}

/* ---- the two outputs */

static void set_key(struct kernel *kernel, struct cached *cached, const char *name, bool local,
	const char *purpose, const char *form)
{
	struct hash *hash = cached_start_key(name);

	if (form)
		hash_add_text(hash, form);
	hash_add_text(hash, kernel->lock.krel);
	if (local)
		local_add_inputs(&kernel->local, hash);
	else
		kernel_add_packages(kernel, purpose, hash);
	cached_finish_key(cached, kernel->context, name, hash);
}

void kernel_set_keys(struct kernel *kernel)
{
	/* The form of what is written beside the tree. */
	set_key(kernel, &kernel->tree, "kernel", kernel->local.has_headers, LOCK_HEADERS,
		KERNEL_RECORD_FILE " 2");
	set_key(kernel, &kernel->modules, "modules", kernel->local.has_modules, LOCK_MODULES, NULL);
}

/* Everything below lib/modules; the boot image and documentation are not used. */
static bool is_of_modules(void *data, const char *path)
{
	(void) data;
	if (strncmp(path, "usr/", 4) == 0)
		path += 4;
	return strcmp(path, "lib") == 0 || strcmp(path, "lib/modules") == 0 ||
	       strncmp(path, "lib/modules/", 12) == 0;
}

static bool is_no_documentation(void *data, const char *path)
{
	(void) data;
	return strncmp(path, "usr/share/", 10) != 0;
}

static int unpack_packages(struct kernel *kernel, const char *purpose, const char *folder,
	bool (*wanted)(void *, const char *), struct error *error)
{
	const struct unpack unpack = { .folder = folder, .wanted = wanted };
	int r = kernel_fetch(kernel, purpose, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < kernel->lock.count; i++) {
		const struct lock_package *package = &kernel->lock.packages[i];
		_cleanup_free_ char *path = NULL;

		if (strcmp(package->purpose, purpose) != 0)
			continue;
		path = xasprintf("blobs/sha256/%s", package->sha256);
		progress_step(&kernel->context->progress, package->name);
		r = unpack_package(&unpack, kernel->context->cache.fd, path, error);
		if (r < 0)
			return error_prefix(error, r, "%s", package->name);
	}
	return 0;
}

static int copy_files(struct kernel *kernel, const char *folder, bool modules, struct error *error)
{
	const struct cache *cache = &kernel->context->cache;
	_cleanup_free_ char *scratch = NULL;
	int r = cache_new_folder(cache, "local", &scratch);

	if (r < 0)
		return error_set_errno(error, r, "%s", cache->path);
	for (size_t i = 0; i < kernel->local.count; i++)
		progress_step(&kernel->context->progress, kernel->local.inputs[i].path);
	r = local_make(&kernel->local, modules, scratch, folder, error);
	return r < 0 ? error_prefix(error, r, "%s", kernel_files_option(kernel)) : 0;
}

/* Writes the packages that the headers require, for the build root that they are compiled in. */
static int write_requires(const struct kernel *kernel, int folder_fd, struct error *error)
{
	const struct lock *lock = &kernel->lock;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	for (size_t i = 0; i < lock->count; i++) {
		_cleanup_(rpm_file_close) struct rpm_file rpm = { .fd = -1 };
		_cleanup_free_ char *path = xasprintf("blobs/sha256/%s", lock->packages[i].sha256);

		if (strcmp(lock->packages[i].purpose, LOCK_HEADERS) == 0 &&
			rpm_file_open(kernel->context->cache.fd, path, &rpm) == 0)
			rpm_file_requires(&rpm, &names);
	}
	if (!names.count)
		return 0;
	strv_sort(&names);
	text = xstrv_join(&names, "\n");
	r = fs_write_atomic(folder_fd, KERNEL_REQUIRES_FILE, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, KERNEL_REQUIRES_FILE) : 0;
}

static int make_tree(void *data, const struct stage_place *place, struct error *error)
{
	struct kernel *kernel = data;
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_close_ int fd = -1;
	int r = kernel->local.has_headers ? copy_files(kernel, place->folder, false, error)
					  : unpack_packages(kernel, LOCK_HEADERS, place->folder,
						    is_no_documentation, error);

	if (r < 0)
		return r;
	fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->folder);
	r = kernel_tree_relocate(fd, kernel->lock.krel, error);
	if (r == 0 && !kernel->local.has_headers)
		r = write_requires(kernel, fd, error);
	if (r == 0)
		r = kernel_record_make(fd, kernel->lock.krel, &record, error);
	return r < 0 ? r : kernel_record_save(&record, fd, error);
}

static int make_modules(void *data, const struct stage_place *place, struct error *error)
{
	struct kernel *kernel = data;
	_cleanup_close_ int fd = -1;
	int r;

	if (kernel->local.has_modules)
		return copy_files(kernel, place->folder, true, error);
	r = unpack_packages(kernel, LOCK_MODULES, place->folder, is_of_modules, error);
	if (r < 0)
		return r;
	fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->folder);
	return kernel_tree_settle_modules(fd, kernel->lock.krel, error);
}

struct cached_maker kernel_tree_maker(struct kernel *kernel)
{
	return (struct cached_maker){ .name = "kernel", .run = make_tree, .data = kernel };
}

struct cached_maker kernel_modules_maker(struct kernel *kernel)
{
	return (struct cached_maker){ .name = "modules", .run = make_modules, .data = kernel };
}

static bool is_in_lock(const void *data, const struct repository *repository)
{
	const struct lock *lock = data;

	for (size_t i = 0; i < lock->count; i++)
		if (repository->trust == TRUST_PACKAGES &&
			strcmp(lock->packages[i].repository, repository->name) == 0)
			return true;
	return false;
}

/* Before any key of the cache is made: what is believed because of a key hashes it. */
static int kernel_keys(struct kernel *kernel, struct error *error)
{
	struct context *context = kernel->context;
	int r;

	if (context->options->offline || kernel->request.bundle)
		return 0;
	r = context_mirrors(context, error);
	if (r == 0)
		r = keys_obtain(
			context, &context->os, &context->mirrors, is_in_lock, &kernel->lock, error);
	return r < 0 ? context_fail(context, EXIT_CODE_CONTENT, r) : 0;
}

static int open_output(struct kernel *kernel, struct cached *cached, struct cached_maker maker,
	int *ret_fd, struct error *error)
{
	int r = kernel_keys(kernel, error);

	if (r < 0)
		return r;
	kernel_set_keys(kernel);
	if (!cached_is_there(kernel->context, cached, NULL))
		r = cached_make(cached, kernel->context, &maker, error);
	r = keys_unreached(kernel->context, r, error);
	if (r < 0)
		return context_fail(kernel->context, EXIT_CODE_CONTENT, r);
	*ret_fd = open(cached->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? error_set_errno(error, -errno, "%s", cached->path) : 0;
}

int kernel_tree(struct kernel *kernel, int *ret_fd, struct error *error)
{
	return open_output(kernel, &kernel->tree, kernel_tree_maker(kernel), ret_fd, error);
}

int kernel_modules(struct kernel *kernel, int *ret_fd, struct error *error)
{
	return open_output(kernel, &kernel->modules, kernel_modules_maker(kernel), ret_fd, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve_walk.h"

#include <string.h>

/* The version of the headers' own source where the lists still have it, or else the newest. */
int resolve_show_near(const struct apt *apt, const char *name, const char *version,
	struct apt_package *ret, struct error *error)
{
	int r = version ? apt_show(apt, name, version, ret, error) : -ENODATA;

	return r == -ENODATA ? apt_show(apt, name, NULL, ret, error) : r;
}

int resolve_add_package(
	struct lock *lock, struct apt_package *found, const char *purpose, struct error *error)
{
	_cleanup_(lock_package_free) struct lock_package package = {
		.purpose = strdup(purpose),
		.size_bytes = found->size_bytes,
	};

	package.name = TAKE_PTR(found->name);
	package.version = TAKE_PTR(found->version);
	package.architecture = TAKE_PTR(found->architecture);
	package.sha256 = TAKE_PTR(found->sha256);
	if (!package.purpose || lock_add(lock, &package) < 0)
		return error_set_errno(error, -ENOMEM, "lock");
	return 0;
}

static bool has_package(const struct lock *lock, const char *name)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].name, name) == 0)
			return true;
	return false;
}

/* First alternatives of a Depends field, without versions and architecture marks. */
static int depends_names(const char *depends, struct strv *names)
{
	int r = strv_split(names, depends, ",");

	for (size_t i = 0; i < names->count && r == 0; i++) {
		char *item = names->items[i];
		size_t blanks = strspn(item, " ");

		memmove(item, item + blanks, strlen(item + blanks) + 1);
		item[strcspn(item, " |(:[")] = '\0';
	}
	return r;
}

struct walk {
	const struct apt *apt;
	const char
		*source; /* of the headers: what is not of it is the build container's business */
	const char *version; /* of the headers */
	struct lock *lock;
};

static int walk_depends(const struct walk *walk, const char *depends, struct error *error);

/* "linux-compiler-gcc-12-x86" holds nothing; its name and its Depends name the compiler. */
static int take_compiler(struct lock *lock, const char *depends, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (depends_names(depends, &names) < 0 || names.count == 0)
		return error_set(error, -EBADMSG, "linux-compiler package without a compiler");
	free(lock->compiler);
	lock->compiler = strdup(names.items[0]);
	return lock->compiler ? 0 : error_set_errno(error, -ENOMEM, "compiler");
}

static int walk_one(const struct walk *walk, const char *name, struct error *error)
{
	_cleanup_(apt_package_free) struct apt_package package = { 0 };
	_cleanup_free_ char *depends = NULL;
	int r;

	if (strncmp(name, "linux-", 6) != 0 || strncmp(name, "linux-image", 11) == 0 ||
		has_package(walk->lock, name))
		return 0;
	r = resolve_show_near(walk->apt, name, walk->version, &package, error);
	if (r < 0)
		return r;
	if (strcmp(package.source, walk->source) != 0)
		return 0;
	if (strncmp(name, "linux-compiler-", 15) == 0)
		return take_compiler(walk->lock, package.depends, error);
	depends = TAKE_PTR(package.depends);
	r = resolve_add_package(walk->lock, &package, LOCK_HEADERS, error);
	return r < 0 ? r : walk_depends(walk, depends, error);
}

static int walk_depends(const struct walk *walk, const char *depends, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = depends_names(depends, &names);

	if (r < 0)
		return error_set_errno(error, r, "Depends");
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = walk_one(walk, names.items[i], error);
	return r;
}

/* Adds the headers with what they depend on in their own source, then the kernel's image. */
int resolve_add_kernel(
	const struct apt *apt, struct lock *lock, char **ret_version, struct error *error)
{
	_cleanup_(apt_package_free) struct apt_package headers = { 0 };
	_cleanup_(apt_package_free) struct apt_package image = { 0 };
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *version = NULL;
	struct walk walk = { .apt = apt, .lock = lock };
	int r;

	if (asprintf(&name, HEADERS_PREFIX "%s", lock->krel) < 0)
		return error_set_errno(error, -ENOMEM, "lock");
	r = apt_show(apt, name, NULL, &headers, error);
	if (r < 0)
		return r;
	walk.source = headers.source;
	walk.version = version = TAKE_PTR(headers.version);
	headers.version = strdup(version);
	if (!headers.version)
		return error_set_errno(error, -ENOMEM, "lock");
	r = resolve_add_package(lock, &headers, LOCK_HEADERS, error);
	if (r == 0)
		r = walk_depends(&walk, headers.depends, error);
	free(TAKE_PTR(name));
	if (r == 0 && asprintf(&name, "linux-image-%s", lock->krel) < 0)
		return error_set_errno(error, -ENOMEM, "lock");
	if (r == 0)
		r = resolve_show_near(apt, name, version, &image, error);
	if (r == 0)
		r = resolve_add_package(lock, &image, LOCK_MODULES, error);
	if (r == 0)
		*ret_version = TAKE_PTR(version);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/repo/relation.h"
#include "kernels/resolve/resolve_kernel.h"

char *resolve_compiler_name(const char *package)
{
	static const char *const families[] = { "gcc-", "clang-" };

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		size_t length = strlen(families[i]);
		size_t digits;

		if (strncmp(package, families[i], length) != 0)
			continue;
		digits = strspn(package + length, "0123456789");
		if (digits && (!package[length + digits] || package[length + digits] == '-'))
			return strndup(package, length + digits);
	}
	return NULL;
}

/* The first compiler that a package's Depends names: 1 with it in *ret_name, else 0. */
static int compiler_in(const char *depends, char **ret_name, char **ret_package)
{
	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		int r = relation_next(&depends, &relation);
		char *name;

		if (r <= 0)
			return r;
		name = resolve_compiler_name(relation.name);
		if (!name)
			continue;
		*ret_name = name;
		*ret_package = TAKE_PTR(relation.name);
		return 1;
	}
}

static int take(struct lock *lock, char *name, char *evidence)
{
	free(lock->compiler);
	free(lock->compiler_evidence);
	lock->compiler = name;
	lock->compiler_evidence = evidence;
	return name && evidence ? 1 : -ENOMEM;
}

/* "linux-compiler-gcc-12-x86" holds nothing; its Depends, or else its name, names the compiler. */
static int from_named(
	struct resolution *resolution, const struct package *headers, const char *name)
{
	_cleanup_(found_list_free) struct found_list list = { 0 };
	_cleanup_free_ char *compiler = NULL;
	_cleanup_free_ char *package = NULL;
	const char *prefix = resolution->scope.os->kernel.compiler_prefix;
	char *evidence = NULL;
	int r = match_name(&resolution->scope, name, &list);

	if (r < 0)
		return r;
	match_sort(&list, resolution->home);
	for (size_t i = 0; i < list.count && r == 0; i++)
		r = compiler_in(list.items[i].package->depends, &compiler, &package);
	if (r < 0)
		return r;
	if (!compiler)
		compiler = resolve_compiler_name(name + strlen(prefix));
	if (!compiler)
		return 0;
	r = package ? asprintf(&evidence, "%s %s depends on %s, which depends on %s", headers->name,
			      headers->version, name, package)
		    : asprintf(&evidence, "%s %s depends on %s, whose name tells", headers->name,
			      headers->version, name);
	return take(&resolution->lock, TAKE_PTR(compiler), r < 0 ? NULL : evidence);
}

static int from_prefix(struct resolution *resolution, const struct package *headers)
{
	const char *prefix = resolution->scope.os->kernel.compiler_prefix;
	const char *cursor = headers->depends;

	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		int r = *prefix ? relation_next(&cursor, &relation) : 0;

		if (r <= 0)
			return r;
		if (strncmp(relation.name, prefix, strlen(prefix)) != 0)
			continue;
		r = from_named(resolution, headers, relation.name);
		if (r != 0)
			return r;
	}
}

static int from_depends(struct resolution *resolution, const struct package *headers)
{
	_cleanup_free_ char *compiler = NULL;
	_cleanup_free_ char *package = NULL;
	char *evidence = NULL;
	int r = compiler_in(headers->depends, &compiler, &package);

	if (r <= 0)
		return r;
	r = asprintf(&evidence, "%s %s depends on %s", headers->name, headers->version, package);
	return take(&resolution->lock, TAKE_PTR(compiler), r < 0 ? NULL : evidence);
}

static int from_catalogue(struct resolution *resolution)
{
	const struct catalogue *os = resolution->scope.os;
	char *evidence = NULL;
	int r;

	r = *os->kernel.compiler
		    ? asprintf(&evidence, "the catalogue of %s says so: its packages do not tell",
			      os->os)
		    : asprintf(&evidence,
			      "neither a package nor the catalogue of %s tells: the "
			      "tree's own configuration will",
			      os->os);
	return take(&resolution->lock, strdup(os->kernel.compiler), r < 0 ? NULL : evidence);
}

int resolve_compiler(struct resolution *resolution, struct error *error)
{
	const struct found_list *headers = &resolution->headers;
	int r = 0;

	for (size_t i = 0; i < headers->count && r == 0; i++)
		r = from_prefix(resolution, headers->items[i].package);
	for (size_t i = 0; i < headers->count && r == 0; i++)
		r = from_depends(resolution, headers->items[i].package);
	if (r == 0)
		r = from_catalogue(resolution);
	return r < 0 ? error_set_errno(error, r, "compiler") : 0;
}

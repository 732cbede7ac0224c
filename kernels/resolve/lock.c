/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/lock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

/* ---- what each kind of thing in a lock is made of */

static bool is_sha256_or_nothing(const char *text)
{
	return !*text || hash_is_hex(text);
}

/* A repository's list may have more than SHA-256. */
static bool is_checksum(const char *text)
{
	return strlen(text) >= HASH_HEX_SIZE - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static bool is_name(const char *text)
{
	return *text && !strchr(text, '/') && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

static bool is_something(const char *text)
{
	return *text;
}

/* In the order of the keys, as they are written: json-c keeps the one in which they are added. */
#define NAME      .is_right = is_name, .wanted = "it must be a name without a slash"
#define SHA256    .is_right = hash_is_hex, .wanted = "it must be 64 lower-case hex digits"
#define SOMETHING .is_right = is_something, .wanted = "it is empty"

#define PACKAGE(member)    JSON_FIELD(#member, JSON_TEXT, struct lock_package, member)
#define REPOSITORY(member) JSON_FIELD(#member, JSON_TEXT, struct lock_repository, member)
#define ROOT(member)       JSON_FIELD(#member, JSON_TEXT, struct lock_root_package, member)
#define LOCAL(member)      JSON_FIELD(#member, JSON_TEXT, struct lock_local, member)
#define LOCK(member, kind) JSON_FIELD(#member, kind, struct lock, member)

static const struct json_field package_fields[] = {
	{ PACKAGE(architecture) },
	{ PACKAGE(name), NAME },
	{ PACKAGE(purpose), SOMETHING },
	{ PACKAGE(repository) },
	{ PACKAGE(sha256), SHA256 },
	{ JSON_FIELD("size_bytes", JSON_SIZE, struct lock_package, size_bytes) },
	{ PACKAGE(url), SOMETHING },
	{ PACKAGE(version), SOMETHING },
};

static const struct json_field repository_fields[] = {
	{ REPOSITORY(date) },
	{ REPOSITORY(name), SOMETHING },
	{ REPOSITORY(release_sha256), .is_right = is_sha256_or_nothing,
		.wanted = "it must be 64 lower-case hex digits" },
	{ REPOSITORY(signer) },
	{ REPOSITORY(suite) },
	{ REPOSITORY(url) },
};

static const struct json_field local_fields[] = {
	{ LOCAL(kind), SOMETHING },
	{ LOCAL(name), NAME },
	{ LOCAL(sha256), SHA256 },
};

static const struct json_field root_package_fields[] = {
	{ ROOT(architecture), SOMETHING },
	{ ROOT(checksum), .is_right = is_checksum, .wanted = "hexadecimal digits are wanted" },
	{ ROOT(name), NAME },
	{ ROOT(root), NAME },
	{ ROOT(version), SOMETHING },
};

static const struct json_field compiler_fields[] = {
	{ JSON_FIELD("evidence", JSON_TEXT, struct lock, compiler_evidence) },
	{ JSON_FIELD("name", JSON_TEXT, struct lock, compiler) },
};

static const struct json_fields of_package =
	JSON_FIELDS("package", package_fields, struct lock_package);
static const struct json_fields of_repository =
	JSON_FIELDS("repository", repository_fields, struct lock_repository);
static const struct json_fields of_local =
	JSON_FIELDS("kernel_from", local_fields, struct lock_local);
static const struct json_fields of_root_package =
	JSON_FIELDS("root_package", root_package_fields, struct lock_root_package);
static const struct json_fields of_compiler = JSON_FIELDS("compiler", compiler_fields, struct lock);

static const struct json_field lock_fields[] = {
	{ LOCK(arch, JSON_TEXT), NAME },
	{ .key = "compiler", .kind = JSON_OBJECT, .of = &of_compiler },
	{ LOCK(kernel_from, JSON_LIST), .of = &of_local },
	{ LOCK(krel, JSON_TEXT), .is_right = krel_is_valid,
		.wanted = "it is not a kernel "
			  "release" },
	{ LOCK(os, JSON_TEXT), NAME },
	{ LOCK(packages, JSON_LIST), .of = &of_package },
	{ LOCK(repositories, JSON_LIST), .of = &of_repository },
	{ LOCK(root_packages, JSON_LIST), .of = &of_root_package },
};

/* JSON_LIST: each count lies behind its list. */
#define HAS_COUNT(list, number)                                                                    \
	_Static_assert(                                                                            \
		offsetof(struct lock, number) == offsetof(struct lock, list) + sizeof(void *),     \
		#list)

HAS_COUNT(kernel_from, kernel_from_count);
HAS_COUNT(packages, count);
HAS_COUNT(repositories, repository_count);
HAS_COUNT(root_packages, root_package_count);

static const struct json_fields of_lock = JSON_FIELDS("lock", lock_fields, struct lock);

void lock_package_free(struct lock_package *package)
{
	json_fields_free(&of_package, package);
}

void lock_free(struct lock *lock)
{
	json_fields_free(&of_lock, lock);
}

/* ---- the lists */

static int compare_packages(const void *a, const void *b)
{
	const struct lock_package *left = a;
	const struct lock_package *right = b;
	int difference = strcmp(left->name, right->name);

	if (difference == 0)
		difference = strcmp(left->version, right->version);
	return difference ? difference : strcmp(left->architecture, right->architecture);
}

static int compare_repositories(const void *a, const void *b)
{
	const struct lock_repository *left = a;
	const struct lock_repository *right = b;

	return strcmp(left->name, right->name);
}

void lock_add(struct lock *lock, struct lock_package *package)
{
	lock->packages = xreallocarray(lock->packages, lock->count + 1, sizeof(*lock->packages));
	lock->packages[lock->count++] = *package;
	*package = (struct lock_package){ 0 };
	qsort(lock->packages, lock->count, sizeof(*lock->packages), compare_packages);
}

void lock_add_repository(struct lock *lock, struct lock_repository *repository)
{
	for (size_t i = 0; i < lock->repository_count; i++)
		if (strcmp(lock->repositories[i].name, repository->name) == 0) {
			json_fields_free(&of_repository, repository);
			return;
		}
	lock->repositories = xreallocarray(
		lock->repositories, lock->repository_count + 1, sizeof(*lock->repositories));
	lock->repositories[lock->repository_count++] = *repository;
	*repository = (struct lock_repository){ 0 };
	qsort(lock->repositories, lock->repository_count, sizeof(*lock->repositories),
		compare_repositories);
}

void lock_add_local(struct lock *lock, struct lock_local *local)
{
	lock->kernel_from = xreallocarray(
		lock->kernel_from, lock->kernel_from_count + 1, sizeof(*lock->kernel_from));
	lock->kernel_from[lock->kernel_from_count++] = *local;
	*local = (struct lock_local){ 0 };
}

const struct lock_package *lock_find(const struct lock *lock, const char *purpose)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].purpose, purpose) == 0)
			return &lock->packages[i];
	return NULL;
}

const struct lock_package *lock_find_name(const struct lock *lock, const char *name)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].name, name) == 0)
			return &lock->packages[i];
	return NULL;
}

/* ---- the packages of roots */

static bool has_root_package(
	const struct lock_root_package *packages, size_t count, const struct lock_root_package *one)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(packages[i].root, one->root) == 0 &&
			strcmp(packages[i].checksum, one->checksum) == 0)
			return true;
	return false;
}

static bool has_root(const struct lock *lock, const char *root)
{
	for (size_t i = 0; i < lock->root_package_count; i++)
		if (strcmp(lock->root_packages[i].root, root) == 0)
			return true;
	return false;
}

static void push_root_package(struct lock *lock, struct lock_root_package *package)
{
	lock->root_packages = xreallocarray(
		lock->root_packages, lock->root_package_count + 1, sizeof(*lock->root_packages));
	lock->root_packages[lock->root_package_count++] = *package;
	*package = (struct lock_root_package){ 0 };
}

size_t lock_set_root(struct lock *lock, const char *root, const char *text)
{
	struct lock_root_package *old = lock->root_packages;
	size_t old_count = lock->root_package_count, others = 0;
	bool had = has_root(lock, root);
	_cleanup_strv_ struct strv lines = { 0 };

	lock->root_packages = NULL;
	lock->root_package_count = 0;
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		_cleanup_strv_ struct strv words = { 0 };
		struct lock_root_package package;

		xstrv_split(&words, lines.items[i], " ");
		if (words.count != 4 || !is_checksum(words.items[3]))
			continue;
		package = (struct lock_root_package){ .root = xstrdup(root),
			.name = xstrdup(words.items[0]),
			.version = xstrdup(words.items[1]),
			.architecture = xstrdup(words.items[2]),
			.checksum = xstrdup(words.items[3]) };
		if (had && !has_root_package(old, old_count, &package))
			others++;
		push_root_package(lock, &package);
	}
	for (size_t i = 0; i < old_count; i++)
		if (strcmp(old[i].root, root) != 0)
			push_root_package(lock, &old[i]);
		else
			json_fields_free(&of_root_package, &old[i]);
	free(old);
	return others;
}

char *lock_root_text(const struct lock *lock, const char *root)
{
	struct strv lines = { 0 };
	char *text;

	for (size_t i = 0; i < lock->root_package_count; i++) {
		const struct lock_root_package *package = &lock->root_packages[i];

		if (strcmp(package->root, root) == 0)
			xstrv_pushf(&lines, "%s %s %s %s\n", package->name, package->version,
				package->architecture, package->checksum);
	}
	text = lines.count ? xstrv_join(&lines, "") : NULL;
	strv_free(&lines);
	return text;
}

/* ---- as a file */

char *lock_write(const struct lock *lock)
{
	_cleanup_json_ json_object *root = json_object_new_object();

	json_fields_add(root, &of_lock, lock);
	json_member_add(root, "schema", json_object_new_int(LOCK_SCHEMA));
	return xasprintf("%s\n", json_object_to_json_string_ext(root,
					 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* Keeps the first of the repositories with the same name; then sorts them. */
static void drop_repeated(struct lock *lock)
{
	struct lock_repository *read = lock->repositories;
	size_t count = lock->repository_count;

	lock->repositories = NULL;
	lock->repository_count = 0;
	for (size_t i = 0; i < count; i++)
		lock_add_repository(lock, &read[i]);
	free(read);
}

int lock_read(const char *text, struct lock *ret, struct error *error)
{
	enum json_tokener_error why = json_tokener_success;
	_cleanup_json_ json_object *root = json_tokener_parse_verbose(text, &why);
	json_object *schema = json_object_object_get(root, "schema");
	_cleanup_(lock_free) struct lock lock = { 0 };
	int r;

	if (!root)
		return error_set(error, -EBADMSG, "no JSON: %s",
			why == json_tokener_success ? "it is null" : json_tokener_error_desc(why));
	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "it is not an object");
	if (!json_object_is_type(schema, json_type_int) ||
		json_object_get_int64(schema) != LOCK_SCHEMA) {
		(void) error_set(error, -EBADMSG, "\"schema\" is not %d", LOCK_SCHEMA);
		return error_try(error, -EBADMSG, "make a new lock: slipway resolve -o FILE");
	}
	/* One that resolve wrote, or an older slipway. */
	if (!json_object_object_get(root, "root_packages"))
		json_member_add(root, "root_packages", json_object_new_array());
	r = json_fields_read(root, &of_lock, &lock, error);
	if (r < 0)
		return r;
	qsort(lock.packages, lock.count, sizeof(*lock.packages), compare_packages);
	drop_repeated(&lock);
	*ret = lock;
	lock = (struct lock){ 0 };
	return 0;
}

int lock_read_file(int dir_fd, const char *path, struct lock *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(dir_fd, path, LOCK_LIMIT_BYTES, &text, NULL);

	if (r == -EFBIG)
		return error_set(
			error, r, "lock %s: longer than %zu bytes", path, LOCK_LIMIT_BYTES);
	if (r < 0)
		return error_set_errno(error, r, "lock %s", path);
	r = lock_read(text, ret, error);
	return r < 0 ? error_prefix(error, r, "lock %s", path) : 0;
}

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

static bool is_name(const char *text)
{
	return *text && !strchr(text, '/') && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

static bool is_something(const char *text)
{
	return *text;
}

#define NAME      is_name, "a name without a slash is wanted"
#define SHA256    hash_is_hex, "64 lower-case hex digits are wanted"
#define SOMETHING is_something, "it is empty"

#define PACKAGE(member)    #member, JSON_TEXT, offsetof(struct lock_package, member)
#define REPOSITORY(member) #member, JSON_TEXT, offsetof(struct lock_repository, member)
#define LOCAL(member)      #member, JSON_TEXT, offsetof(struct lock_local, member)
#define LOCK(member)       #member, JSON_TEXT, offsetof(struct lock, member)

/* In the order of the keys, as they are written. */
static const struct json_field package_fields[] = {
	{ PACKAGE(architecture), NULL, NULL },
	{ PACKAGE(name), NAME },
	{ PACKAGE(purpose), SOMETHING },
	{ PACKAGE(repository), NULL, NULL },
	{ PACKAGE(sha256), SHA256 },
	{ "size_bytes", JSON_SIZE, offsetof(struct lock_package, size_bytes), NULL, NULL },
	{ PACKAGE(url), SOMETHING },
	{ PACKAGE(version), SOMETHING },
};

static const struct json_field repository_fields[] = {
	{ REPOSITORY(date), NULL, NULL },
	{ REPOSITORY(name), SOMETHING },
	{ REPOSITORY(release_sha256), is_sha256_or_nothing, "64 lower-case hex digits are wanted" },
	{ REPOSITORY(signer), NULL, NULL },
	{ REPOSITORY(suite), NULL, NULL },
	{ REPOSITORY(url), NULL, NULL },
};

static const struct json_field local_fields[] = {
	{ LOCAL(kind), SOMETHING },
	{ LOCAL(name), NAME },
	{ LOCAL(sha256), SHA256 },
};

static const struct json_field arch_field[] = { { LOCK(arch), NAME } };

static const struct json_field krel_fields[] = {
	{ LOCK(krel), krel_is_valid, "it is no kernel release" },
	{ LOCK(os), NAME },
};

static const struct json_field compiler_fields[] = {
	{ "evidence", JSON_TEXT, offsetof(struct lock, compiler_evidence), NULL, NULL },
	{ "name", JSON_TEXT, offsetof(struct lock, compiler), NULL, NULL },
};

static const struct json_fields of_package = JSON_FIELDS("package", package_fields);
static const struct json_fields of_repository = JSON_FIELDS("repository", repository_fields);
static const struct json_fields of_local = JSON_FIELDS("kernel_from", local_fields);
static const struct json_fields of_arch = JSON_FIELDS("lock", arch_field);
static const struct json_fields of_krel = JSON_FIELDS("lock", krel_fields);
static const struct json_fields of_compiler = JSON_FIELDS("compiler", compiler_fields);

void lock_package_free(struct lock_package *package)
{
	json_fields_free(&of_package, package);
}

void lock_free(struct lock *lock)
{
	for (size_t i = 0; i < lock->count; i++)
		lock_package_free(&lock->packages[i]);
	for (size_t i = 0; i < lock->repository_count; i++)
		json_fields_free(&of_repository, &lock->repositories[i]);
	for (size_t i = 0; i < lock->kernel_from_count; i++)
		json_fields_free(&of_local, &lock->kernel_from[i]);
	free(lock->packages);
	free(lock->repositories);
	free(lock->kernel_from);
	json_fields_free(&of_arch, lock);
	json_fields_free(&of_krel, lock);
	json_fields_free(&of_compiler, lock);
	*lock = (struct lock){ 0 };
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

/* ---- as a file */

static void add_list(json_object *root, const char *key, const struct json_fields *fields,
	const void *things, size_t size, size_t count)
{
	json_object *array = json_object_new_array();

	json_member_add(root, key, array);
	for (size_t i = 0; i < count; i++) {
		json_object *object = json_object_new_object();

		json_member_add(array, NULL, object);
		json_fields_add(object, fields, (const char *) things + i * size);
	}
}

/* By the order of the keys: json-c keeps the one in which they are added. */
char *lock_write(const struct lock *lock)
{
	_cleanup_json_ json_object *root = json_object_new_object();
	json_object *compiler = json_object_new_object();

	json_fields_add(root, &of_arch, lock);
	json_member_add(root, "compiler", compiler);
	json_fields_add(compiler, &of_compiler, lock);
	add_list(root, "kernel_from", &of_local, lock->kernel_from, sizeof(*lock->kernel_from),
		lock->kernel_from_count);
	json_fields_add(root, &of_krel, lock);
	add_list(root, "packages", &of_package, lock->packages, sizeof(*lock->packages),
		lock->count);
	add_list(root, "repositories", &of_repository, lock->repositories,
		sizeof(*lock->repositories), lock->repository_count);
	json_member_add(root, "schema", json_object_new_int(LOCK_SCHEMA));
	return xasprintf("%s\n", json_object_to_json_string_ext(root,
					 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* A list of objects; *ret_length is 0 where it fails. */
static int open_list(json_object *root, const char *key, json_object **ret, size_t *ret_length,
	struct error *error)
{
	json_object *array = json_object_object_get(root, key);

	*ret = array;
	*ret_length = 0;
	if (!json_object_is_type(array, json_type_array))
		return error_set(error, -EBADMSG, "\"%s\" is missing or no list", key);
	for (size_t i = 0; i < json_object_array_length(array); i++)
		if (!json_object_is_type(json_object_array_get_idx(array, i), json_type_object))
			return error_set(error, -EBADMSG, "\"%s\"[%zu] is no object", key, i);
	*ret_length = json_object_array_length(array);
	return 0;
}

/* Of the repositories of one name the first is the one that counts; then sorts them. */
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

static int lock_from_json(json_object *root, struct lock *lock, struct error *error)
{
	json_object *compiler = json_object_object_get(root, "compiler");
	json_object *schema = json_object_object_get(root, "schema");
	json_object *array = NULL;
	size_t length = 0;
	int r;

	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "it is no object");
	if (!json_object_is_type(schema, json_type_int) ||
		json_object_get_int64(schema) != LOCK_SCHEMA)
		return error_set(error, -EBADMSG,
			"\"schema\" is not %d: make it anew with slipway resolve -o", LOCK_SCHEMA);
	r = json_fields_read(root, &of_arch, lock, error);
	if (r == 0)
		r = json_fields_read(root, &of_krel, lock, error);
	if (r < 0)
		return r;
	if (!json_object_is_type(compiler, json_type_object))
		return error_set(error, -EBADMSG, "\"compiler\" is missing or no object");
	r = json_fields_read(compiler, &of_compiler, lock, error);
	if (r == 0)
		r = open_list(root, "kernel_from", &array, &length, error);
	if (r < 0)
		return r;
	lock->kernel_from = xcalloc(length, sizeof(*lock->kernel_from));
	for (size_t i = 0; i < length && r == 0; i++)
		r = json_fields_read(json_object_array_get_idx(array, i), &of_local,
			&lock->kernel_from[lock->kernel_from_count++], error);
	if (r == 0)
		r = open_list(root, "packages", &array, &length, error);
	if (r < 0)
		return r;
	lock->packages = xcalloc(length, sizeof(*lock->packages));
	for (size_t i = 0; i < length && r == 0; i++)
		r = json_fields_read(json_object_array_get_idx(array, i), &of_package,
			&lock->packages[lock->count++], error);
	if (r == 0)
		r = open_list(root, "repositories", &array, &length, error);
	if (r < 0)
		return r;
	lock->repositories = xcalloc(length, sizeof(*lock->repositories));
	for (size_t i = 0; i < length && r == 0; i++)
		r = json_fields_read(json_object_array_get_idx(array, i), &of_repository,
			&lock->repositories[lock->repository_count++], error);
	if (r < 0)
		return r;
	qsort(lock->packages, lock->count, sizeof(*lock->packages), compare_packages);
	drop_repeated(lock);
	return 0;
}

int lock_read(const char *text, struct lock *ret, struct error *error)
{
	enum json_tokener_error why = json_tokener_success;
	_cleanup_json_ json_object *root = json_tokener_parse_verbose(text, &why);
	_cleanup_(lock_free) struct lock lock = { 0 };
	int r;

	if (!root)
		return error_set(error, -EBADMSG, "no JSON: %s", json_tokener_error_desc(why));
	r = lock_from_json(root, &lock, error);
	if (r < 0)
		return r;
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

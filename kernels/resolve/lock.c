/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/lock.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

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
			lock_repository_free(repository);
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

void lock_package_free(struct lock_package *package)
{
	free(package->name);
	free(package->version);
	free(package->architecture);
	free(package->purpose);
	free(package->repository);
	free(package->url);
	free(package->sha256);
	*package = (struct lock_package){ 0 };
}

void lock_repository_free(struct lock_repository *repository)
{
	free(repository->name);
	free(repository->url);
	free(repository->suite);
	free(repository->release_sha256);
	free(repository->date);
	free(repository->signer);
	*repository = (struct lock_repository){ 0 };
}

void lock_local_free(struct lock_local *local)
{
	free(local->kind);
	free(local->name);
	free(local->sha256);
	*local = (struct lock_local){ 0 };
}

void lock_free(struct lock *lock)
{
	for (size_t i = 0; i < lock->count; i++)
		lock_package_free(&lock->packages[i]);
	for (size_t i = 0; i < lock->repository_count; i++)
		lock_repository_free(&lock->repositories[i]);
	for (size_t i = 0; i < lock->kernel_from_count; i++)
		lock_local_free(&lock->kernel_from[i]);
	free(lock->packages);
	free(lock->repositories);
	free(lock->kernel_from);
	free(lock->krel);
	free(lock->os);
	free(lock->arch);
	free(lock->compiler);
	free(lock->compiler_evidence);
	*lock = (struct lock){ 0 };
}

/* ---- as a file: each kind of thing is a table of its fields, read and written by the same code */

/* A member that is a text, or with @is_number a uint64_t. */
struct field {
	const char *key;
	size_t offset;
	bool (*is_right)(const char *text); /* NULL: any text will do */
	const char *wanted;                 /* for messages, where is_right is set */
	bool is_number;
};

struct fields {
	const char *thing; /* "package": for messages */
	const struct field *items;
	size_t count;
};

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

#define SHA256_TEXT "64 lower-case hex digits are wanted"
#define NAME_TEXT   "a name without a slash is wanted"

#define PACKAGE(member) #member, offsetof(struct lock_package, member)

static const struct field package_fields[] = {
	{ PACKAGE(architecture), NULL, NULL, false },
	{ PACKAGE(name), is_name, NAME_TEXT, false },
	{ PACKAGE(purpose), is_something, "it is empty", false },
	{ PACKAGE(repository), NULL, NULL, false },
	{ PACKAGE(sha256), hash_is_hex, SHA256_TEXT, false },
	{ PACKAGE(size_bytes), NULL, NULL, true },
	{ PACKAGE(url), is_something, "it is empty", false },
	{ PACKAGE(version), is_something, "it is empty", false },
};

#define REPOSITORY(member) #member, offsetof(struct lock_repository, member)

static const struct field repository_fields[] = {
	{ REPOSITORY(date), NULL, NULL, false },
	{ REPOSITORY(name), is_something, "it is empty", false },
	{ REPOSITORY(release_sha256), is_sha256_or_nothing, SHA256_TEXT, false },
	{ REPOSITORY(signer), NULL, NULL, false },
	{ REPOSITORY(suite), NULL, NULL, false },
	{ REPOSITORY(url), NULL, NULL, false },
};

#define LOCAL(member) #member, offsetof(struct lock_local, member)

static const struct field local_fields[] = {
	{ LOCAL(kind), is_something, "it is empty", false },
	{ LOCAL(name), is_name, NAME_TEXT, false },
	{ LOCAL(sha256), hash_is_hex, SHA256_TEXT, false },
};

#define LOCK(member) #member, offsetof(struct lock, member)

static const struct field lock_fields[] = {
	{ LOCK(arch), is_name, NAME_TEXT, false },
	{ LOCK(krel), krel_is_valid, "it is no kernel release", false },
	{ LOCK(os), is_name, NAME_TEXT, false },
};

static const struct fields of_package = { "package", package_fields, ARRAY_SIZE(package_fields) };
static const struct fields of_repository = { "repository", repository_fields,
	ARRAY_SIZE(repository_fields) };
static const struct fields of_local = { "kernel_from", local_fields, ARRAY_SIZE(local_fields) };
static const struct fields of_lock = { "lock", lock_fields, ARRAY_SIZE(lock_fields) };

/* ---- writing: json-c ends no program without memory, but then says NULL */

static json_object *need(json_object *object)
{
	if (!object)
		out_of_memory();
	return object;
}

static void add(json_object *object, const char *key, json_object *value)
{
	if (json_object_object_add(object, key, need(value)) < 0)
		out_of_memory();
}

static void add_text(json_object *object, const char *key, const char *value)
{
	add(object, key, json_object_new_string(value ? value : ""));
}

/* A list of @count things of @size bytes each. */
static void add_list(json_object *root, const char *key, const struct fields *fields,
	const void *things, size_t size, size_t count)
{
	json_object *array = need(json_object_new_array());

	add(root, key, array);
	for (size_t i = 0; i < count; i++) {
		json_object *object = need(json_object_new_object());

		if (json_object_array_add(array, object) < 0)
			out_of_memory();
		for (size_t j = 0; j < fields->count; j++) {
			const struct field *field = &fields->items[j];
			const void *slot = (const char *) things + i * size + field->offset;

			if (field->is_number)
				add(object, field->key,
					json_object_new_uint64(*(const uint64_t *) slot));
			else
				add_text(object, field->key, *(char *const *) slot);
		}
	}
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

/* By the order of the keys: json-c keeps the one in which they are added. */
char *lock_write(const struct lock *lock)
{
	_cleanup_(put_json) json_object *root = need(json_object_new_object());
	json_object *compiler = need(json_object_new_object());
	const char *text;

	add_text(root, "arch", lock->arch);
	add(root, "compiler", compiler);
	add_text(compiler, "evidence", lock->compiler_evidence);
	add_text(compiler, "name", lock->compiler);
	add_list(root, "kernel_from", &of_local, lock->kernel_from, sizeof(*lock->kernel_from),
		lock->kernel_from_count);
	add_text(root, "krel", lock->krel);
	add_text(root, "os", lock->os);
	add_list(root, "packages", &of_package, lock->packages, sizeof(*lock->packages),
		lock->count);
	add_list(root, "repositories", &of_repository, lock->repositories,
		sizeof(*lock->repositories), lock->repository_count);
	add(root, "schema", json_object_new_int(LOCK_SCHEMA));
	text = json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	return text ? xasprintf("%s\n", text) : NULL;
}

/* ---- reading */

static int take_field(json_object *object, const char *thing, const struct field *field,
	char **slot, struct error *error)
{
	json_object *value;
	const char *text;

	if (!json_object_object_get_ex(object, field->key, &value) ||
		!json_object_is_type(value, json_type_string))
		return error_set(
			error, -EBADMSG, "%s: \"%s\" is missing or no text", thing, field->key);
	text = json_object_get_string(value);
	/* A zero byte in JSON's text would hide what follows it. */
	if (strlen(text) != (size_t) json_object_get_string_len(value))
		return error_set(error, -EBADMSG, "%s: \"%s\" has a zero byte", thing, field->key);
	if (field->is_right && !field->is_right(text))
		return error_set(error, -EBADMSG, "%s: \"%s\" is \"%.80s\": %s", thing, field->key,
			text, field->wanted);
	*slot = xstrdup(text);
	return 0;
}

static int take_number(json_object *object, const char *thing, const struct field *field,
	uint64_t *slot, struct error *error)
{
	json_object *value;

	if (!json_object_object_get_ex(object, field->key, &value) ||
		!json_object_is_type(value, json_type_int) || json_object_get_int64(value) <= 0)
		return error_set(error, -EBADMSG, "%s: \"%s\" is missing or no positive number",
			thing, field->key);
	*slot = json_object_get_uint64(value);
	return 0;
}

static int take_fields(
	json_object *object, const struct fields *fields, void *thing, struct error *error)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct field *field = &fields->items[i];
		void *slot = (char *) thing + field->offset;
		int r = field->is_number ? take_number(object, fields->thing, field, slot, error)
					 : take_field(object, fields->thing, field, slot, error);

		if (r < 0)
			return r;
	}
	return 0;
}

static int take_package(json_object *object, struct lock *lock, struct error *error)
{
	_cleanup_(lock_package_free) struct lock_package package = { 0 };
	int r = take_fields(object, &of_package, &package, error);

	if (r == 0)
		lock_add(lock, &package);
	return r;
}

static int take_repository(json_object *object, struct lock *lock, struct error *error)
{
	_cleanup_(lock_repository_free) struct lock_repository repository = { 0 };
	int r = take_fields(object, &of_repository, &repository, error);

	if (r == 0)
		lock_add_repository(lock, &repository);
	return r;
}

static int take_local(json_object *object, struct lock *lock, struct error *error)
{
	_cleanup_(lock_local_free) struct lock_local local = { 0 };
	int r = take_fields(object, &of_local, &local, error);

	if (r == 0)
		lock_add_local(lock, &local);
	return r;
}

static int take_list(json_object *root, const char *key, struct lock *lock,
	int (*take)(json_object *object, struct lock *lock, struct error *error),
	struct error *error)
{
	json_object *array;
	int r = 0;

	if (!json_object_object_get_ex(root, key, &array) ||
		!json_object_is_type(array, json_type_array))
		return error_set(error, -EBADMSG, "\"%s\" is missing or no list", key);
	for (size_t i = 0; i < json_object_array_length(array) && r == 0; i++) {
		json_object *object = json_object_array_get_idx(array, i);

		r = json_object_is_type(object, json_type_object)
			    ? take(object, lock, error)
			    : error_set(error, -EBADMSG, "\"%s\"[%zu] is no object", key, i);
	}
	return r;
}

static int take_compiler(json_object *root, struct lock *lock, struct error *error)
{
	static const struct field name = { "name", 0, NULL, NULL, false };
	static const struct field evidence = { "evidence", 0, NULL, NULL, false };
	json_object *compiler;
	int r;

	if (!json_object_object_get_ex(root, "compiler", &compiler) ||
		!json_object_is_type(compiler, json_type_object))
		return error_set(error, -EBADMSG, "\"compiler\" is missing or no object");
	r = take_field(compiler, "compiler", &name, &lock->compiler, error);
	return r < 0 ? r
		     : take_field(compiler, "compiler", &evidence, &lock->compiler_evidence, error);
}

static int lock_from_json(json_object *root, struct lock *lock, struct error *error)
{
	json_object *schema;
	int r;

	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "it is no object");
	if (!json_object_object_get_ex(root, "schema", &schema) ||
		!json_object_is_type(schema, json_type_int) ||
		json_object_get_int64(schema) != LOCK_SCHEMA)
		return error_set(error, -EBADMSG,
			"\"schema\" is not %d: make it anew with slipway resolve -o", LOCK_SCHEMA);
	r = take_fields(root, &of_lock, lock, error);
	if (r == 0)
		r = take_compiler(root, lock, error);
	if (r == 0)
		r = take_list(root, "kernel_from", lock, take_local, error);
	if (r == 0)
		r = take_list(root, "packages", lock, take_package, error);
	return r < 0 ? r : take_list(root, "repositories", lock, take_repository, error);
}

int lock_read(const char *text, struct lock *ret, struct error *error)
{
	enum json_tokener_error why = json_tokener_success;
	_cleanup_(put_json) json_object *root = json_tokener_parse_verbose(text, &why);
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

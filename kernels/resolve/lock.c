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

/* A member that is a text, or with @is_number a uint64_t. In the order of the keys. */
struct field {
	const char *key;
	size_t offset;
	bool (*is_right)(const char *text); /* NULL: any text will do */
	const char *wanted;                 /* for messages, where is_right is set */
	bool is_number;
};

#define SHA256_TEXT "64 lower-case hex digits are wanted"
#define NAME_TEXT   "a name without a slash is wanted"

#define ANY       NULL, NULL, false
#define NAME      is_name, NAME_TEXT, false
#define SOMETHING is_something, "it is empty", false
#define SHA256    hash_is_hex, SHA256_TEXT, false
#define NUMBER    NULL, NULL, true

#define PACKAGE(member)    #member, offsetof(struct lock_package, member)
#define REPOSITORY(member) #member, offsetof(struct lock_repository, member)
#define LOCAL(member)      #member, offsetof(struct lock_local, member)
#define LOCK(member)       #member, offsetof(struct lock, member)

static const struct field package_fields[] = {
	{ PACKAGE(architecture), ANY },
	{ PACKAGE(name), NAME },
	{ PACKAGE(purpose), SOMETHING },
	{ PACKAGE(repository), ANY },
	{ PACKAGE(sha256), SHA256 },
	{ PACKAGE(size_bytes), NUMBER },
	{ PACKAGE(url), SOMETHING },
	{ PACKAGE(version), SOMETHING },
};

static const struct field repository_fields[] = {
	{ REPOSITORY(date), ANY },
	{ REPOSITORY(name), SOMETHING },
	{ REPOSITORY(release_sha256), is_sha256_or_nothing, SHA256_TEXT, false },
	{ REPOSITORY(signer), ANY },
	{ REPOSITORY(suite), ANY },
	{ REPOSITORY(url), SOMETHING },
};

static const struct field local_fields[] = {
	{ LOCAL(kind), SOMETHING },
	{ LOCAL(name), NAME },
	{ LOCAL(sha256), SHA256 },
};

static const struct field lock_fields[] = {
	{ LOCK(arch), NAME },
	{ LOCK(krel), krel_is_valid, "it is no kernel release", false },
	{ LOCK(os), NAME },
};

static const struct field compiler_fields[] = {
	{ "evidence", offsetof(struct lock, compiler_evidence), ANY },
	{ "name", offsetof(struct lock, compiler), ANY },
};

struct fields {
	const char *thing; /* "package": for messages */
	const struct field *items;
	size_t count;
	size_t size; /* of the struct */
};

#define FIELDS(thing, fields, type)                                                                \
	{                                                                                          \
		thing, fields, ARRAY_SIZE(fields), sizeof(type)                                    \
	}

static const struct fields of_package = FIELDS("package", package_fields, struct lock_package);
static const struct fields of_repository =
	FIELDS("repository", repository_fields, struct lock_repository);
static const struct fields of_local = FIELDS("kernel_from", local_fields, struct lock_local);
static const struct fields of_lock = FIELDS("lock", lock_fields, struct lock);
static const struct fields of_compiler = FIELDS("compiler", compiler_fields, struct lock);

static void free_fields(const struct fields *fields, void *thing)
{
	for (size_t i = 0; i < fields->count; i++) {
		char **slot = (void *) ((char *) thing + fields->items[i].offset);

		if (fields->items[i].is_number)
			continue;
		free(*slot);
		*slot = NULL;
	}
}

void lock_package_free(struct lock_package *package)
{
	free_fields(&of_package, package);
}

void lock_repository_free(struct lock_repository *repository)
{
	free_fields(&of_repository, repository);
}

void lock_local_free(struct lock_local *local)
{
	free_fields(&of_local, local);
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
	free_fields(&of_lock, lock);
	free_fields(&of_compiler, lock);
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

static void add_field(json_object *object, const struct field *field, const void *thing)
{
	const void *slot = (const char *) thing + field->offset;
	const char *text;

	if (field->is_number) {
		add(object, field->key, json_object_new_uint64(*(const uint64_t *) slot));
		return;
	}
	text = *(char *const *) slot;
	add(object, field->key, json_object_new_string(text ? text : ""));
}

static json_object *new_object(const struct fields *fields, const void *thing)
{
	json_object *object = need(json_object_new_object());

	for (size_t i = 0; i < fields->count; i++)
		add_field(object, &fields->items[i], thing);
	return object;
}

static json_object *new_list(const struct fields *fields, const void *things, size_t count)
{
	json_object *array = need(json_object_new_array());

	for (size_t i = 0; i < count; i++)
		if (json_object_array_add(array,
			    new_object(fields, (const char *) things + i * fields->size)) < 0)
			out_of_memory();
	return array;
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

/* By the order of the keys: json-c keeps the one in which they are added. */
char *lock_write(const struct lock *lock)
{
	_cleanup_(put_json) json_object *root = need(json_object_new_object());

	add_field(root, &lock_fields[0], lock);
	add(root, "compiler", new_object(&of_compiler, lock));
	add(root, "kernel_from", new_list(&of_local, lock->kernel_from, lock->kernel_from_count));
	add_field(root, &lock_fields[1], lock);
	add_field(root, &lock_fields[2], lock);
	add(root, "packages", new_list(&of_package, lock->packages, lock->count));
	add(root, "repositories",
		new_list(&of_repository, lock->repositories, lock->repository_count));
	add(root, "schema", json_object_new_int(LOCK_SCHEMA));
	return xasprintf("%s\n", json_object_to_json_string_ext(root,
					 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* ---- reading */

static int take_field(json_object *object, const char *thing, const struct field *field, void *slot,
	struct error *error)
{
	json_object *value = json_object_object_get(object, field->key);
	const char *text;

	if (field->is_number) {
		if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) <= 0)
			return error_set(error, -EBADMSG,
				"%s: \"%s\" is missing or no positive number", thing, field->key);
		*(uint64_t *) slot = json_object_get_uint64(value);
		return 0;
	}
	if (!json_object_is_type(value, json_type_string))
		return error_set(
			error, -EBADMSG, "%s: \"%s\" is missing or no text", thing, field->key);
	text = json_object_get_string(value);
	/* A zero byte in JSON's text would hide what follows it. */
	if (strlen(text) != (size_t) json_object_get_string_len(value))
		return error_set(error, -EBADMSG, "%s: \"%s\" has a zero byte", thing, field->key);
	if (field->is_right && !field->is_right(text))
		return error_set(error, -EBADMSG, "%s: \"%s\" is \"%.80s\": %s", thing, field->key,
			text, field->wanted);
	*(char **) slot = xstrdup(text);
	return 0;
}

static int take_fields(
	json_object *object, const struct fields *fields, void *thing, struct error *error)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct field *field = &fields->items[i];
		int r = take_field(
			object, fields->thing, field, (char *) thing + field->offset, error);

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

static int take_lists(json_object *root, struct lock *lock, struct error *error)
{
	static const struct {
		const char *key;
		int (*take)(json_object *object, struct lock *lock, struct error *error);
	} lists[] = {
		{ "kernel_from", take_local },
		{ "packages", take_package },
		{ "repositories", take_repository },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		json_object *array = json_object_object_get(root, lists[i].key);

		if (!json_object_is_type(array, json_type_array))
			return error_set(
				error, -EBADMSG, "\"%s\" is missing or no list", lists[i].key);
		for (size_t j = 0; j < json_object_array_length(array); j++) {
			json_object *object = json_object_array_get_idx(array, j);
			int r;

			if (!json_object_is_type(object, json_type_object))
				return error_set(error, -EBADMSG, "\"%s\"[%zu] is no object",
					lists[i].key, j);
			r = lists[i].take(object, lock, error);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int lock_from_json(json_object *root, struct lock *lock, struct error *error)
{
	json_object *schema, *compiler;
	int r;

	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "it is no object");
	schema = json_object_object_get(root, "schema");
	if (!json_object_is_type(schema, json_type_int) ||
		json_object_get_int64(schema) != LOCK_SCHEMA)
		return error_set(error, -EBADMSG,
			"\"schema\" is not %d: make it anew with slipway resolve -o", LOCK_SCHEMA);
	r = take_fields(root, &of_lock, lock, error);
	if (r < 0)
		return r;
	compiler = json_object_object_get(root, "compiler");
	if (!json_object_is_type(compiler, json_type_object))
		return error_set(error, -EBADMSG, "\"compiler\" is missing or no object");
	r = take_fields(compiler, &of_compiler, lock, error);
	return r < 0 ? r : take_lists(root, lock, error);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The lock as a file: docs/lock.md. Each kind of thing is a table of its fields, read and written
 * by the same code. */
#include <fcntl.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "kernels/krel.h"
#include "kernels/resolve/lock.h"

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

/* ---- writing */

static bool add_text(json_object *object, const char *key, const char *value)
{
	json_object *text = json_object_new_string(value ? value : "");

	return text && json_object_object_add(object, key, text) == 0;
}

static bool add_field(json_object *object, const struct field *field, const void *thing)
{
	const void *slot = (const char *) thing + field->offset;
	json_object *number;

	if (!field->is_number)
		return add_text(object, field->key, *(char *const *) slot);
	number = json_object_new_uint64(*(const uint64_t *) slot);
	return number && json_object_object_add(object, field->key, number) == 0;
}

static bool add_fields(json_object *object, const struct fields *fields, const void *thing)
{
	bool good = true;

	for (size_t i = 0; i < fields->count && good; i++)
		good = add_field(object, &fields->items[i], thing);
	return good;
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

/* A list of @count things of @size bytes each. */
static bool add_list(json_object *root, const char *key, const struct fields *fields,
	const void *things, size_t size, size_t count)
{
	json_object *array = json_object_new_array();

	if (!array || json_object_object_add(root, key, array) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		json_object *object = json_object_new_object();

		if (!object || json_object_array_add(array, object) < 0 ||
			!add_fields(object, fields, (const char *) things + i * size))
			return false;
	}
	return true;
}

static bool add_compiler(json_object *root, const struct lock *lock)
{
	json_object *compiler = json_object_new_object();

	return compiler && json_object_object_add(root, "compiler", compiler) == 0 &&
	       add_text(compiler, "evidence", lock->compiler_evidence) &&
	       add_text(compiler, "name", lock->compiler);
}

/* By the order of the keys: json-c keeps the one in which they are added. */
static bool fill(json_object *root, const struct lock *lock)
{
	return add_text(root, "arch", lock->arch) && add_compiler(root, lock) &&
	       add_list(root, "kernel_from", &of_local, lock->kernel_from,
		       sizeof(*lock->kernel_from), lock->kernel_from_count) &&
	       add_text(root, "krel", lock->krel) && add_text(root, "os", lock->os) &&
	       add_list(root, "packages", &of_package, lock->packages, sizeof(*lock->packages),
		       lock->count) &&
	       add_list(root, "repositories", &of_repository, lock->repositories,
		       sizeof(*lock->repositories), lock->repository_count) &&
	       json_object_object_add(root, "schema", json_object_new_int(LOCK_SCHEMA)) == 0;
}

char *lock_write(const struct lock *lock)
{
	_cleanup_(put_json) json_object *root = json_object_new_object();
	const char *text;
	char *copy;

	if (!root || !fill(root, lock))
		return NULL;
	text = json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	return text && asprintf(&copy, "%s\n", text) >= 0 ? copy : NULL;
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
	*slot = strdup(text);
	return *slot ? 0 : error_set_errno(error, -ENOMEM, "lock");
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

	if (r < 0)
		return r;
	r = lock_add(lock, &package);
	return r < 0 ? error_set_errno(error, r, "lock") : 0;
}

static int take_repository(json_object *object, struct lock *lock, struct error *error)
{
	_cleanup_(lock_repository_free) struct lock_repository repository = { 0 };
	int r = take_fields(object, &of_repository, &repository, error);

	if (r < 0)
		return r;
	r = lock_add_repository(lock, &repository);
	return r < 0 ? error_set_errno(error, r, "lock") : 0;
}

static int take_local(json_object *object, struct lock *lock, struct error *error)
{
	_cleanup_(lock_local_free) struct lock_local local = { 0 };
	int r = take_fields(object, &of_local, &local, error);

	if (r < 0)
		return r;
	r = lock_add_local(lock, &local);
	return r < 0 ? error_set_errno(error, r, "lock") : 0;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lock.h"

#include <json-c/json.h>
#include <string.h>

#define LOCK_SCHEMA 1

static int compare_packages(const void *a, const void *b)
{
	const struct lock_package *left = a;
	const struct lock_package *right = b;
	int difference = strcmp(left->name, right->name);

	return difference ? difference : strcmp(left->version, right->version);
}

int lock_add(struct lock *lock, struct lock_package *package)
{
	struct lock_package *grown =
		reallocarray(lock->packages, lock->count + 1, sizeof(*lock->packages));

	if (!grown)
		return -ENOMEM;
	lock->packages = grown;
	lock->packages[lock->count++] = *package;
	*package = (struct lock_package){ 0 };
	qsort(lock->packages, lock->count, sizeof(*lock->packages), compare_packages);
	return 0;
}

const struct lock_package *lock_find(const struct lock *lock, const char *purpose)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].purpose, purpose) == 0)
			return &lock->packages[i];
	return NULL;
}

static void add_text(json_object *object, const char *key, const char *value)
{
	(void) json_object_object_add(object, key, json_object_new_string(value ? value : ""));
}

static json_object *package_to_json(const struct lock_package *package)
{
	json_object *object = json_object_new_object();

	if (!object)
		return NULL;
	add_text(object, "architecture", package->architecture);
	add_text(object, "name", package->name);
	add_text(object, "purpose", package->purpose);
	add_text(object, "sha256", package->sha256);
	(void) json_object_object_add(
		object, "size_bytes", json_object_new_uint64(package->size_bytes));
	add_text(object, "url", package->url);
	add_text(object, "version", package->version);
	return object;
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

char *lock_write(const struct lock *lock)
{
	_cleanup_(put_json) json_object *root = json_object_new_object();
	json_object *packages = json_object_new_array();
	const char *text;
	char *copy;

	if (!root || !packages)
		return NULL;
	add_text(root, "arch", lock->arch);
	add_text(root, "compiler", lock->compiler);
	add_text(root, "krel", lock->krel);
	add_text(root, "os", lock->os);
	for (size_t i = 0; i < lock->count; i++)
		(void) json_object_array_add(packages, package_to_json(&lock->packages[i]));
	(void) json_object_object_add(root, "packages", packages);
	(void) json_object_object_add(root, "schema", json_object_new_int(LOCK_SCHEMA));
	text = json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	return text && asprintf(&copy, "%s\n", text) >= 0 ? copy : NULL;
}

static int take_text(json_object *object, const char *key, char **slot, struct error *error)
{
	json_object *value;

	if (!json_object_object_get_ex(object, key, &value) ||
		!json_object_is_type(value, json_type_string))
		return error_set(error, -EBADMSG, "lock: \"%s\" is missing or no text", key);
	*slot = strdup(json_object_get_string(value));
	return *slot ? 0 : error_set_errno(error, -ENOMEM, "lock");
}

static int package_from_json(json_object *object, struct lock_package *package, struct error *error)
{
	const struct {
		const char *key;
		char **slot;
	} texts[] = {
		{ "architecture", &package->architecture },
		{ "name", &package->name },
		{ "purpose", &package->purpose },
		{ "sha256", &package->sha256 },
		{ "url", &package->url },
		{ "version", &package->version },
	};
	json_object *size;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int r = take_text(object, texts[i].key, texts[i].slot, error);

		if (r < 0)
			return r;
	}
	if (!json_object_object_get_ex(object, "size_bytes", &size) ||
		!json_object_is_type(size, json_type_int))
		return error_set(error, -EBADMSG,
			"lock: %s: \"size_bytes\" is missing or no number", package->name);
	package->size_bytes = json_object_get_uint64(size);
	return 0;
}

static int packages_from_json(json_object *array, struct lock *lock, struct error *error)
{
	for (size_t i = 0; i < json_object_array_length(array); i++) {
		_cleanup_(lock_package_free) struct lock_package package = { 0 };
		int r = package_from_json(json_object_array_get_idx(array, i), &package, error);

		if (r < 0)
			return r;
		if (lock_add(lock, &package) < 0)
			return error_set_errno(error, -ENOMEM, "lock");
	}
	return 0;
}

static int lock_from_json(json_object *root, struct lock *lock, struct error *error)
{
	json_object *schema, *packages;
	int r;

	if (!json_object_object_get_ex(root, "schema", &schema) ||
		json_object_get_int(schema) != LOCK_SCHEMA)
		return error_set(error, -EBADMSG, "lock: \"schema\" is not %d", LOCK_SCHEMA);
	if (!json_object_object_get_ex(root, "packages", &packages) ||
		!json_object_is_type(packages, json_type_array))
		return error_set(error, -EBADMSG, "lock: \"packages\" is missing or no list");
	r = take_text(root, "arch", &lock->arch, error);
	if (r == 0)
		r = take_text(root, "compiler", &lock->compiler, error);
	if (r == 0)
		r = take_text(root, "krel", &lock->krel, error);
	if (r == 0)
		r = take_text(root, "os", &lock->os, error);
	return r < 0 ? r : packages_from_json(packages, lock, error);
}

int lock_read(const char *text, struct lock *ret, struct error *error)
{
	_cleanup_(put_json) json_object *root = json_tokener_parse(text);
	_cleanup_(lock_free) struct lock lock = { 0 };
	int r;

	if (!root)
		return error_set(error, -EBADMSG, "lock: no JSON");
	r = lock_from_json(root, &lock, error);
	if (r < 0)
		return r;
	*ret = lock;
	lock = (struct lock){ 0 };
	return 0;
}

void lock_package_free(struct lock_package *package)
{
	free(package->name);
	free(package->version);
	free(package->architecture);
	free(package->purpose);
	free(package->url);
	free(package->sha256);
	*package = (struct lock_package){ 0 };
}

void lock_free(struct lock *lock)
{
	for (size_t i = 0; i < lock->count; i++)
		lock_package_free(&lock->packages[i]);
	free(lock->packages);
	free(lock->krel);
	free(lock->os);
	free(lock->arch);
	free(lock->compiler);
	*lock = (struct lock){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of thing is a table of its texts, written, read and freed by the same code. */
#include "cli/bundle/bundle.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/krel.h"

struct field {
	const char *key;
	size_t offset;
	bool (*is_right)(const char *text); /* NULL: any text will do */
	const char *old_key;                /* in bundles of older versions; or NULL */
};

struct fields {
	const char *thing; /* for messages */
	const struct field *items;
	size_t count;
};

static bool is_name(const char *text)
{
	return *text && !strchr(text, '/') && *text != '.';
}

static bool is_something(const char *text)
{
	return *text;
}

static bool is_yes_or_no(const char *text)
{
	return strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
}

static bool is_kind(const char *text)
{
	return strcmp(text, BUNDLE_SOURCE_NONE) == 0 || strcmp(text, BUNDLE_SOURCE_WORD) == 0 ||
	       strcmp(text, BUNDLE_SOURCE_TREE) == 0 || strcmp(text, BUNDLE_SOURCE_FILE) == 0;
}

/* Nothing that buildah could take for an option, or for another image than one of ours. */
static bool is_our_image(const char *text)
{
	static const char ours[] = "localhost/slipway/";

	return strncmp(text, ours, strlen(ours)) == 0;
}

static const struct field file_fields[] = {
	{ "path", offsetof(struct bundle_file, path), is_something, NULL },
	{ "sha256", offsetof(struct bundle_file, sha256), hash_is_hex, NULL },
};
static const struct field image_fields[] = {
	{ "file", offsetof(struct bundle_image, file), is_something, NULL },
	{ "id", offsetof(struct bundle_image, id), hash_is_hex, NULL },
	{ "key", offsetof(struct bundle_image, key), hash_is_hex, NULL },
	{ "name", offsetof(struct bundle_image, name), is_our_image, NULL },
	{ "stage", offsetof(struct bundle_image, stage), is_name, "arrow" },
};
static const struct field source_fields[] = {
	{ "file", offsetof(struct bundle_source, file), NULL, NULL },
	{ "kind", offsetof(struct bundle_source, kind), is_kind, NULL },
	{ "name", offsetof(struct bundle_source, name), NULL, NULL },
};
static const struct field target_fields[] = {
	{ "arch", offsetof(struct bundle_target, arch), is_name, NULL },
	{ "krel", offsetof(struct bundle_target, krel), krel_is_valid, NULL },
	{ "lock", offsetof(struct bundle_target, lock), is_something, NULL },
	{ "os", offsetof(struct bundle_target, os), is_name, NULL },
	{ "refreshed", offsetof(struct bundle_target, refreshed), NULL, NULL },
	{ "unsigned_lists", offsetof(struct bundle_target, unsigned_lists), is_yes_or_no, NULL },
};
static const struct field manifest_fields[] = {
	{ "slipway", offsetof(struct bundle_manifest, slipway), is_something, NULL },
};

static const struct fields of_file = { "file", file_fields, ARRAY_SIZE(file_fields) };
static const struct fields of_image = { "image", image_fields, ARRAY_SIZE(image_fields) };
static const struct fields of_source = { "source", source_fields, ARRAY_SIZE(source_fields) };
static const struct fields of_target = { "target", target_fields, ARRAY_SIZE(target_fields) };
static const struct fields of_manifest = { "bundle", manifest_fields, ARRAY_SIZE(manifest_fields) };

static char **slot_of(const void *thing, const struct field *field)
{
	return (char **) (uintptr_t) ((const char *) thing + field->offset);
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

/* ---- lists that grow */

/* Appends an item of zeros to @items, and gives it. */
#define GROW(items, count)                                                                         \
	((items) = xreallocarray((items), (count) + 1, sizeof(*(items))),                          \
		memset(&(items)[count], 0, sizeof(*(items))), &(items)[(count)++])

struct bundle_target *bundle_add_target(struct bundle_manifest *manifest)
{
	return GROW(manifest->targets, manifest->target_count);
}

struct bundle_file *bundle_add_file(struct bundle_manifest *manifest)
{
	return GROW(manifest->files, manifest->file_count);
}

struct bundle_image *bundle_add_image(struct bundle_target *target)
{
	return GROW(target->images, target->image_count);
}

struct bundle_source *bundle_add_kernel(struct bundle_target *target)
{
	return GROW(target->kernel_from, target->kernel_from_count);
}

const struct bundle_file *bundle_find_file(const struct bundle_manifest *manifest, const char *path)
{
	for (size_t i = 0; i < manifest->file_count; i++)
		if (strcmp(manifest->files[i].path, path) == 0)
			return &manifest->files[i];
	return NULL;
}

static void free_fields(const struct fields *fields, const void *thing)
{
	for (size_t i = 0; i < fields->count; i++)
		free(*slot_of(thing, &fields->items[i]));
}

static void free_target(struct bundle_target *target)
{
	free_fields(&of_target, target);
	free_fields(&of_source, &target->ofed);
	free_fields(&of_source, &target->nvidia);
	free_fields(&of_source, &target->base);
	for (size_t i = 0; i < target->image_count; i++)
		free_fields(&of_image, &target->images[i]);
	for (size_t i = 0; i < target->kernel_from_count; i++)
		free_fields(&of_source, &target->kernel_from[i]);
	free(target->images);
	free(target->kernel_from);
}

void bundle_manifest_free(struct bundle_manifest *manifest)
{
	for (size_t i = 0; i < manifest->target_count; i++)
		free_target(&manifest->targets[i]);
	for (size_t i = 0; i < manifest->file_count; i++)
		free_fields(&of_file, &manifest->files[i]);
	free(manifest->targets);
	free(manifest->files);
	free(manifest->slipway);
	*manifest = (struct bundle_manifest){ 0 };
}

/* ---- writing */

static json_object *to_json(const struct fields *fields, const void *thing)
{
	json_object *object = json_object_new_object();

	for (size_t i = 0; i < fields->count; i++) {
		const char *text = *slot_of(thing, &fields->items[i]);

		(void) json_object_object_add(
			object, fields->items[i].key, json_object_new_string(text ? text : ""));
	}
	return object;
}

static json_object *list_to_json(
	const struct fields *fields, const void *things, size_t size, size_t count)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < count; i++)
		(void) json_object_array_add(
			list, to_json(fields, (const char *) things + i * size));
	return list;
}

static json_object *target_to_json(const struct bundle_target *target)
{
	json_object *object = to_json(&of_target, target);

	(void) json_object_object_add(object, "base", to_json(&of_source, &target->base));
	(void) json_object_object_add(object, "images",
		list_to_json(
			&of_image, target->images, sizeof(*target->images), target->image_count));
	(void) json_object_object_add(object, "kernel_from",
		list_to_json(&of_source, target->kernel_from, sizeof(*target->kernel_from),
			target->kernel_from_count));
	(void) json_object_object_add(object, "nvidia", to_json(&of_source, &target->nvidia));
	(void) json_object_object_add(object, "ofed", to_json(&of_source, &target->ofed));
	return object;
}

static json_object *file_to_json(const struct bundle_file *file)
{
	json_object *object = to_json(&of_file, file);

	(void) json_object_object_add(
		object, "size_bytes", json_object_new_uint64(file->size_bytes));
	return object;
}

char *bundle_manifest_write(const struct bundle_manifest *manifest)
{
	_cleanup_(put_json) json_object *root = to_json(&of_manifest, manifest);
	json_object *targets = json_object_new_array();
	json_object *files = json_object_new_array();

	(void) json_object_object_add(root, "schema", json_object_new_int(BUNDLE_SCHEMA));
	(void) json_object_object_add(root, "targets", targets);
	(void) json_object_object_add(root, "files", files);
	for (size_t i = 0; i < manifest->target_count; i++)
		(void) json_object_array_add(targets, target_to_json(&manifest->targets[i]));
	for (size_t i = 0; i < manifest->file_count; i++)
		(void) json_object_array_add(files, file_to_json(&manifest->files[i]));
	return xasprintf("%s\n", json_object_to_json_string_ext(root,
					 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* ---- reading */

static int read_fields(
	json_object *object, const struct fields *fields, void *thing, struct error *error)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct field *field = &fields->items[i];
		char **slot = slot_of(thing, field);
		json_object *value;

		if ((!json_object_object_get_ex(object, field->key, &value) &&
			    (!field->old_key ||
				    !json_object_object_get_ex(object, field->old_key, &value))) ||
			!json_object_is_type(value, json_type_string))
			return error_set(error, -EBADMSG, "%s: \"%s\" is missing or no text",
				fields->thing, field->key);
		*slot = xstrdup(json_object_get_string(value));
		if (strlen(*slot) != (size_t) json_object_get_string_len(value) ||
			(field->is_right && !field->is_right(*slot)))
			return error_set(error, -EBADMSG, "%s: \"%s\" cannot be \"%.80s\"",
				fields->thing, field->key, *slot);
	}
	return 0;
}

static int get_list(json_object *object, const char *key, json_object **ret, struct error *error)
{
	if (!json_object_object_get_ex(object, key, ret) ||
		!json_object_is_type(*ret, json_type_array))
		return error_set(error, -EBADMSG, "\"%s\" is missing or no list", key);
	return 0;
}

static int read_files(json_object *root, struct bundle_manifest *manifest, struct error *error)
{
	json_object *list, *size;
	int r = get_list(root, "files", &list, error);

	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++) {
		json_object *object = json_object_array_get_idx(list, i);
		struct bundle_file *file = bundle_add_file(manifest);

		r = read_fields(object, &of_file, file, error);
		if (r < 0)
			return r;
		if (unpack_leads_out(file->path))
			return error_set(
				error, -EXDEV, "file %s leads out of the bundle", file->path);
		if (!json_object_object_get_ex(object, "size_bytes", &size) ||
			!json_object_is_type(size, json_type_int) ||
			json_object_get_int64(size) < 0)
			return error_set(error, -EBADMSG, "file %s: \"size_bytes\" is no number",
				file->path);
		file->size_bytes = (uint64_t) json_object_get_int64(size);
	}
	return r;
}

static int read_source(
	json_object *target, const char *key, struct bundle_source *source, struct error *error)
{
	json_object *object;
	int r;

	if (!json_object_object_get_ex(target, key, &object))
		return error_set(error, -EBADMSG, "target: \"%s\" is missing", key);
	r = read_fields(object, &of_source, source, error);
	return r < 0 ? error_prefix(error, r, "%s", key) : 0;
}

/* "images" and "kernel_from". */
static int read_lists(json_object *object, struct bundle_target *target, struct error *error)
{
	json_object *list;
	int r = get_list(object, "images", &list, error);

	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++)
		r = read_fields(json_object_array_get_idx(list, i), &of_image,
			bundle_add_image(target), error);
	if (r == 0)
		r = get_list(object, "kernel_from", &list, error);
	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++)
		r = read_fields(json_object_array_get_idx(list, i), &of_source,
			bundle_add_kernel(target), error);
	return r;
}

/* "" is nothing to look for. */
static int check_file(const struct bundle_manifest *manifest, const char *path, struct error *error)
{
	if (!*path || bundle_find_file(manifest, path))
		return 0;
	return error_set(
		error, -EBADMSG, "a target names the file %s, which is not in the list", path);
}

static int check_target(const struct bundle_manifest *manifest, const struct bundle_target *target,
	struct error *error)
{
	int r = check_file(manifest, target->lock, error);

	if (r == 0)
		r = check_file(manifest, target->ofed.file, error);
	if (r == 0)
		r = check_file(manifest, target->nvidia.file, error);
	if (r == 0)
		r = check_file(manifest, target->base.file, error);
	for (size_t i = 0; i < target->image_count && r == 0; i++)
		r = check_file(manifest, target->images[i].file, error);
	for (size_t i = 0; i < target->kernel_from_count && r == 0; i++)
		r = check_file(manifest, target->kernel_from[i].file, error);
	return r;
}

static int read_target(json_object *object, struct bundle_manifest *manifest, struct error *error)
{
	struct bundle_target *target = bundle_add_target(manifest);
	int r = read_fields(object, &of_target, target, error);

	if (r == 0)
		r = read_source(object, "ofed", &target->ofed, error);
	if (r == 0)
		r = read_source(object, "nvidia", &target->nvidia, error);
	if (r == 0)
		r = read_source(object, "base", &target->base, error);
	if (r == 0)
		r = read_lists(object, target, error);
	return r < 0 ? r : check_target(manifest, target, error);
}

static int read_all(json_object *root, struct bundle_manifest *manifest, struct error *error)
{
	json_object *schema, *list;
	int r;

	if (!json_object_object_get_ex(root, "schema", &schema) ||
		!json_object_is_type(schema, json_type_int))
		return error_set(error, -EBADMSG, "\"schema\" is missing or no number");
	if (json_object_get_int(schema) != BUNDLE_SCHEMA)
		return error_set(error, -EINVAL,
			"made by another slipway, with schema %d; this one reads schema %d",
			json_object_get_int(schema), BUNDLE_SCHEMA);
	r = read_fields(root, &of_manifest, manifest, error);
	if (r == 0)
		r = read_files(root, manifest, error);
	if (r == 0)
		r = get_list(root, "targets", &list, error);
	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++)
		r = read_target(json_object_array_get_idx(list, i), manifest, error);
	if (r == 0 && manifest->target_count == 0)
		return error_set(error, -EBADMSG, "it has no target");
	return r;
}

int bundle_manifest_read(const char *text, struct bundle_manifest *ret, struct error *error)
{
	_cleanup_(bundle_manifest_free) struct bundle_manifest manifest = { 0 };
	_cleanup_(put_json) json_object *root = json_tokener_parse(text);
	int r = root && json_object_is_type(root, json_type_object)
			? read_all(root, &manifest, error)
			: error_set(error, -EBADMSG, "no JSON object");

	if (r < 0)
		return error_prefix(error, r, BUNDLE_MANIFEST);
	*ret = manifest;
	manifest = (struct bundle_manifest){ 0 };
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

static void add_text(json_object *object, const char *key, const char *value)
{
	(void) json_object_object_add(object, key, json_object_new_string(value));
}

static void add_count(json_object *object, const char *key, const char *number)
{
	(void) json_object_object_add(
		object, key, json_object_new_uint64(strtoull(number, NULL, 10)));
}

json_object *image_to_json(const struct image *image)
{
	json_object *object = json_object_new_object();

	if (!object)
		return NULL;
	add_text(object, "role", image->role);
	add_text(object, "reference", image->reference);
	add_text(object, "version", image->version);
	add_text(object, "tag", image->tag);
	add_text(object, "id", image->id);
	add_text(object, "digest", image->digest);
	add_text(object, "proof", image->proof);
	add_count(object, "modules", image->modules);
	add_count(object, "loading", image->loading);
	if (image->peermem)
		add_text(object, "peermem", image->peermem);
	(void) json_object_object_add(
		object, "size_bytes", json_object_new_uint64(image->size_bytes));
	return object;
}

int image_write(const char *folder, const struct image *image, struct error *error)
{
	_cleanup_(put_json) json_object *object = image_to_json(image);
	_cleanup_free_ char *path = NULL;
	const char *text =
		object ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE)
		       : NULL;
	int r;

	if (!text || asprintf(&path, "%s/image.json", folder) < 0)
		return error_set_errno(error, -ENOMEM, "image.json");
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int take_fields(json_object *object, struct image *image)
{
	const struct {
		const char *key;
		char **slot;
	} fields[] = {
		{ "role", &image->role },
		{ "version", &image->version },
		{ "tag", &image->tag },
		{ "reference", &image->reference },
		{ "id", &image->id },
		{ "digest", &image->digest },
		{ "proof", &image->proof },
		{ "modules", &image->modules },
		{ "loading", &image->loading },
	};
	json_object *value;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!json_object_object_get_ex(object, fields[i].key, &value))
			return -EBADMSG;
		*fields[i].slot = strdup(json_object_get_string(value));
		if (!*fields[i].slot)
			return -ENOMEM;
	}
	/* The NIC image has none, nor has one in the cache that an earlier Slipway made. */
	if (json_object_object_get_ex(object, "peermem", &value)) {
		image->peermem = strdup(json_object_get_string(value));
		if (!image->peermem)
			return -ENOMEM;
	}
	if (!json_object_object_get_ex(object, "size_bytes", &value))
		return -EBADMSG;
	image->size_bytes = json_object_get_uint64(value);
	return 0;
}

int image_read(const char *folder, struct image *ret, struct error *error)
{
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_(put_json) json_object *object = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (asprintf(&path, "%s/image.json", folder) < 0)
		return error_set_errno(error, -ENOMEM, "image.json");
	r = fs_read(AT_FDCWD, path, 0, &text, NULL);
	if (r == 0) {
		object = json_tokener_parse(text);
		r = object ? take_fields(object, &image) : -EBADMSG;
	}
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	*ret = image;
	image = (struct image){ 0 };
	return 0;
}

bool image_is_proven(const struct image *image)
{
	return strcmp(image->proof, "holds") == 0;
}

void image_free(struct image *image)
{
	free(image->role);
	free(image->version);
	free(image->tag);
	free(image->reference);
	free(image->id);
	free(image->digest);
	free(image->proof);
	free(image->modules);
	free(image->loading);
	free(image->peermem);
	*image = (struct image){ 0 };
}

int image_set_id(int root_fd, const char *folder, char ret_id[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	int r = hash ? hash_add_tree(hash, root_fd, folder) : -ENOMEM;

	if (hash)
		hash_finish(hash, ret_id);
	return r;
}

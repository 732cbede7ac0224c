/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a bundle: its form, by tables, and the rules that no table can say. */
#include <stdbool.h>
#include <string.h>

#include "cli/bundle/bundle.h"
#include "cli/json.h"
#include "cli/stage/build.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

/* ---- its form */

static bool is_name(const char *text)
{
	return *text && !strchr(text, '/') && *text != '.';
}

static bool is_something(const char *text)
{
	return *text;
}

static bool is_sha256_or_nothing(const char *text)
{
	return !*text || hash_is_hex(text);
}

static bool is_kind(const char *text)
{
	return strcmp(text, BUNDLE_SOURCE_PACKAGE) == 0 || strcmp(text, BUNDLE_SOURCE_TREE) == 0 ||
	       strcmp(text, BUNDLE_SOURCE_FILE) == 0;
}

/* Nothing that buildah could take for an option, or for another image than one of ours. */
static bool is_our_image(const char *text)
{
	return strncmp(text, IMAGE_LOCAL, strlen(IMAGE_LOCAL)) == 0;
}

#define NAME      .is_right = is_name, .wanted = "a name without a slash is wanted"
#define SHA256    .is_right = hash_is_hex, .wanted = "64 lower-case hex digits are wanted"
#define SOMETHING .is_right = is_something, .wanted = "it is empty"

#define FILE_FIELD(member)     JSON_FIELD(#member, JSON_TEXT, struct bundle_file, member)
#define IMAGE(member)          JSON_FIELD(#member, JSON_TEXT, struct bundle_image, member)
#define OUTPUT(member)         JSON_FIELD(#member, JSON_TEXT, struct bundle_output, member)
#define SOURCE(member)         JSON_FIELD(#member, JSON_TEXT, struct bundle_source, member)
#define TARGET(member, kind)   JSON_FIELD(#member, kind, struct bundle_target, member)
#define MANIFEST(member, kind) JSON_FIELD(#member, kind, struct bundle_manifest, member)

static const struct json_field file_fields[] = {
	{ FILE_FIELD(path), SOMETHING },
	{ FILE_FIELD(sha256), SHA256 },
	{ JSON_FIELD("size_bytes", JSON_SIZE, struct bundle_file, size_bytes) },
};

static const struct json_field image_fields[] = {
	{ IMAGE(file), SOMETHING },
	{ IMAGE(id), SHA256 },
	{ IMAGE(key), SHA256 },
	{ IMAGE(name), .is_right = is_our_image, .wanted = "it is no image of slipway's" },
	{ IMAGE(stage), NAME },
};

static const struct json_field output_fields[] = {
	{ OUTPUT(file), SOMETHING },
	{ OUTPUT(key), SHA256 },
	{ OUTPUT(stage), NAME },
};

static const struct json_field source_fields[] = {
	{ SOURCE(option), NAME },
	{ SOURCE(kind), .is_right = is_kind, .wanted = "package, tree or file is wanted" },
	{ SOURCE(name) },
	{ SOURCE(file) },
};

static const struct json_field base_fields[] = {
	{ JSON_FIELD("file", JSON_TEXT, struct bundle_target, base_file) },
	{ JSON_FIELD("id", JSON_TEXT, struct bundle_target, base_id),
		.is_right = is_sha256_or_nothing, .wanted = "64 lower-case hex digits are wanted" },
};

static const struct json_fields of_file = JSON_FIELDS("file", file_fields, struct bundle_file);
static const struct json_fields of_image = JSON_FIELDS("image", image_fields, struct bundle_image);
static const struct json_fields of_output =
	JSON_FIELDS("output", output_fields, struct bundle_output);
static const struct json_fields of_source =
	JSON_FIELDS("source", source_fields, struct bundle_source);
static const struct json_fields of_base = JSON_FIELDS("base", base_fields, struct bundle_target);

static const struct json_field target_fields[] = {
	{ TARGET(krel, JSON_TEXT), .is_right = krel_is_valid, .wanted = "it is no kernel release" },
	{ TARGET(os, JSON_TEXT), NAME },
	{ TARGET(arch, JSON_TEXT), NAME },
	{ TARGET(lock, JSON_TEXT), SOMETHING },
	{ TARGET(args, JSON_TEXTS) },
	{ TARGET(downloads, JSON_TEXTS) },
	{ TARGET(root, JSON_TEXT), NAME },
	{ TARGET(root_stamp, JSON_TEXT) },
	{ TARGET(runtime_stamp, JSON_TEXT) },
	{ TARGET(unsigned_lists, JSON_BOOL) },
	{ TARGET(images, JSON_LIST), .of = &of_image },
	{ TARGET(outputs, JSON_LIST), .of = &of_output },
	{ .key = "base", .kind = JSON_OBJECT, .of = &of_base },
	{ TARGET(sources, JSON_LIST), .of = &of_source },
};

static const struct json_fields of_target =
	JSON_FIELDS("target", target_fields, struct bundle_target);

static const struct json_field manifest_fields[] = {
	{ MANIFEST(slipway, JSON_TEXT), SOMETHING },
	{ MANIFEST(targets, JSON_LIST), .of = &of_target },
	{ MANIFEST(files, JSON_LIST), .of = &of_file },
};

static const struct json_fields of_manifest =
	JSON_FIELDS("bundle", manifest_fields, struct bundle_manifest);

JSON_HAS_COUNT(struct bundle_manifest, files, file_count);
JSON_HAS_COUNT(struct bundle_manifest, targets, target_count);
JSON_HAS_COUNT(struct bundle_target, images, image_count);
JSON_HAS_COUNT(struct bundle_target, outputs, output_count);
JSON_HAS_COUNT(struct bundle_target, sources, source_count);

/* ---- reading and writing */

bool bundle_has_file(const struct bundle_manifest *manifest, const char *path)
{
	return bundle_find_file(manifest, path) < manifest->file_count;
}

size_t bundle_find_file(const struct bundle_manifest *manifest, const char *path)
{
	size_t at = 0;

	while (at < manifest->file_count && strcmp(manifest->files[at].path, path) != 0)
		at++;
	return at;
}

size_t bundle_find_build(const struct bundle_manifest *manifest, const struct strv *args)
{
	for (size_t i = 0; i < manifest->target_count; i++) {
		const struct strv *made_for = &manifest->targets[i].args;
		size_t same = 0;

		while (same < args->count && same < made_for->count &&
			strcmp(args->items[same], made_for->items[same]) == 0)
			same++;
		if (same && same == args->count && same == made_for->count)
			return i;
	}
	return manifest->target_count;
}

bool bundle_target_reads(const struct bundle_target *target, const char *path)
{
	if (strcmp(target->lock, path) == 0 || strcmp(target->base_file, path) == 0 ||
		strv_contains(&target->downloads, path))
		return true;
	for (size_t i = 0; i < target->image_count; i++)
		if (strcmp(target->images[i].file, path) == 0)
			return true;
	for (size_t i = 0; i < target->output_count; i++)
		if (strcmp(target->outputs[i].file, path) == 0)
			return true;
	for (size_t i = 0; i < target->source_count; i++)
		if (strcmp(target->sources[i].file, path) == 0)
			return true;
	return false;
}

static int check_named(
	const struct bundle_manifest *manifest, const char *path, struct error *error)
{
	return bundle_has_file(manifest, path)
		       ? 0
		       : error_set(error, -EBADMSG,
				 "a target names the file \"%.80s\", which is not in the list",
				 path);
}

/* A package is in the lock, and only a driver has one. */
static int check_source(const struct bundle_manifest *manifest, const struct bundle_source *source,
	struct error *error)
{
	if (strcmp(source->kind, BUNDLE_SOURCE_PACKAGE) != 0)
		return check_named(manifest, source->file, error);
	if (*source->file || strcmp(source->option, BUNDLE_KERNEL_FROM) == 0 ||
		strcmp(source->option, BUNDLE_USERSPACE) == 0 ||
		redist_find(source->option) != REDIST_COUNT)
		return error_set(error, -EBADMSG,
			"a target has a package for --%.80s that has a file or is no driver's",
			source->option);
	return 0;
}

static int check_target(const struct bundle_manifest *manifest, const struct bundle_target *target,
	struct error *error)
{
	int r = check_named(manifest, target->lock, error);

	if (r == 0 && *target->base_id)
		r = check_named(manifest, target->base_file, error);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < target->downloads.count; i++)
		r = check_named(manifest, target->downloads.items[i], error);
	for (size_t i = 0; r == 0 && i < target->output_count; i++)
		r = check_named(manifest, target->outputs[i].file, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < target->image_count; i++) {
		r = check_named(manifest, target->images[i].file, error);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < target->source_count; i++) {
		r = check_source(manifest, &target->sources[i], error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_manifest(const struct bundle_manifest *manifest, struct error *error)
{
	for (size_t i = 0; i < manifest->file_count; i++)
		if (unpack_leads_out(manifest->files[i].path))
			return error_set(error, -EXDEV, "file %s leads out of the bundle",
				manifest->files[i].path);
	if (!manifest->target_count)
		return error_set(error, -EBADMSG, "it has no target");
	for (size_t i = 0; i < manifest->target_count; i++) {
		int r = check_target(manifest, &manifest->targets[i], error);

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_fields(
	struct json_object *root, struct bundle_manifest *manifest, struct error *error)
{
	struct json_object *schema = json_object_object_get(root, "schema");
	int r;

	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "no JSON object");
	if (!json_object_is_type(schema, json_type_int))
		return error_set(error, -EBADMSG, "\"schema\" is missing or no number");
	if (json_object_get_int(schema) != BUNDLE_SCHEMA)
		return error_set(error, -EBADMSG,
			"made by another slipway, with schema %d; this one reads schema %d",
			json_object_get_int(schema), BUNDLE_SCHEMA);
	r = json_fields_read(root, &of_manifest, manifest, error);
	return r < 0 ? r : check_manifest(manifest, error);
}

int bundle_manifest_read(const char *text, struct bundle_manifest *ret, struct error *error)
{
	_cleanup_json_ struct json_object *root = json_tokener_parse(text);
	int r;

	*ret = (struct bundle_manifest){ 0 };
	r = read_fields(root, ret, error);
	if (r == 0)
		return 0;
	bundle_manifest_free(ret);
	return error_prefix(error, r, BUNDLE_MANIFEST);
}

char *bundle_manifest_write(const struct bundle_manifest *manifest)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();

	json_member_add(root, "schema", json_object_new_int(BUNDLE_SCHEMA));
	json_fields_add(root, &of_manifest, manifest);
	return json_pretty(root);
}

void bundle_manifest_free(struct bundle_manifest *manifest)
{
	json_fields_free(&of_manifest, manifest);
}

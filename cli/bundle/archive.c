/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle as a file: what its manifest may be, and the tarball. */
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/pack.h"
#include "kernels/archive/unpack.h"
#include "kernels/krel.h"

/* ---- the manifest */

/* Schema of the manifest: the members of each kind of object. */
struct rule {
	const char *key;
	enum json_type type;                /* of a number: not negative */
	bool (*is_right)(const char *text); /* of a text; NULL: any will do */
	const struct rule *rules;           /* of the object, or of each in the list */
	const char *thing;                  /* its name, for messages */
	bool is_file;                       /* it is in the list of files, or "" */
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

static const struct rule file_rules[] = {
	{ "path", json_type_string, .is_right = is_something },
	{ "sha256", json_type_string, .is_right = hash_is_hex },
	{ .key = "size_bytes", .type = json_type_int },
	{ NULL },
};
static const struct rule image_rules[] = {
	{ "file", json_type_string, .is_right = is_something, .is_file = true },
	{ "id", json_type_string, .is_right = hash_is_hex },
	{ "key", json_type_string, .is_right = hash_is_hex },
	{ "name", json_type_string, .is_right = is_our_image },
	{ "stage", json_type_string, .is_right = is_name },
	{ NULL },
};
static const struct rule source_rules[] = {
	{ "file", json_type_string, .is_file = true },
	{ "kind", json_type_string, .is_right = is_kind },
	{ .key = "name", .type = json_type_string },
	{ NULL },
};
static const struct rule target_rules[] = {
	{ "arch", json_type_string, .is_right = is_name },
	{ "krel", json_type_string, .is_right = krel_is_valid },
	{ "lock", json_type_string, .is_right = is_something, .is_file = true },
	{ "os", json_type_string, .is_right = is_name },
	{ "root", json_type_string, .is_right = is_name },
	{ .key = "root_stamp", .type = json_type_string },
	{ .key = "runtime_stamp", .type = json_type_string },
	{ "unsigned_lists", json_type_string, .is_right = is_yes_or_no },
	{ "base", json_type_object, .rules = source_rules, .thing = "base" },
	{ "images", json_type_array, .rules = image_rules, .thing = "image" },
	{ "kernel_from", json_type_array, .rules = source_rules, .thing = "kernel_from" },
	{ "nvidia", json_type_object, .rules = source_rules, .thing = "nvidia" },
	{ "ofed", json_type_object, .rules = source_rules, .thing = "ofed" },
	{ NULL },
};
static const struct rule manifest_rules[] = {
	{ "slipway", json_type_string, .is_right = is_something },
	{ "files", json_type_array, .rules = file_rules, .thing = "file" },
	{ "targets", json_type_array, .rules = target_rules, .thing = "target" },
	{ NULL },
};

json_object *bundle_member(json_object *object, const char *key)
{
	return json_object_object_get(object, key);
}

const char *bundle_text(json_object *object, const char *key)
{
	return json_object_get_string(bundle_member(object, key));
}

size_t bundle_file_count(json_object *manifest)
{
	return json_object_array_length(bundle_member(manifest, "files"));
}

struct bundle_file bundle_file_at(json_object *manifest, size_t index)
{
	json_object *file = json_object_array_get_idx(bundle_member(manifest, "files"), index);

	return (struct bundle_file){
		.path = bundle_text(file, "path"),
		.sha256 = bundle_text(file, "sha256"),
		.size_bytes = json_object_get_uint64(bundle_member(file, "size_bytes")),
	};
}

size_t bundle_file_find(json_object *manifest, const char *path)
{
	size_t count = bundle_file_count(manifest);

	for (size_t i = 0; i < count; i++)
		if (strcmp(bundle_file_at(manifest, i).path, path) == 0)
			return i;
	return count;
}

static int check_object(json_object *manifest, json_object *object, const struct rule *rules,
	const char *thing, struct error *error)
{
	for (const struct rule *rule = rules; rule->key; rule++) {
		json_object *value = NULL;
		const char *text;
		int r = 0;

		(void) json_object_object_get_ex(object, rule->key, &value);
		if (!json_object_is_type(value, rule->type) ||
			(rule->type == json_type_int && json_object_get_int64(value) < 0))
			return error_set(error, -EBADMSG, "%s: \"%s\" is missing or no %s", thing,
				rule->key, json_type_to_name(rule->type));
		text = json_object_get_string(value);
		if (rule->type == json_type_string &&
			(strlen(text) != (size_t) json_object_get_string_len(value) ||
				(rule->is_right && !rule->is_right(text))))
			return error_set(error, -EBADMSG, "%s: \"%s\" cannot be \"%.80s\"", thing,
				rule->key, text);
		if (rule->is_file && *text &&
			bundle_file_find(manifest, text) == bundle_file_count(manifest))
			return error_set(error, -EBADMSG,
				"a target names the file %s, which is not in the list", text);
		if (rule->type == json_type_object)
			r = check_object(manifest, value, rule->rules, rule->thing, error);
		else if (rule->type == json_type_array)
			for (size_t i = 0; i < json_object_array_length(value) && r == 0; i++)
				r = check_object(manifest, json_object_array_get_idx(value, i),
					rule->rules, rule->thing, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_manifest(json_object *root, struct error *error)
{
	json_object *schema;
	int r;

	if (!json_object_is_type(root, json_type_object))
		return error_set(error, -EBADMSG, "no JSON object");
	if (!json_object_object_get_ex(root, "schema", &schema) ||
		!json_object_is_type(schema, json_type_int))
		return error_set(error, -EBADMSG, "\"schema\" is missing or no number");
	if (json_object_get_int(schema) != BUNDLE_SCHEMA)
		return error_set(error, -EINVAL,
			"made by another slipway, with schema %d; this one reads schema %d",
			json_object_get_int(schema), BUNDLE_SCHEMA);
	r = check_object(root, root, manifest_rules, "bundle", error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < bundle_file_count(root); i++) {
		struct bundle_file file = bundle_file_at(root, i);

		if (unpack_leads_out(file.path))
			return error_set(
				error, -EXDEV, "file %s leads out of the bundle", file.path);
	}
	return json_object_array_length(bundle_member(root, "targets"))
		       ? 0
		       : error_set(error, -EBADMSG, "it has no target");
}

int bundle_manifest_read(const char *text, json_object **ret, struct error *error)
{
	int r;

	*ret = json_tokener_parse(text);
	r = check_manifest(*ret, error);
	if (r == 0)
		return 0;
	(void) json_object_put(*ret);
	*ret = NULL;
	return error_prefix(error, r, BUNDLE_MANIFEST);
}

/* ---- writing */

#define TAR_LIMIT (((uint64_t) 8 << 30) - 1) /* what kernels/archive/pack.h writes the size of */

static uint64_t all_bytes(json_object *manifest)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < bundle_file_count(manifest); i++)
		bytes += bundle_file_at(manifest, i).size_bytes;
	return bytes;
}

static void show_bytes(
	struct progress *progress, const char *done, uint64_t bytes, uint64_t of_bytes)
{
	char text[128];

	if (!progress)
		return;
	(void) snprintf(text, sizeof(text), "%s%.1f of %.1f MB", done, (double) bytes / 1e6,
		(double) of_bytes / 1e6);
	progress_at(progress, text);
}

static int write_to(json_object *manifest, const char *folder, const char *path,
	struct progress *progress, struct error *error)
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	_cleanup_(pack_free) struct pack *pack = NULL;
	_cleanup_free_ char *text = NULL;
	uint64_t bytes = 0, of_bytes = all_bytes(manifest);
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	pack = pack_new(fd);
	if (!pack)
		out_of_memory();
	text = json_pretty(manifest);
	r = pack_text(pack, BUNDLE_MANIFEST, text, strlen(text));
	for (size_t i = 0; i < bundle_file_count(manifest) && r == 0; i++) {
		struct bundle_file file = bundle_file_at(manifest, i);
		_cleanup_free_ char *from = xasprintf("%s/%s", folder, file.path);

		if (file.size_bytes > TAR_LIMIT)
			return error_set(error, -EFBIG,
				"%s: a bundle holds no file of more than 8 GiB", file.path);
		r = pack_file(pack, file.path, from);
		bytes += file.size_bytes;
		show_bytes(progress, "", bytes, of_bytes);
	}
	if (r == 0)
		r = pack_finish(pack);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int bundle_pack(json_object *manifest, const char *folder, const char *path,
	struct progress *progress, char *ret_sha256, struct error *error)
{
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", path, (int) getpid());
	struct stat status;
	int r;

	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "-o %s: there is something that is no file", path);
	r = write_to(manifest, folder, temporary, progress, error);
	if (r < 0) {
		(void) unlink(temporary);
		return r;
	}
	r = hash_file(AT_FDCWD, temporary, ret_sha256);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void) unlink(temporary);
	return error_set_errno(error, r, "%s", path);
}

/* ---- reading */

struct unpacking {
	json_object *manifest;
	bool *seen;      /* of each of its files */
	const char *odd; /* what is wrong with an entry; NULL: nothing so far */
};

static void unpacking_free(struct unpacking *unpacking)
{
	(void) json_object_put(unpacking->manifest);
	free(unpacking->seen);
}

/* Also accepts paths that lead out of the folder, so that unpack_run() refuses them. */
static bool is_wanted(void *context, const char *path)
{
	struct unpacking *unpacking = context;
	size_t index = bundle_file_find(unpacking->manifest, path);

	if (unpack_leads_out(path))
		return true;
	if (strcmp(path, BUNDLE_MANIFEST) == 0)
		return false;
	if (index == bundle_file_count(unpacking->manifest)) {
		unpacking->odd = "it has an entry that its manifest does not";
		return false;
	}
	if (unpacking->seen[index])
		unpacking->odd = "it has an entry twice";
	unpacking->seen[index] = true;
	return true;
}

static int check_file(
	const char *bundle, int folder_fd, const struct bundle_file *file, struct error *error)
{
	struct stat status = { 0 };
	char hex[HASH_HEX_SIZE];
	int r;

	if (fstatat(folder_fd, file->path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(error, -errno, "%s: %s", bundle, file->path);
	if (!S_ISREG(status.st_mode))
		return error_set(
			error, -EXDEV, "%s: its entry %s is no plain file", bundle, file->path);
	if ((uint64_t) status.st_size != file->size_bytes)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has not the %llu bytes that its manifest names", bundle,
			file->path, (unsigned long long) file->size_bytes);
	r = hash_file(folder_fd, file->path, hex);
	if (r < 0)
		return error_set_errno(error, r, "%s: %s", bundle, file->path);
	if (strcmp(hex, file->sha256) != 0)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has the SHA-256 %s, and its manifest names %s", bundle,
			file->path, hex, file->sha256);
	return 0;
}

/* @unpacking has what unpack_run() found. */
static int check_files(const char *bundle, const char *folder, const struct unpacking *unpacking,
	struct progress *progress, struct error *error)
{
	_cleanup_close_ int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t bytes = 0, of_bytes = all_bytes(unpacking->manifest);

	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	if (unpacking->odd)
		return error_set(error, -EBADMSG, "%s: altered: %s", bundle, unpacking->odd);
	for (size_t i = 0; i < bundle_file_count(unpacking->manifest); i++) {
		struct bundle_file file = bundle_file_at(unpacking->manifest, i);
		int r = unpacking->seen[i] ? check_file(bundle, folder_fd, &file, error) : 0;

		if (r < 0)
			return r;
		bytes += file.size_bytes;
		show_bytes(progress, "checked ", bytes, of_bytes);
	}
	for (size_t i = 0; i < bundle_file_count(unpacking->manifest); i++)
		if (!unpacking->seen[i])
			return error_set(error, -EBADMSG,
				"%s: cut short: %s is missing in it; copy it again", bundle,
				bundle_file_at(unpacking->manifest, i).path);
	return 0;
}

/* Refuses the bundle as damaged, with the message of the reader that failed. */
static int refuse_damaged(const struct error *found, struct error *error)
{
	*error = *found;
	return error_try(
		error, -EBADMSG, "compare its SHA-256 with the one that slipway bundle printed");
}

int bundle_unpack(const char *path, const char *folder, struct progress *progress,
	json_object **ret, struct error *error)
{
	_cleanup_(unpacking_free) struct unpacking unpacking = { 0 };
	const struct unpack unpack = {
		.folder = folder,
		.wanted = is_wanted,
		.context = &unpacking,
	};
	struct error found = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = archive_member_read(
		path, BUNDLE_MANIFEST, BUNDLE_LIMIT_BYTES, &text, &size, &found);

	*ret = NULL;
	if (r == -ENOENT || (r == -EBADMSG && !archive_looks_damaged(path)))
		return error_try(error,
			error_set(
				error, -EBADMSG, "%s: no bundle: it has no " BUNDLE_MANIFEST, path),
			"slipway bundle -o FILE KREL makes one");
	if (r == -EBADMSG)
		return refuse_damaged(&found, error);
	if (r < 0) {
		*error = found;
		return r;
	}
	r = bundle_manifest_read(text, &unpacking.manifest, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	unpacking.seen = xcalloc(bundle_file_count(unpacking.manifest) + 1, sizeof(bool));
	r = unpack_run(&unpack, AT_FDCWD, path, &found);
	if (r == -EBADMSG)
		return refuse_damaged(&found, error);
	if (r < 0) {
		*error = found;
		return r;
	}
	r = check_files(path, folder, &unpacking, progress, error);
	if (r == 0)
		*ret = TAKE_PTR(unpacking.manifest);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle as a file: what its manifest may be, and the tarball. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/bundle/bundle.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/krel.h"

/* ---- the manifest */

/* What each kind of thing in it has. */
struct rule {
	const char *key;
	enum json_type type;                /* of a number: not negative */
	bool (*is_right)(const char *text); /* of a text; NULL: any will do */
	const struct rule *rules;           /* of the object, or of each in the list */
	const char *thing;                  /* its name, for messages */
	const char *old_key;                /* in bundles of older versions; or NULL */
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
	{ "file", json_type_string, .is_right = is_something },
	{ "id", json_type_string, .is_right = hash_is_hex },
	{ "key", json_type_string, .is_right = hash_is_hex },
	{ "name", json_type_string, .is_right = is_our_image },
	{ "stage", json_type_string, .is_right = is_name, .old_key = "arrow" },
	{ NULL },
};
static const struct rule source_rules[] = {
	{ .key = "file", .type = json_type_string },
	{ "kind", json_type_string, .is_right = is_kind },
	{ .key = "name", .type = json_type_string },
	{ NULL },
};
static const struct rule target_rules[] = {
	{ "arch", json_type_string, .is_right = is_name },
	{ "krel", json_type_string, .is_right = krel_is_valid },
	{ "lock", json_type_string, .is_right = is_something },
	{ "os", json_type_string, .is_right = is_name },
	{ .key = "refreshed", .type = json_type_string },
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

static int check_object(
	json_object *object, const struct rule *rules, const char *thing, struct error *error)
{
	for (const struct rule *rule = rules; rule->key; rule++) {
		json_object *value = NULL;
		const char *text;
		int r = 0;

		if (!json_object_object_get_ex(object, rule->key, &value) && rule->old_key &&
			json_object_object_get_ex(object, rule->old_key, &value))
			json_add(object, rule->key, json_object_get(value));
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
		if (rule->type == json_type_object)
			r = check_object(value, rule->rules, rule->thing, error);
		for (size_t i = 0; rule->type == json_type_array && r == 0 &&
				   i < json_object_array_length(value);
			i++)
			r = check_object(json_object_array_get_idx(value, i), rule->rules,
				rule->thing, error);
		if (r < 0)
			return r;
	}
	return 0;
}

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

/* @path may be "", which is nothing to look for. */
static int check_listed(json_object *manifest, const char *path, struct error *error)
{
	if (!*path || bundle_file_find(manifest, path) < bundle_file_count(manifest))
		return 0;
	return error_set(
		error, -EBADMSG, "a target names the file %s, which is not in the list", path);
}

static int check_target(json_object *manifest, json_object *target, struct error *error)
{
	static const char *const sources[] = { "ofed", "nvidia", "base" };
	static const char *const lists[] = { "images", "kernel_from" };
	int r = check_listed(manifest, bundle_text(target, "lock"), error);

	for (size_t i = 0; i < ARRAY_SIZE(sources) && r == 0; i++)
		r = check_listed(
			manifest, bundle_text(bundle_member(target, sources[i]), "file"), error);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		json_object *list = bundle_member(target, lists[i]);

		for (size_t k = 0; k < json_object_array_length(list) && r == 0; k++)
			r = check_listed(manifest,
				bundle_text(json_object_array_get_idx(list, k), "file"), error);
	}
	return r;
}

static int check_manifest(json_object *root, struct error *error)
{
	json_object *schema, *targets;
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
	r = check_object(root, manifest_rules, "bundle", error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < bundle_file_count(root); i++) {
		struct bundle_file file = bundle_file_at(root, i);

		if (unpack_leads_out(file.path))
			return error_set(
				error, -EXDEV, "file %s leads out of the bundle", file.path);
	}
	targets = bundle_member(root, "targets");
	if (json_object_array_length(targets) == 0)
		return error_set(error, -EBADMSG, "it has no target");
	for (size_t i = 0; i < json_object_array_length(targets) && r == 0; i++)
		r = check_target(root, json_object_array_get_idx(targets, i), error);
	return r;
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

/* ---- the tarball */

/* A bundle that is written or read. */
struct transfer {
	const char *path; /* of the bundle */
	int folder_fd;
	struct archive *archive;
	json_object *manifest;
	bool *seen; /* of each file of the manifest, when read */
	const struct bundle_listener *listener;
	uint64_t bytes;
	uint64_t of_bytes;
};

static void count_all(struct transfer *transfer)
{
	for (size_t i = 0; i < bundle_file_count(transfer->manifest); i++)
		transfer->of_bytes += bundle_file_at(transfer->manifest, i).size_bytes;
}

static void count(struct transfer *transfer, size_t bytes)
{
	transfer->bytes += bytes;
	if (transfer->listener)
		transfer->listener->on_bytes(
			transfer->listener->context, transfer->bytes, transfer->of_bytes);
}

static void free_archive(struct archive **archive)
{
	(void) archive_free(*archive);
}

/* libarchive keeps the errno of what it could not write, as of a disk that is full. */
static int write_failed(const struct transfer *transfer, const char *path, struct error *error)
{
	int code = archive_errno(transfer->archive);

	if (code == ENOSPC || code == EDQUOT)
		return error_set(
			error, -ENOSPC, "%s: no space is left on the disk of the bundle", path);
	return error_set(error, -EIO, "%s: %s", path, archive_error_string(transfer->archive));
}

static int write_header(
	struct transfer *transfer, const char *path, uint64_t size_bytes, struct error *error)
{
	struct archive_entry *entry = archive_entry_new();
	int status;

	if (!entry)
		out_of_memory();
	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, AE_IFREG);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (la_int64_t) size_bytes);
	archive_entry_set_mtime(entry, 0, 0);
	status = archive_write_header(transfer->archive, entry);
	archive_entry_free(entry);
	return status == ARCHIVE_OK ? 0 : write_failed(transfer, path, error);
}

static int pack_file(struct transfer *transfer, const struct bundle_file *file, struct error *error)
{
	_cleanup_close_ int fd = openat(transfer->folder_fd, file->path, O_RDONLY | O_CLOEXEC);
	uint64_t left = file->size_bytes;
	char buffer[65536];
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", file->path);
	r = write_header(transfer, file->path, left, error);
	while (r == 0 && left) {
		ssize_t got = read(fd, buffer, left < sizeof(buffer) ? left : sizeof(buffer));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return error_set_errno(error, got < 0 ? -errno : -EIO, "%s", file->path);
		if (archive_write_data(transfer->archive, buffer, (size_t) got) != got)
			return write_failed(transfer, file->path, error);
		left -= (uint64_t) got;
		count(transfer, (size_t) got);
	}
	return r;
}

static int write_to(struct transfer *transfer, const char *path, struct error *error)
{
	_cleanup_(free_archive) struct archive *archive = archive_write_new();
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	_cleanup_free_ char *text = xasprintf(
		"%s\n", json_object_to_json_string_ext(transfer->manifest,
				JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	size_t size = strlen(text);
	int r;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	transfer->archive = archive;
	/* Downloads are compressed already, images are not: a quick level does for both. */
	if (!archive || archive_write_set_format_pax_restricted(archive) != ARCHIVE_OK ||
		archive_write_add_filter_zstd(archive) != ARCHIVE_OK ||
		archive_write_set_filter_option(archive, "zstd", "compression-level", "3") !=
			ARCHIVE_OK ||
		archive_write_open_fd(archive, fd) != ARCHIVE_OK)
		out_of_memory();
	r = write_header(transfer, BUNDLE_MANIFEST, size, error);
	if (r == 0 && archive_write_data(archive, text, size) != (ssize_t) size)
		r = write_failed(transfer, BUNDLE_MANIFEST, error);
	for (size_t i = 0; i < bundle_file_count(transfer->manifest) && r == 0; i++) {
		struct bundle_file file = bundle_file_at(transfer->manifest, i);

		r = pack_file(transfer, &file, error);
	}
	if (r == 0 && archive_write_close(archive) != ARCHIVE_OK)
		r = write_failed(transfer, BUNDLE_MANIFEST, error);
	return r == 0 && fsync(fd) < 0 ? error_set_errno(error, -errno, "%s", path) : r;
}

int bundle_pack(json_object *manifest, int folder_fd, const char *path,
	const struct bundle_listener *listener, char *ret_sha256, struct error *error)
{
	struct transfer transfer = {
		.manifest = manifest,
		.folder_fd = folder_fd,
		.listener = listener,
	};
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", path, (int) getpid());
	struct hash *hash;
	struct stat status;
	int r;

	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "-o %s: there is something that is no file", path);
	count_all(&transfer);
	r = write_to(&transfer, temporary, error);
	if (r == 0) {
		hash = hash_new();
		if (!hash)
			out_of_memory();
		r = hash_add_file(hash, AT_FDCWD, temporary);
		hash_finish(hash, ret_sha256);
		if (r == 0 && rename(temporary, path) < 0)
			r = -errno;
		if (r < 0)
			(void) error_set_errno(error, r, "%s", path);
	}
	if (r < 0)
		(void) unlink(temporary);
	return r;
}

/* The message of libarchive, and what to do about it. */
static int damaged(const struct transfer *transfer, struct error *error)
{
	return error_set(error, -EBADMSG,
		"%s: cut short or damaged after %llu bytes of its content: %s; copy it again and "
		"compare its SHA-256",
		transfer->path, (unsigned long long) transfer->bytes,
		archive_error_string(transfer->archive));
}

/* The first entry; anything else that is a tarball, or none, is no bundle. */
static int read_manifest(struct transfer *transfer, struct error *error)
{
	_cleanup_free_ char *text = xcalloc(1, BUNDLE_LIMIT_BYTES + 1);
	struct archive_entry *entry;
	size_t size = 0;
	ssize_t got;
	int r;

	if (archive_read_next_header(transfer->archive, &entry) != ARCHIVE_OK ||
		!archive_entry_pathname(entry) ||
		strcmp(archive_entry_pathname(entry), BUNDLE_MANIFEST) != 0)
		return error_set(error, -EBADMSG,
			"%s: no bundle: it does not begin with " BUNDLE_MANIFEST
			"; `slipway bundle -o FILE KREL` makes one",
			transfer->path);
	while ((got = archive_read_data(
			transfer->archive, text + size, BUNDLE_LIMIT_BYTES - size)) > 0)
		size += (size_t) got;
	if (got < 0)
		return damaged(transfer, error);
	if (size == BUNDLE_LIMIT_BYTES)
		return error_set(error, -EFBIG, "%s: its manifest is too long", transfer->path);
	r = bundle_manifest_read(text, &transfer->manifest, error);
	return r < 0 ? error_prefix(error, r, "%s", transfer->path) : 0;
}

/* A new file below the folder. */
static int open_below(const struct transfer *transfer, const char *path)
{
	_cleanup_free_ char *folder = xstrdup(path);
	char *slash = strrchr(folder, '/');
	int r = 0;

	if (slash) {
		*slash = '\0';
		r = fs_mkdir_parents(transfer->folder_fd, folder, 0755);
	}
	if (r < 0)
		return r;
	r = openat(transfer->folder_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		0644);
	return r < 0 ? -errno : r;
}

/* Never more than the manifest says, whatever comes. */
static int unpack_file(
	struct transfer *transfer, const struct bundle_file *file, struct error *error)
{
	_cleanup_close_ int fd = open_below(transfer, file->path);
	struct hash *hash;
	char hex[HASH_HEX_SIZE];
	uint64_t size = 0;
	char buffer[65536];
	ssize_t got;
	int r = fd < 0 ? fd : 0;

	hash = hash_new();
	if (!hash)
		out_of_memory();
	while (r == 0 && size <= file->size_bytes &&
		(got = archive_read_data(transfer->archive, buffer, sizeof(buffer))) != 0) {
		if (got < 0) {
			hash_finish(hash, hex);
			return damaged(transfer, error);
		}
		size += (uint64_t) got;
		r = size <= file->size_bytes ? fs_write_all(fd, buffer, (size_t) got) : 0;
		hash_add(hash, buffer, (size_t) got);
		count(transfer, (size_t) got);
	}
	hash_finish(hash, hex);
	if (r < 0)
		return error_set_errno(error, r == -EDQUOT ? -ENOSPC : r,
			"%s: unpacking %s into the cache", transfer->path, file->path);
	if (size != file->size_bytes)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has not the %llu bytes that its manifest names",
			transfer->path, file->path, (unsigned long long) file->size_bytes);
	if (strcmp(hex, file->sha256) != 0)
		return error_set(error, -EBADMSG,
			"%s: altered: %s has the SHA-256 %s, and its manifest names %s",
			transfer->path, file->path, hex, file->sha256);
	return 0;
}

static int take_entry(struct transfer *transfer, struct archive_entry *entry, struct error *error)
{
	const char *path = archive_entry_pathname(entry);
	struct bundle_file file;
	size_t index;

	if (!path || unpack_leads_out(path))
		return error_set(error, -EXDEV, "%s: its entry %s leads out of the bundle",
			transfer->path, path ? path : "without a name");
	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
		return error_set(
			error, -EXDEV, "%s: its entry %s is no plain file", transfer->path, path);
	index = bundle_file_find(transfer->manifest, path);
	if (index == bundle_file_count(transfer->manifest) || transfer->seen[index])
		return error_set(error, -EBADMSG, "%s: altered: it has an entry %s", transfer->path,
			index < bundle_file_count(transfer->manifest)
				? "twice"
				: "that its manifest does not");
	transfer->seen[index] = true;
	file = bundle_file_at(transfer->manifest, index);
	return unpack_file(transfer, &file, error);
}

static int take_entries(struct transfer *transfer, struct error *error)
{
	struct archive_entry *entry;
	int status;

	count_all(transfer);
	while ((status = archive_read_next_header(transfer->archive, &entry)) == ARCHIVE_OK) {
		int r = take_entry(transfer, entry, error);

		if (r < 0)
			return r;
	}
	if (status != ARCHIVE_EOF)
		return damaged(transfer, error);
	for (size_t i = 0; i < bundle_file_count(transfer->manifest); i++)
		if (!transfer->seen[i])
			return error_set(error, -EBADMSG,
				"%s: cut short: %s is missing in it; copy it again", transfer->path,
				bundle_file_at(transfer->manifest, i).path);
	return 0;
}

int bundle_unpack(const char *path, int folder_fd, const struct bundle_listener *listener,
	json_object **ret, struct error *error)
{
	_cleanup_(free_archive) struct archive *archive = archive_read_new();
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct transfer transfer = {
		.path = path,
		.folder_fd = folder_fd,
		.archive = archive,
		.listener = listener,
	};
	int r;

	*ret = NULL;
	if (fd < 0)
		return error_set_errno(error, -errno, "--bundle %s", path);
	if (!archive)
		out_of_memory();
	(void) archive_read_support_filter_zstd(archive);
	(void) archive_read_support_format_tar(archive);
	if (archive_read_open_fd(archive, fd, 65536) != ARCHIVE_OK)
		return error_set(error, -EBADMSG,
			"%s: no bundle, or one that is cut short: %s; copy it again and compare its "
			"SHA-256",
			path, archive_error_string(archive));
	r = read_manifest(&transfer, error);
	if (r < 0)
		return r;
	transfer.seen = xcalloc(bundle_file_count(transfer.manifest) + 1, sizeof(bool));
	r = take_entries(&transfer, error);
	free(transfer.seen);
	if (r == 0)
		*ret = transfer.manifest;
	else
		(void) json_object_put(transfer.manifest);
	return r;
}

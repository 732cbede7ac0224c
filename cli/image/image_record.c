/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image_record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "cli/image/output_place.h"
#include "common/fs.h"
#include "common/xalloc.h"

/* In the order of the JSON object. */
static const struct field {
	const char *key;
	size_t offset;
	bool is_number;
	bool optional; /* the NIC image has none */
} fields[] = {
	{ "role", offsetof(struct image, role), false, false },
	{ "reference", offsetof(struct image, reference), false, false },
	{ "version", offsetof(struct image, version), false, false },
	{ "tag", offsetof(struct image, tag), false, false },
	{ "id", offsetof(struct image, id), false, false },
	{ "digest", offsetof(struct image, digest), false, false },
	{ "proof", offsetof(struct image, proof), false, false },
	{ "modules", offsetof(struct image, modules), true, false },
	{ "loading", offsetof(struct image, loading), true, false },
	{ "peermem", offsetof(struct image, peermem), false, true },
};

static char **slot_of(const struct image *image, const struct field *field)
{
	return (char **) (uintptr_t) ((const char *) image + field->offset);
}

static void add_list(json_object *object, const char *key, const struct strv *texts)
{
	json_object *list;

	if (!texts->count)
		return;
	list = json_object_new_array();
	for (size_t i = 0; i < texts->count; i++)
		(void) json_object_array_add(list, json_object_new_string(texts->items[i]));
	(void) json_object_object_add(object, key, list);
}

void image_add_also(json_object *object, const struct image *image)
{
	add_list(object, "also", &image->also);
	add_list(object, "pushed", &image->pushed);
}

json_object *image_to_json(const struct image *image)
{
	json_object *object = json_object_new_object();

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *text = *slot_of(image, &fields[i]);

		if (text || !fields[i].optional)
			(void) json_object_object_add(object, fields[i].key,
				fields[i].is_number ? json_object_new_uint64(
							      strtoull(text ? text : "", NULL, 10))
						    : json_object_new_string(text));
	}
	image_add_also(object, image);
	add_list(object, "inbox_only", &image->inbox_only);
	(void) json_object_object_add(
		object, "size_bytes", json_object_new_uint64(image->size_bytes));
	if (image->userspace)
		(void) json_object_object_add(
			object, "userspace", json_object_get(image->userspace));
	return object;
}

int image_write(const char *folder, const struct image *image, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/image.json", folder);
	json_object *object = image_to_json(image);
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE);
	int r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);

	(void) json_object_put(object);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static void read_list(json_object *object, const char *key, struct strv *texts)
{
	json_object *value;

	if (json_object_object_get_ex(object, key, &value))
		for (size_t i = 0; i < json_object_array_length(value); i++)
			xstrv_push(
				texts, json_object_get_string(json_object_array_get_idx(value, i)));
}

static bool read_fields(json_object *object, struct image *image)
{
	json_object *value;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (json_object_object_get_ex(object, fields[i].key, &value))
			*slot_of(image, &fields[i]) = xstrdup(json_object_get_string(value));
		else if (!fields[i].optional)
			return false;
	}
	if (!json_object_object_get_ex(object, "size_bytes", &value))
		return false;
	image->size_bytes = json_object_get_uint64(value);
	read_list(object, "also", &image->also);
	read_list(object, "inbox_only", &image->inbox_only);
	if (json_object_object_get_ex(object, "userspace", &value))
		image->userspace = json_object_get(value);
	return true;
}

int image_read(const char *folder, struct image *ret, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/image.json", folder);
	_cleanup_free_ char *text = NULL;
	json_object *object;
	bool whole;
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	*ret = (struct image){ 0 };
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	object = json_tokener_parse(text);
	whole = read_fields(object, ret);
	(void) json_object_put(object);
	if (whole)
		return 0;
	image_free(ret);
	return error_set_errno(error, -EBADMSG, "%s", path);
}

int image_proof_rank(const char *proof)
{
	static const char *const worse[] = { "holds", "cannot-tell", "will-not-start",
		"will-not-load" };
	int rank = ARRAY_SIZE(worse) - 1;

	while (rank > 0 && strcmp(proof, worse[rank]) != 0)
		rank--;
	return rank == 0 && strcmp(proof, worse[0]) != 0 ? 1 : rank;
}

bool image_is_proven(const struct image *image)
{
	return strcmp(image->proof, "holds") == 0;
}

const char *image_userspace(const struct image *image, const char *key, const char *none)
{
	const char *text = json_object_get_string(json_object_object_get(image->userspace, key));

	return text ? text : none;
}

void image_free(struct image *image)
{
	(void) json_object_put(image->userspace);
	strv_free(&image->also);
	strv_free(&image->pushed);
	strv_free(&image->inbox_only);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		free(*slot_of(image, &fields[i]));
	*image = (struct image){ 0 };
}

int image_set_id(int root_fd, const char *folder, char ret_id[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	int r = hash_add_tree(hash, root_fd, folder);

	hash_finish(hash, ret_id);
	return r;
}

int image_archive(
	const char *scratch_path, const char *folder, struct image *image, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_ARCHIVE, folder);
	_cleanup_free_ char *destination = xasprintf("oci-archive:%s:%s", path, image->tag);
	struct stat status;
	int r = buildah_push(scratch_path, image->id, destination, &image->digest, error);

	if (r < 0)
		return r;
	if (stat(path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	image->size_bytes = (uint64_t) status.st_size;
	return 0;
}

int image_give_name(const char *id, const char *reference, bool *changed, struct error *error)
{
	_cleanup_free_ char *named = buildah_image_id(reference);
	int r;

	if (named && strcmp(named, id) == 0)
		return 0;
	r = buildah_tag(id, reference, error);
	if (r == 0)
		*changed = true;
	return r;
}

int image_place(const char *folder, const struct image *image, bool *ret_changed, char **ret_before,
	struct error *error)
{
	_cleanup_free_ char *archive = xasprintf("%s/" IMAGE_ARCHIVE, folder);
	_cleanup_free_ char *named = buildah_image_id(image->reference);
	int r;

	*ret_before = NULL;
	*ret_changed = false;
	if (!named || strcmp(named, image->id) != 0) {
		r = buildah_bring(archive, image->id, error);
		if (r == -EBADMSG)
			return error_prefix(error, r, "remove %s and run again", folder);
		if (r == 0)
			r = buildah_tag(image->id, image->reference, error);
		if (r < 0)
			return r;
		*ret_changed = true;
		*ret_before = TAKE_PTR(named);
	}
	for (size_t i = 0; i < image->also.count; i++) {
		r = image_give_name(image->id, image->also.items[i], ret_changed, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * The copy carries the time of what it was made of: by that it is current. A hard link into
 * the cache is not a copy: a write to it would be one to the cache.
 */
static bool is_current(const char *from, const char *to)
{
	struct stat left, right;

	return stat(from, &left) == 0 && stat(to, &right) == 0 && left.st_ino != right.st_ino &&
	       left.st_size == right.st_size && left.st_mtim.tv_sec == right.st_mtim.tv_sec &&
	       left.st_mtim.tv_nsec == right.st_mtim.tv_nsec;
}

/* After what was written in part is gone again. */
static int output_full(const char *from, const char *to, struct error *error)
{
	const char *slash = strrchr(to, '/');
	_cleanup_free_ char *folder =
		slash ? xstrndup(to, (size_t) (slash - to + 1)) : xstrdup(".");
	struct statvfs disk = { 0 };
	struct stat status = { 0 };

	(void) stat(from, &status);
	(void) statvfs(folder, &disk);
	(void) error_set(error, -ENOSPC,
		"--output %s: needs %llu MB, and the disk has room for %llu", to,
		(unsigned long long) status.st_size / 1000000 + 1,
		(unsigned long long) disk.f_bavail * disk.f_frsize / 1000000);
	return error_try(error, -ENOSPC, "free some there, or name a folder on another disk");
}

int image_place_file(const char *from, const char *to, bool *changed, struct error *error)
{
	_cleanup_free_ char *temporary = NULL;
	int r;

	if (is_current(from, to))
		return 0;
	*changed = true;
	temporary = output_temporary(to);
	if (!temporary)
		return error_set_errno(error, -ENOMEM, "--output %s", to);
	r = copy_apart(AT_FDCWD, from, AT_FDCWD, temporary);
	if (r == 0 && rename(temporary, to) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void) unlink(temporary);
	return r == -ENOSPC || r == -EDQUOT ? output_full(from, to, error)
					    : error_set_errno(error, r, "--output %s", to);
}

int image_place_text(const char *path, const char *text, bool *changed, struct error *error)
{
	_cleanup_free_ char *old = NULL;
	int r;

	if (fs_read(AT_FDCWD, path, 0, &old, NULL) == 0 && strcmp(old, text) == 0)
		return 0;
	*changed = true;
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "--output %s", path) : 0;
}

static bool list_names(const char *output, const struct image *images, size_t count)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_LIST, output);
	_cleanup_free_ char *text = NULL;

	if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!strstr(text, images[i].digest))
			return false;
	return true;
}

int image_place_list(const char *output, json_object *list, bool *changed, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_LIST, output);
	_cleanup_free_ char *text = xasprintf(
		"%s\n", json_object_to_json_string_ext(
				list, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));

	(void) json_object_put(list);
	return output_place_is_folder(output) ? image_place_text(path, text, changed, error) : 0;
}

static int place_archives(const char *output, const struct image *images,
	const char *const *folders, size_t count, bool *changed, struct error *error)
{
	bool is_folder = output_place_is_folder(output);
	int r = is_folder ? fs_mkdir_parents(AT_FDCWD, output, 0755) : 0;

	if (r < 0)
		return error_set_errno(error, r, "--output %s", output);
	if (strcmp(output, OUTPUT_STORAGE) == 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		const char *role = images[i].role;
		const char *file = output + strlen(OUTPUT_ARCHIVE);
		_cleanup_free_ char *from = xasprintf("%s/" IMAGE_ARCHIVE, folders[i]);
		/* buildah-push(1) and podman(1) write tags into an archive one at a time. */
		_cleanup_free_ char *to = is_folder    ? xasprintf("%s/%s.oci.tar", output, role)
					  : count == 1 ? xstrdup(file)
						       : xasprintf("%s.%s", file, role);

		r = image_place_file(from, to, changed, error);
		if (r < 0)
			return r;
	}
	return 0;
}

int image_place_files(const char *output, const struct image *images, const char *const *folders,
	size_t count, json_object *list, bool *changed, struct error *error)
{
	int r = place_archives(output, images, folders, count, changed, error);

	if (r == 0 && !list_names(output, images, count))
		return image_place_list(output, list, changed, error);
	(void) json_object_put(list);
	return r;
}

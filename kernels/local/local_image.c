/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/local_image.h"

#include <fcntl.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"

#define TEXT_LIMIT  ((size_t) 4 << 20) /* the image-spec's own advice for manifests */
#define BLOBS       "blobs/sha256/"
#define NESTING_MAX 4 /* an index may name an index */

/* ---- which layers there are */

static const char *digest_of(const char *name)
{
	return strncmp(name, BLOBS, strlen(BLOBS)) == 0 ? name + strlen(BLOBS) : NULL;
}

/* The file that holds an entry of the image: below its folder, or its archive itself. */
static char *file_of(const struct local_image *image, const char *name)
{
	return image->archive ? xstrdup(image->path) : xasprintf("%s/%s", image->path, name);
}

static int read_json(const struct local_image *image, const char *name, struct json_object **ret,
	char hex[HASH_HEX_SIZE], struct error *error)
{
	_cleanup_free_ char *file = file_of(image, name);
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	if (image->archive) {
		r = archive_member_read(file, name, TEXT_LIMIT, &text, &size, error);
	} else {
		r = fs_read(AT_FDCWD, file, TEXT_LIMIT, &text, NULL);
		if (r < 0)
			r = error_set_errno(error, r, "%s", file);
	}
	if (r < 0)
		return r;
	hash_bytes(text, strlen(text), hex);
	*ret = json_tokener_parse(text);
	return *ret ? 0 : error_set(error, -EBADMSG, "%s: %s is not JSON", image->path, name);
}

static const char *member_text(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static struct json_object *member_array(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_array) ? value : NULL;
}

/* Sets *ret_path to the path of a descriptor's content: "blobs/sha256/<digest>". */
static int blob_path(const struct local_image *image, struct json_object *descriptor,
	char **ret_path, struct error *error)
{
	const char *digest = member_text(descriptor, "digest");

	if (!digest || strncmp(digest, "sha256:", 7) != 0 || !hash_is_hex(digest + 7))
		return error_set(
			error, -EBADMSG, "%s: it has a digest that is not SHA-256", image->path);
	*ret_path = xasprintf(BLOBS "%s", digest + 7);
	return 0;
}

/*
 * The one descriptor for this machine. One without a platform is for any; attestations have
 * "unknown" there, and are for none.
 */
static int pick_manifest(const struct local_image *image, struct json_object *manifests,
	struct json_object **ret, struct error *error)
{
	struct json_object *found = NULL;
	const char *here = arch_here()->oci;

	for (size_t i = 0; i < json_object_array_length(manifests); i++) {
		struct json_object *descriptor = json_object_array_get_idx(manifests, i);
		struct json_object *platform = json_object_object_get(descriptor, "platform");
		const char *architecture = member_text(platform, "architecture");

		if (architecture && strcmp(architecture, here) != 0)
			continue;
		if (found)
			return error_set(error, -EINVAL,
				"%s: it has several images for %s: give an archive with one",
				image->path, here);
		found = descriptor;
	}
	if (!found)
		return error_set(error, -EINVAL, "%s: it has no image for %s", image->path, here);
	*ret = found;
	return 0;
}

/* From index.json down to the manifest of one image. */
static int open_oci(
	struct local_image *image, const char *name, unsigned int nesting, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *layers, *manifests, *descriptor = NULL;
	_cleanup_free_ char *path = NULL;
	int r = read_json(image, name, &object, image->digest, error);

	if (r < 0)
		return r;
	if (digest_of(name) && strcmp(digest_of(name), image->digest) != 0)
		return error_set(error, -EBADMSG, "%s: %s is damaged: its SHA-256 is %s",
			image->path, name, image->digest);
	layers = member_array(object, "layers");
	for (size_t i = 0; layers && i < json_object_array_length(layers); i++) {
		_cleanup_free_ char *layer = NULL;

		r = blob_path(image, json_object_array_get_idx(layers, i), &layer, error);
		if (r < 0)
			return r;
		xstrv_push(&image->layers, layer);
	}
	if (layers)
		return 0;
	manifests = member_array(object, "manifests");
	if (!manifests || nesting == 0)
		return error_set(error, -EBADMSG, "%s: %s names no image", image->path, name);
	r = pick_manifest(image, manifests, &descriptor, error);
	if (r == 0)
		r = blob_path(image, descriptor, &path, error);
	return r < 0 || !path ? r : open_oci(image, path, nesting - 1, error);
}

/* Opens `docker save` output: [{"Layers": ["<id>/layer.tar", …]}], names of archive entries. */
static int open_docker(struct local_image *image, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *layers;
	char digest[HASH_HEX_SIZE];
	int r = read_json(image, "manifest.json", &object, digest, error);

	if (r < 0)
		return r;
	if (!json_object_is_type(object, json_type_array) || json_object_array_length(object) != 1)
		return error_set(error, -EINVAL,
			"%s: its manifest.json must name exactly one image: give an archive of one",
			image->path);
	layers = member_array(json_object_array_get_idx(object, 0), "Layers");
	if (!layers)
		return error_set(
			error, -EBADMSG, "%s: its manifest.json names no layers", image->path);
	for (size_t i = 0; i < json_object_array_length(layers); i++) {
		struct json_object *value = json_object_array_get_idx(layers, i);
		const char *name = json_object_get_string(value);

		if (!json_object_is_type(value, json_type_string))
			return error_set(error, -EBADMSG,
				"%s: a layer in its manifest.json is not a name", image->path);
		if (unpack_leads_out(name))
			return error_set(error, -EXDEV, "%s: its layer %s leads out of the archive",
				image->path, name);
		xstrv_push(&image->layers, name);
	}
	return 0;
}

int local_image_open(const char *path, bool archive, struct local_image *ret, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = {
		.path = xstrdup(path),
		.archive = archive,
	};
	int r = open_oci(&image, "index.json", NESTING_MAX, error);

	if (r == -ENOENT && archive) /* docker's older archives */
		r = open_docker(&image, error);
	if (r < 0)
		return r;
	*ret = image;
	image = (struct local_image){ 0 };
	return 0;
}

void local_image_free(struct local_image *image)
{
	free(image->path);
	strv_free(&image->layers);
	*image = (struct local_image){ 0 };
}

/* ---- what is in the layers */

/* The marks of one layer, and what it removes from those below it. */
static int scan_layer(const struct local_image *image, const char *layer, struct local_scan *scan,
	struct strv *whiteouts, struct error *error)
{
	_cleanup_free_ char *file = file_of(image, layer);

	return local_scan_archive(scan, ARCHIVE_KIND_TAR, file, image->archive ? layer : NULL,
		image->path, whiteouts, error);
}

int local_image_scan(const struct local_image *image, struct local_scan *scan, struct error *error)
{
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_(local_scan_free) struct local_scan layer = { 0 };
		_cleanup_strv_ struct strv whiteouts = { 0 };
		int r = scan_layer(image, image->layers.items[i], &layer, &whiteouts, error);

		if (r < 0)
			return r;
		for (size_t j = 0; j < whiteouts.count; j++)
			local_scan_forget(scan, whiteouts.items[j]);
		for (size_t j = 0; j < layer.mark_count; j++) {
			local_scan_forget(scan, layer.marks[j].path);
			local_scan_add(scan, layer.marks[j].path, layer.marks[j].text);
		}
	}
	return 0;
}

/*
 * A whiteout's path is from outside: it must not lead out of the folder. "" is an opaque root: all
 * that is in the folder goes, and not the folder itself.
 */
static int remove_whiteouts(int folder_fd, const struct strv *whiteouts)
{
	for (size_t i = 0; i < whiteouts->count; i++) {
		_cleanup_strv_ struct strv paths = { 0 };
		int r = 0;

		if (!*whiteouts->items[i])
			r = fs_list(folder_fd, ".", &paths);
		else if (!unpack_leads_out(whiteouts->items[i]))
			xstrv_push(&paths, whiteouts->items[i]);
		for (size_t j = 0; j < paths.count && r == 0; j++)
			r = fs_remove_tree(folder_fd, paths.items[j]);
		if (r < 0 && r != -ENOTDIR)
			return r;
	}
	return 0;
}

/* Hashes the entry as it is stored in the image's archive. */
static int hash_member(const struct local_image *image, const char *name, char hex[HASH_HEX_SIZE],
	struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input input;
	struct archive_entry *entry;
	struct hash *hash;
	const void *block;
	size_t size;
	la_int64_t offset;
	int state;
	int r = archive_input_open(&input, ARCHIVE_KIND_TAR, AT_FDCWD, image->path, NULL, error);

	if (r < 0)
		return r;
	do {
		state = archive_read_next_header(input.reader, &entry);
		if (state == ARCHIVE_EOF)
			return error_set(error, -EBADMSG, "%s: it has no %s", image->path, name);
		if (state < ARCHIVE_WARN)
			return archive_input_damaged(image->path, input.reader, error);
	} while (!archive_input_path(entry) || strcmp(archive_input_path(entry), name) != 0);
	hash = hash_new();
	while ((state = archive_read_data_block(input.reader, &block, &size, &offset)) ==
		ARCHIVE_OK)
		hash_add(hash, block, size);
	hash_finish(hash, hex);
	return state == ARCHIVE_EOF ? 0 : archive_input_damaged(image->path, input.reader, error);
}

/* Docker's older names have no digest in them. */
static int check_layer(const struct local_image *image, const char *layer, struct error *error)
{
	const char *wanted = digest_of(layer);
	_cleanup_free_ char *file = file_of(image, layer);
	char hex[HASH_HEX_SIZE];
	int r;

	if (!wanted || !hash_is_hex(wanted))
		return 0;
	if (image->archive) {
		r = hash_member(image, layer, hex, error);
	} else {
		r = hash_file(AT_FDCWD, file, hex);
		if (r < 0)
			r = error_set_errno(error, r, "%s", file);
	}
	if (r == 0 && strcmp(hex, wanted) != 0)
		return error_set(error, -EBADMSG, "%s: %s is damaged: its SHA-256 is %s",
			image->path, layer, hex);
	return r;
}

int local_image_unpack(
	const struct local_image *image, const struct unpack *unpack, struct error *error)
{
	_cleanup_close_ int fd = open(unpack->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_(local_scan_free) struct local_scan ignored = { 0 };
		_cleanup_strv_ struct strv whiteouts = { 0 };
		const char *layer = image->layers.items[i];
		_cleanup_free_ char *file = file_of(image, layer);
		struct unpack of_layer = *unpack;
		int r = check_layer(image, layer, error);

		if (r == 0)
			r = scan_layer(image, layer, &ignored, &whiteouts, error);
		if (r < 0)
			return r;
		r = remove_whiteouts(fd, &whiteouts);
		if (r < 0)
			return error_set_errno(error, r, "%s", unpack->folder);
		of_layer.member = image->archive ? layer : NULL;
		r = unpack_run(&of_layer, AT_FDCWD, file, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/image.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "kernels/archive/unpack.h"
#include "kernels/krel.h"

#define TEXT_LIMIT  ((size_t) 4 << 20) /* the image-spec's own advice for manifests */
#define BLOBS       "blobs/sha256/"
#define NESTING_MAX 4 /* an index may name an index */

static void json_free(struct json_object **object)
{
	json_object_put(*object);
}

#define _cleanup_json_ _cleanup_(json_free)

static int read_file(
	const struct local_image *image, const char *name, char **ret_text, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	size_t size;
	int r;

	if (image->archive)
		return archive_member_read(image->path, name, TEXT_LIMIT, ret_text, &size, error);
	if (asprintf(&path, "%s/%s", image->path, name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = fs_read(AT_FDCWD, path, TEXT_LIMIT, ret_text, NULL);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static int read_json(const struct local_image *image, const char *name, struct json_object **ret,
	char hex[HASH_HEX_SIZE], struct error *error)
{
	_cleanup_free_ char *text = NULL;
	struct hash *hash = hash_new();
	int r = hash ? read_file(image, name, &text, error) : -ENOMEM;

	if (text)
		hash_add(hash, text, strlen(text));
	if (hash)
		hash_finish(hash, hex);
	if (r < 0 || !text)
		return r;
	*ret = json_tokener_parse(text);
	return *ret ? 0 : error_set(error, -EBADMSG, "%s: %s is not JSON", image->path, name);
}

static const char *member_text(struct json_object *object, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) &&
			       json_object_is_type(value, json_type_string)
		       ? json_object_get_string(value)
		       : NULL;
}

static struct json_object *member_array(struct json_object *object, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) &&
			       json_object_is_type(value, json_type_array)
		       ? value
		       : NULL;
}

/* Where the content of a descriptor lies: "blobs/sha256/<digest>". */
static int blob_path(const struct local_image *image, struct json_object *descriptor,
	char **ret_path, struct error *error)
{
	const char *digest = member_text(descriptor, "digest");

	if (!digest || strncmp(digest, "sha256:", 7) != 0 || !hash_is_hex(digest + 7))
		return error_set(error, -EBADMSG, "%s: a digest in it is no SHA-256", image->path);
	return asprintf(ret_path, BLOBS "%s", digest + 7) < 0
		       ? error_set_errno(error, -ENOMEM, "%s", image->path)
		       : 0;
}

static const char *architecture_here(void)
{
	struct utsname system;

	(void) uname(&system);
	return arch_debian(system.machine);
}

/* Descriptors without a platform count for any; attestations say "unknown" and count for none. */
static bool is_for_us(struct json_object *descriptor)
{
	struct json_object *platform;
	const char *architecture;

	if (!json_object_object_get_ex(descriptor, "platform", &platform))
		return true;
	architecture = member_text(platform, "architecture");
	return !architecture || strcmp(architecture, architecture_here()) == 0;
}

static int pick_manifest(const struct local_image *image, struct json_object *manifests,
	struct json_object **ret, struct error *error)
{
	struct json_object *found = NULL;

	for (size_t i = 0; i < json_object_array_length(manifests); i++) {
		struct json_object *descriptor = json_object_array_get_idx(manifests, i);

		if (!is_for_us(descriptor))
			continue;
		if (found)
			return error_set(error, -EINVAL,
				"%s: it holds several images for %s: give an archive of one",
				image->path, architecture_here());
		found = descriptor;
	}
	if (!found)
		return error_set(error, -EINVAL, "%s: it holds no image for %s", image->path,
			architecture_here());
	*ret = found;
	return 0;
}

static int take_layers(struct local_image *image, struct json_object *layers, struct error *error)
{
	for (size_t i = 0; i < json_object_array_length(layers); i++) {
		_cleanup_free_ char *path = NULL;
		int r = blob_path(image, json_object_array_get_idx(layers, i), &path, error);

		if (r < 0)
			return r;
		if (strv_push(&image->layers, path) < 0)
			return error_set_errno(error, -ENOMEM, "%s", image->path);
	}
	return 0;
}

/* The names in docker's manifest.json are of entries of the archive. */
static int take_names(struct local_image *image, struct json_object *names, struct error *error)
{
	for (size_t i = 0; i < json_object_array_length(names); i++) {
		struct json_object *value = json_object_array_get_idx(names, i);
		const char *name = json_object_is_type(value, json_type_string)
					   ? json_object_get_string(value)
					   : NULL;

		if (!name)
			return error_set(error, -EBADMSG,
				"%s: a layer in its manifest.json is no name", image->path);
		if (unpack_leads_out(name))
			return error_set(error, -EXDEV, "%s: its layer %s leads out of the archive",
				image->path, name);
		if (strv_push(&image->layers, name) < 0)
			return error_set_errno(error, -ENOMEM, "%s", image->path);
	}
	return 0;
}

/* From index.json down to the manifest of one image. */
static int open_oci(
	struct local_image *image, const char *name, unsigned int nesting, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *array, *descriptor = NULL;
	_cleanup_free_ char *path = NULL;
	int r = read_json(image, name, &object, image->digest, error);

	if (r < 0)
		return r;
	if (strncmp(name, BLOBS, strlen(BLOBS)) == 0 &&
		strcmp(name + strlen(BLOBS), image->digest) != 0)
		return error_set(error, -EBADMSG, "%s: %s is damaged: its SHA-256 is %s",
			image->path, name, image->digest);
	array = member_array(object, "layers");
	if (array)
		return take_layers(image, array, error);
	array = member_array(object, "manifests");
	if (!array || nesting == 0)
		return error_set(error, -EBADMSG, "%s: %s names no image", image->path, name);
	r = pick_manifest(image, array, &descriptor, error);
	if (r == 0)
		r = blob_path(image, descriptor, &path, error);
	return r < 0 || !path ? r : open_oci(image, path, nesting - 1, error);
}

/* What `docker save` writes: [{"Layers": ["<id>/layer.tar", …]}] */
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
			"%s: its manifest.json does not name exactly one image: give an archive of "
			"one",
			image->path);
	layers = member_array(json_object_array_get_idx(object, 0), "Layers");
	if (!layers)
		return error_set(
			error, -EBADMSG, "%s: its manifest.json names no layers", image->path);
	return take_names(image, layers, error);
}

int local_image_open(const char *path, bool archive, struct local_image *ret, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = {
		.path = strdup(path),
		.archive = archive,
	};
	int r = image.path ? open_oci(&image, "index.json", NESTING_MAX, error) : -ENOMEM;

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

static int open_layer(const struct local_image *image, const char *layer,
	struct archive_input *input, struct error *error)
{
	_cleanup_free_ char *path = NULL;

	if (image->archive)
		return archive_input_open(
			input, ARCHIVE_KIND_TAR, AT_FDCWD, image->path, layer, error);
	*input = (struct archive_input){ .fd = -1 };
	if (asprintf(&path, "%s/%s", image->path, layer) < 0)
		return error_set_errno(error, -ENOMEM, "%s", layer);
	return archive_input_open(input, ARCHIVE_KIND_TAR, AT_FDCWD, path, NULL, error);
}

/* The marks of one layer, and what it removes from those below it. */
static int scan_layer(const struct local_image *image, const char *layer, struct local_scan *scan,
	struct strv *whiteouts, struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input input;
	int r = open_layer(image, layer, &input, error);

	return r < 0 ? r : local_scan_archive(scan, &input, image->path, whiteouts, error);
}

static int merge_layer(struct local_scan *scan, const struct local_scan *layer)
{
	int r = 0;

	for (size_t i = 0; i < layer->mark_count && r == 0; i++) {
		local_scan_forget(scan, layer->marks[i].path);
		r = local_scan_add(scan, layer->marks[i].path, layer->marks[i].text);
	}
	return r;
}

static void scan_free(struct local_scan **scan)
{
	local_scan_free(*scan);
}

int local_image_scan(const struct local_image *image, struct local_scan *scan, struct error *error)
{
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_(scan_free) struct local_scan *layer = local_scan_new();
		_cleanup_strv_ struct strv whiteouts = { 0 };
		int r = layer ? scan_layer(image, image->layers.items[i], layer, &whiteouts, error)
			      : -ENOMEM;

		if (r < 0)
			return r;
		for (size_t j = 0; j < whiteouts.count; j++)
			local_scan_forget(scan, whiteouts.items[j]);
		if (merge_layer(scan, layer) < 0)
			return error_set_errno(error, -ENOMEM, "%s", image->path);
	}
	return 0;
}

/* All that is in a folder, and not the folder itself. */
static int empty_folder(int folder_fd)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(folder_fd, ".", &names);

	for (size_t i = 0; i < names.count && r == 0; i++)
		r = fs_remove_tree(folder_fd, names.items[i]);
	return r;
}

/* A whiteout's path is a stranger's: it must not lead out of the folder. "" is an opaque root. */
static int remove_whiteouts(int folder_fd, const struct strv *whiteouts)
{
	int r = 0;

	for (size_t i = 0; i < whiteouts->count && r == 0; i++) {
		const char *path = whiteouts->items[i];

		if (!*path)
			r = empty_folder(folder_fd);
		else if (!unpack_leads_out(path))
			r = fs_remove_tree(folder_fd, path);
		if (r == -ENOTDIR)
			r = 0;
	}
	return r;
}

static int hash_entry(
	struct archive_input *input, const char *path, struct hash *hash, struct error *error)
{
	const void *block;
	size_t size;
	la_int64_t offset;
	int state;

	while ((state = archive_read_data_block(input->reader, &block, &size, &offset)) ==
		ARCHIVE_OK)
		hash_add(hash, block, size);
	return state == ARCHIVE_EOF ? 0 : archive_input_damaged(path, input->reader, error);
}

/* Of the entry as it lies in the image's archive. */
static int hash_member(
	const struct local_image *image, const char *name, struct hash *hash, struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input input;
	int r = archive_input_open(&input, ARCHIVE_KIND_TAR, AT_FDCWD, image->path, NULL, error);

	while (r == 0) {
		struct archive_entry *entry;
		int state = archive_read_next_header(input.reader, &entry);

		if (state == ARCHIVE_EOF)
			return error_set(error, -EBADMSG, "%s: it has no %s", image->path, name);
		if (state < ARCHIVE_WARN)
			return archive_input_damaged(image->path, input.reader, error);
		if (archive_input_path(entry) && strcmp(archive_input_path(entry), name) == 0)
			return hash_entry(&input, image->path, hash, error);
	}
	return r;
}

static int hash_layer(
	const struct local_image *image, const char *layer, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (image->archive)
		return hash_member(image, layer, hash, error);
	if (asprintf(&path, "%s/%s", image->path, layer) < 0)
		return error_set_errno(error, -ENOMEM, "%s", layer);
	r = hash_add_file(hash, AT_FDCWD, path);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* Docker's older names have no digest in them. */
static int check_layer(const struct local_image *image, const char *layer, struct error *error)
{
	const char *wanted = strncmp(layer, BLOBS, strlen(BLOBS)) == 0 ? layer + strlen(BLOBS) : "";
	struct hash *hash = hash_is_hex(wanted) ? hash_new() : NULL;
	char hex[HASH_HEX_SIZE];
	int r;

	if (!hash_is_hex(wanted))
		return 0;
	if (!hash)
		return error_set_errno(error, -ENOMEM, "%s", layer);
	r = hash_layer(image, layer, hash, error);
	hash_finish(hash, hex);
	if (r == 0 && strcmp(hex, wanted) != 0)
		return error_set(error, -EBADMSG, "%s: %s is damaged: its SHA-256 is %s",
			image->path, layer, hex);
	return r;
}

static int unpack_layer(const struct local_image *image, const char *layer,
	const struct unpack *unpack, struct error *error)
{
	_cleanup_free_ char *path = NULL;

	if (image->archive)
		return unpack_tar_member(unpack, AT_FDCWD, image->path, layer, error);
	if (asprintf(&path, "%s/%s", image->path, layer) < 0)
		return error_set_errno(error, -ENOMEM, "%s", layer);
	return unpack_tar(unpack, AT_FDCWD, path, error);
}

int local_image_unpack(
	const struct local_image *image, const struct unpack *unpack, struct error *error)
{
	_cleanup_close_ int fd = open(unpack->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_(scan_free) struct local_scan *ignored = local_scan_new();
		_cleanup_strv_ struct strv whiteouts = { 0 };
		const char *layer = image->layers.items[i];
		int r = ignored ? 0 : -ENOMEM;

		if (r == 0)
			r = check_layer(image, layer, error);
		if (r == 0)
			r = scan_layer(image, layer, ignored, &whiteouts, error);
		if (r == 0)
			r = remove_whiteouts(fd, &whiteouts);
		if (r == 0)
			r = unpack_layer(image, layer, unpack, error);
		if (r < 0)
			return r;
	}
	return 0;
}

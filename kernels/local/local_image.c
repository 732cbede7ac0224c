/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/local/local_image.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

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

/* The same; what is named after its digest must have it. */
static int read_checked(const struct local_image *image, const char *name, struct json_object **ret,
	char hex[HASH_HEX_SIZE], struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	const char *wanted = digest_of(name);
	int r = read_json(image, name, &object, hex, error);

	if (r == 0 && wanted && strcmp(wanted, hex) != 0)
		return error_set(error, -EBADMSG, "%s: %s is damaged: its SHA-256 is %s",
			image->path, name, hex);
	if (r == 0)
		*ret = json_object_get(object);
	return r;
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

/* An index has no image for the wanted architecture: names those that it has. */
static int no_such_arch(
	const struct local_image *image, struct json_object *manifests, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; i < json_object_array_length(manifests); i++) {
		struct json_object *descriptor = json_object_array_get_idx(manifests, i);
		struct json_object *platform = json_object_object_get(descriptor, "platform");
		const char *arch = member_text(platform, "architecture");

		if (arch && strcmp(arch, "unknown") != 0)
			xstrv_push_unique(&names, arch);
	}
	list = xstrv_join(&names, ", ");
	return error_set(error, -EINVAL, "%s: it has no image for %s%s%s", image->path, image->arch,
		names.count ? ", but for " : "", list);
}

/*
 * The one descriptor for the wanted machine. One without a platform is for any; attestations have
 * "unknown" there, and are for none.
 */
static int pick_manifest(const struct local_image *image, struct json_object *manifests,
	struct json_object **ret, struct error *error)
{
	struct json_object *found = NULL;

	for (size_t i = 0; i < json_object_array_length(manifests); i++) {
		struct json_object *descriptor = json_object_array_get_idx(manifests, i);
		struct json_object *platform = json_object_object_get(descriptor, "platform");
		const char *architecture = member_text(platform, "architecture");

		if (architecture && strcmp(architecture, image->arch) != 0)
			continue;
		if (found)
			return error_set(error, -EINVAL,
				"%s: it has several images for %s: give an archive with one",
				image->path, image->arch);
		found = descriptor;
	}
	if (!found)
		return no_such_arch(image, manifests, error);
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
	int r = read_checked(image, name, &object, image->digest, error);

	if (r < 0)
		return r;
	layers = member_array(object, "layers");
	for (size_t i = 0; layers && i < json_object_array_length(layers); i++) {
		_cleanup_free_ char *layer = NULL;

		r = blob_path(image, json_object_array_get_idx(layers, i), &layer, error);
		if (r < 0)
			return r;
		xstrv_push(&image->layers, layer);
	}
	if (layers) {
		struct error ignored = { 0 };

		(void) !blob_path(
			image, json_object_object_get(object, "config"), &image->config, &ignored);
		return 0;
	}
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
	const char *config;
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
	config = member_text(json_object_array_get_idx(object, 0), "Config");
	image->config = config && !unpack_leads_out(config) ? xstrdup(config) : NULL;
	return 0;
}

int local_image_has_label(
	const struct local_image *image, const char *name, bool *ret, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *config, *labels;
	char digest[HASH_HEX_SIZE];
	int r;

	*ret = false;
	if (!image->config)
		return 0;
	r = read_json(image, image->config, &object, digest, error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	config = json_object_object_get(object, "config");
	labels = json_object_is_type(config, json_type_object)
			 ? json_object_object_get(config, "Labels")
			 : NULL;
	*ret = json_object_is_type(labels, json_type_object) && member_text(labels, name);
	return 0;
}

int local_image_open(const char *path, bool archive, const char *arch, struct local_image *ret,
	struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = {
		.path = xstrdup(path),
		.archive = archive,
		.arch = arch ? arch : arch_here()->oci,
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

/* ---- which images there are */

static char *text_or_empty(struct json_object *object, const char *key)
{
	const char *text = member_text(object, key);

	return xstrdup(text ? text : "");
}

/* Adds an image by its manifest. Its configuration has its architecture, the list may not. */
static int add_entry(const struct local_image *image, const char *name,
	struct json_object *manifest, const char *tag, struct local_images *images,
	struct error *error)
{
	_cleanup_json_ struct json_object *config = NULL;
	struct local_image_entry *entry;
	char digest[HASH_HEX_SIZE];
	_cleanup_free_ char *path = NULL;
	int r;

	for (size_t i = 0; i < images->count; i++)
		if (strcmp(images->items[i].manifest, name) == 0)
			return 0;
	r = blob_path(image, json_object_object_get(manifest, "config"), &path, error);
	if (r == 0)
		r = read_json(image, path, &config, digest, error);
	if (r < 0)
		return r == -ENOENT ? -EBADMSG : r;
	images->items = xreallocarray(images->items, images->count + 1, sizeof(*images->items));
	entry = &images->items[images->count++];
	*entry = (struct local_image_entry){ .manifest = xstrdup(name),
		.config = TAKE_PTR(path),
		.arch = text_or_empty(config, "architecture"),
		.variant = text_or_empty(config, "variant"),
		.tag = xstrdup(tag) };
	return 0;
}

static int list_below(const struct local_image *image, const char *name, const char *tag,
	unsigned int nesting, struct local_images *images, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *manifests;
	char digest[HASH_HEX_SIZE];
	int r = read_checked(image, name, &object, digest, error);

	if (r < 0)
		return r;
	if (member_array(object, "layers"))
		return add_entry(image, name, object, tag, images, error);
	manifests = member_array(object, "manifests");
	if (!manifests || nesting == 0)
		return error_set(error, -EBADMSG, "%s: %s names no image", image->path, name);
	for (size_t i = 0; i < json_object_array_length(manifests) && r == 0; i++) {
		struct json_object *descriptor = json_object_array_get_idx(manifests, i);
		struct json_object *platform = json_object_object_get(descriptor, "platform");
		struct json_object *notes = json_object_object_get(descriptor, "annotations");
		const char *arch = member_text(platform, "architecture");
		const char *own = member_text(notes, "org.opencontainers.image.ref.name");
		_cleanup_free_ char *path = NULL;

		if (arch && strcmp(arch, "unknown") == 0)
			continue;
		r = blob_path(image, descriptor, &path, error);
		if (path)
			r = list_below(image, path, own ? own : tag, nesting - 1, images, error);
	}
	return r;
}

int local_images_list(const char *path, bool archive, struct local_images *ret, struct error *error)
{
	_cleanup_(local_images_free) struct local_images images = { 0 };
	_cleanup_(local_image_free) struct local_image image = {
		.path = xstrdup(path),
		.archive = archive,
	};
	int r = list_below(&image, "index.json", "", NESTING_MAX, &images, error);

	if (r < 0)
		return r;
	*ret = images;
	images = (struct local_images){ 0 };
	return 0;
}

void local_images_free(struct local_images *images)
{
	for (size_t i = 0; i < images->count; i++) {
		free(images->items[i].manifest);
		free(images->items[i].config);
		free(images->items[i].arch);
		free(images->items[i].variant);
		free(images->items[i].tag);
	}
	free(images->items);
	*images = (struct local_images){ 0 };
}

void local_image_free(struct local_image *image)
{
	free(image->path);
	free(image->config);
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

/* --- a layer by itself: a folder with what it brings, and a file that names what it removes --- */

#define LAYER_ROOT      "root"
#define LAYER_WHITEOUTS "whiteouts" /* each ends with a NUL */

const char *local_image_layer_digest(const struct local_image *image, size_t number)
{
	const char *digest = digest_of(image->layers.items[number]);

	return digest && hash_is_hex(digest) ? digest : NULL;
}

int local_image_check_layer(const struct local_image *image, size_t number, struct error *error)
{
	return check_layer(image, image->layers.items[number], error);
}

struct selection {
	const struct unpack *unpack;
	struct strv whiteouts;
};

static bool selects(void *context, const char *path)
{
	struct selection *selection = context;
	const struct unpack *unpack = selection->unpack;

	if (local_scan_whiteout(path, &selection->whiteouts))
		return false;
	return !unpack->wanted || unpack->wanted(unpack->context, path);
}

static bool selects_name(void *context, const char *path)
{
	const struct unpack *unpack = ((struct selection *) context)->unpack;

	return unpack->name_only && unpack->name_only(unpack->context, path);
}

static int write_whiteouts(const char *folder, const struct strv *whiteouts)
{
	_cleanup_free_ char *path = xasprintf("%s/" LAYER_WHITEOUTS, folder);
	_cleanup_free_ char *text = NULL;
	size_t size = 0;

	for (size_t i = 0; i < whiteouts->count; i++) {
		size_t length = strlen(whiteouts->items[i]) + 1;

		text = xreallocarray(text, size + length, 1);
		memcpy(text + size, whiteouts->items[i], length);
		size += length;
	}
	return fs_write_atomic(AT_FDCWD, path, text ? text : "", size, 0644);
}

int local_image_unpack_layer(const struct local_image *image, size_t number,
	const struct unpack *unpack, struct error *error)
{
	const char *layer = image->layers.items[number];
	const char *digest = local_image_layer_digest(image, number);
	_cleanup_free_ char *file = file_of(image, layer);
	_cleanup_free_ char *root = xasprintf("%s/" LAYER_ROOT, unpack->folder);
	struct selection selection = { .unpack = unpack };
	struct unpack of_layer = *unpack;
	char read[HASH_HEX_SIZE] = "";
	bool hashes = image->archive && digest;
	int r = image->archive ? 0 : check_layer(image, layer, error);

	if (r == 0 && mkdir(root, 0755) < 0)
		r = error_set_errno(error, -errno, "%s", root);
	if (r < 0)
		return r;
	of_layer.folder = root;
	of_layer.wanted = selects;
	of_layer.name_only = selects_name;
	of_layer.context = &selection;
	of_layer.member = image->archive ? layer : NULL;
	of_layer.member_digest = hashes ? read : NULL;
	r = unpack_run(&of_layer, AT_FDCWD, file, error);
	/* Damage has its own words: the digest says more than where the reading failed. */
	if (hashes && (r == -EBADMSG || (r == 0 && strcmp(read, digest) != 0))) {
		int damage = check_layer(image, layer, error);

		r = damage < 0 ? damage : r;
	}
	if (r == 0) {
		r = write_whiteouts(unpack->folder, &selection.whiteouts);
		if (r < 0)
			r = error_set_errno(error, r, "%s", unpack->folder);
	}
	strv_free(&selection.whiteouts);
	return r;
}

/* Removes what is at @path below the folder, which no link leads to: not there is as good. */
static int remove_below(int folder_fd, const char *path)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_close_ int fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);

	xstrv_split(&parts, path, "/");
	for (size_t i = 0; i + 1 < parts.count && fd >= 0; i++) {
		int next =
			openat(fd, parts.items[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (next < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
			return 0;
		(void) close(fd);
		fd = next;
	}
	if (fd < 0)
		return -errno;
	return parts.count ? fs_remove_tree(fd, parts.items[parts.count - 1]) : 0;
}

/*
 * A whiteout's path is from outside: it must not lead out of the folder, by itself or by links that
 * layers brought. "" is an opaque root: all that is in the folder goes, and not the folder itself.
 */
static int remove_whiteouts(int folder_fd, const char *whiteouts, size_t size)
{
	for (const char *path = whiteouts; path < whiteouts + size; path += strlen(path) + 1) {
		_cleanup_strv_ struct strv paths = { 0 };
		int r = 0;

		if (!*path)
			r = fs_list(folder_fd, ".", &paths);
		else if (!unpack_leads_out(path))
			xstrv_push(&paths, path);
		for (size_t j = 0; j < paths.count && r == 0; j++)
			r = remove_below(folder_fd, paths.items[j]);
		if (r < 0 && r != -ENOTDIR)
			return r;
	}
	return 0;
}

/*
 * Puts an entry of a layer over what lower ones have. No link that is there is followed: a folder
 * takes its place, as everywhere where layers are put together.
 */
static int merge(int from_fd, const char *name, int to_fd)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int source_fd = -1;
	_cleanup_close_ int folder_fd = -1;
	struct stat status, there;
	bool is_folder;
	int r = 0;

	if (fstatat(from_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	is_folder = S_ISDIR(status.st_mode);
	if (fstatat(to_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		!(is_folder && S_ISDIR(there.st_mode)))
		r = fs_remove_tree(to_fd, name);
	if (r < 0 || !is_folder)
		return r < 0 ? r : copy_tree(from_fd, name, to_fd, name);
	if (mkdirat(to_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	source_fd = openat(from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	folder_fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (source_fd < 0 || folder_fd < 0)
		return -errno;
	r = fs_list(source_fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = merge(source_fd, names.items[i], folder_fd);
	return r;
}

int local_image_whiteouts(const char *layer, struct strv *paths, struct error *error)
{
	_cleanup_free_ char *file = xasprintf("%s/" LAYER_WHITEOUTS, layer);
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = fs_read(AT_FDCWD, file, 0, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", file);
	for (const char *path = text; path < text + size; path += strlen(path) + 1)
		xstrv_push(paths, path);
	return 0;
}

int local_image_merge(const char *layer, int to_fd, struct error *error)
{
	_cleanup_close_ int fd = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int root_fd =
		fd < 0 ? -1 : openat(fd, LAYER_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *whiteouts = NULL;
	_cleanup_strv_ struct strv names = { 0 };
	size_t size = 0;
	int r = root_fd < 0 ? -errno : fs_read(fd, LAYER_WHITEOUTS, 0, &whiteouts, &size);

	if (r == 0)
		r = remove_whiteouts(to_fd, whiteouts, size);
	if (r == 0)
		r = fs_list(root_fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++)
		r = merge(root_fd, names.items[i], to_fd);
	return r < 0 ? error_set_errno(error, r, "%s", layer) : 0;
}

int local_image_unpack(
	const struct local_image *image, const struct unpack *unpack, struct error *error)
{
	_cleanup_close_ int fd = open(unpack->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct unpack of_layer = *unpack;

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	for (size_t i = 0; i < image->layers.count; i++) {
		_cleanup_free_ char *layer = xasprintf("%s.layer", unpack->folder);
		int r = mkdir(layer, 0700) < 0 ? error_set_errno(error, -errno, "%s", layer) : 0;

		of_layer.folder = layer;
		if (r == 0)
			r = local_image_unpack_layer(image, i, &of_layer, error);
		if (r == 0)
			r = local_image_merge(layer, fd, error);
		if (r == 0 && fs_remove_tree(AT_FDCWD, layer) < 0)
			r = error_set_errno(error, -EIO, "%s", layer);
		if (r < 0)
			return r;
	}
	return unpack_check_links(unpack->folder, image->path, error);
}

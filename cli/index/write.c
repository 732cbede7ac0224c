/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive of an index: an OCI layout in a tar file, as `buildah push oci-archive:` writes one
 * of a single image (the OCI image-spec's image-layout.md). index.json names the index, that the
 * images: so a copy of "all" takes them with it. No times and no owners: the same inputs make the
 * same file.
 */
#include "cli/index/index_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/output_place.h"
#include "cli/json.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/pack.h"
#include "kernels/archive/unpack.h"

#define BLOBS         "blobs/sha256/"
#define LAYOUT        "{\"imageLayoutVersion\":\"1.0.0\"}"
#define TYPE_INDEX    "application/vnd.oci.image.index.v1+json"
#define TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TEXT_LIMIT    ((size_t) 4 << 20) /* as kernels/local/local_image.c has it */

/* The archive that is written, and the blobs that it has. */
struct output {
	int fd;
	struct pack *pack;
	struct strv written;
};

static void output_close(struct output *output)
{
	pack_free(&output->pack);
	cleanup_close(&output->fd);
	strv_free(&output->written);
}

static int write_text(
	struct output *output, const char *path, const char *text, struct error *error)
{
	int r = pack_text(output->pack, path, text, strlen(text));

	return r < 0 ? error_set_errno(error, r, "--output") : 0;
}

/* ---- the index */

static json_object *descriptor(const char *type, const char *digest, size_t size)
{
	json_object *object = json_object_new_object();
	_cleanup_free_ char *name = xasprintf("sha256:%s", digest);

	json_add_texts(object, "mediaType", type, "digest", name);
	json_add(object, "size", json_object_new_uint64(size));
	return object;
}

/* The caller frees *ret_text. */
static int read_blob(const struct index_source *source, const char *name, char **ret_text,
	size_t *ret_size, struct error *error)
{
	const struct verify_input *input = &source->input;
	_cleanup_free_ char *file = xasprintf("%s/%s", input->place, name);
	int r;

	if (input->kind == VERIFY_ARCHIVE)
		return archive_member_read(
			input->place, name, TEXT_LIMIT, ret_text, ret_size, error);
	r = fs_read(AT_FDCWD, file, TEXT_LIMIT, ret_text, ret_size);
	return r < 0 ? error_set_errno(error, r, "%s", file) : 0;
}

static int describe_image(const struct index_image *image, json_object **ret, struct error *error)
{
	const struct local_image_entry *entry = image->entry;
	json_object *platform;
	_cleanup_json_ json_object *manifest = NULL;
	_cleanup_free_ char *text = NULL;
	const char *type;
	size_t size;
	int r = read_blob(image->source, entry->manifest, &text, &size, error);

	if (r == 0)
		r = json_parse(text, size, &manifest, error);
	if (r < 0)
		return error_prefix(error, r, "%s", image->source->input.name);
	type = json_object_get_string(json_object_object_get(manifest, "mediaType"));
	*ret = descriptor(type ? type : TYPE_MANIFEST, entry->manifest + strlen(BLOBS), size);
	platform = json_object_new_object();
	json_add_texts(platform, "architecture", entry->arch, "os", "linux");
	if (*entry->variant)
		json_add_texts(platform, "variant", entry->variant);
	json_add(*ret, "platform", platform);
	return 0;
}

static char *compact(json_object *object)
{
	char *text = xstrdup(json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));

	(void) json_object_put(object);
	return text;
}

/* The text of the index; the caller frees it. */
static int index_text(const struct image_index *index, char **ret, struct error *error)
{
	_cleanup_json_ json_object *root = json_object_new_object();
	json_object *manifests = json_object_new_array();

	json_object_object_add(root, "schemaVersion", json_object_new_int(2));
	json_add_texts(root, "mediaType", TYPE_INDEX);
	json_add(root, "manifests", manifests);
	for (size_t i = 0; i < index->image_count; i++) {
		json_object *image = NULL;
		int r = describe_image(&index->images[i], &image, error);

		if (r < 0)
			return r;
		(void) json_object_array_add(manifests, image);
	}
	*ret = compact(json_object_get(root));
	return 0;
}

/* index.json, which gives the index its tag; the caller frees it. */
static char *layout_text(const char *tag, const char *digest, size_t size)
{
	json_object *root = json_object_new_object();
	json_object *manifests = json_object_new_array();
	json_object *item = descriptor(TYPE_INDEX, digest, size);
	json_object *notes = json_object_new_object();

	json_add_texts(notes, "org.opencontainers.image.ref.name", tag);
	json_add(item, "annotations", notes);
	(void) json_object_array_add(manifests, item);
	json_add(root, "schemaVersion", json_object_new_int(2));
	json_add(root, "manifests", manifests);
	return compact(root);
}

/* ---- the blobs, as the images have them */

/* One that is copied: an entry of an archive, or a file. */
struct blob {
	struct archive *reader; /* NULL: a file */
	int fd;
	struct hash *hash;
	bool ended; /* before its size */
	int failed; /* reading it has; 0: it has not */
};

static ssize_t read_on(void *context, void *buffer, size_t size)
{
	struct blob *blob = context;
	ssize_t got = blob->reader ? archive_read_data(blob->reader, buffer, size)
				   : read(blob->fd, buffer, size);

	if (got > 0)
		hash_add(blob->hash, buffer, (size_t) got);
	blob->ended = got == 0;
	if (got < 0)
		blob->failed = blob->reader ? -EBADMSG : -errno;
	return got < 0 ? blob->failed : got;
}

static int copy_blob(struct output *output, const char *source, const char *name, struct blob *blob,
	int64_t size, struct error *error)
{
	char hex[HASH_HEX_SIZE];
	int r;

	blob->hash = hash_new();
	r = pack_stream(output->pack, name, (uint64_t) size, read_on, blob);
	hash_finish(blob->hash, hex);
	if (blob->failed && blob->reader)
		return archive_input_damaged(source, blob->reader, error);
	if (blob->failed)
		return error_set_errno(error, blob->failed, "%s: %s", source, name);
	if (blob->ended)
		return error_set(error, -EBADMSG, "%s: %s changed while it was copied: try again",
			source, name);
	if (r < 0)
		return error_set_errno(error, r, "--output");
	if (strcmp(hex, name + strlen(BLOBS)) != 0)
		return error_set(
			error, -EBADMSG, "%s: %s is damaged: it has another SHA-256", source, name);
	xstrv_push(&output->written, name);
	return 0;
}

/* Copies those of @names that an archive has, in the order in which they lie there. */
static int copy_of_archive(struct output *output, const struct verify_input *input,
	const struct strv *names, struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input archive;
	struct archive_entry *entry;
	int state;
	int r = archive_input_open(&archive, ARCHIVE_KIND_TAR, AT_FDCWD, input->place, NULL, error);

	if (r < 0)
		return r;
	while ((state = archive_read_next_header(archive.reader, &entry)) != ARCHIVE_EOF) {
		const char *name = archive_input_path(entry);
		struct blob blob = { .reader = archive.reader };

		if (state < ARCHIVE_WARN)
			return archive_input_damaged(input->name, archive.reader, error);
		if (!name || !strv_contains(names, name) || strv_contains(&output->written, name))
			continue;
		r = copy_blob(output, input->name, name, &blob, archive_entry_size(entry), error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int copy_file(struct output *output, const struct verify_input *input, const char *name,
	struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", input->place, name);
	_cleanup_close_ int fd = fs_open(AT_FDCWD, path, O_RDONLY);
	struct blob blob = { .fd = fd };
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return error_set_errno(error, errno == ENOENT ? -EBADMSG : -errno, "%s", path);
	return copy_blob(output, input->name, name, &blob, status.st_size, error);
}

/* The blobs of all images of a source: manifest, configuration and layers of each. */
static int list_blobs(const struct index_source *source, struct strv *names, struct error *error)
{
	const struct verify_input *input = &source->input;

	for (size_t i = 0; i < source->images.count; i++) {
		const struct local_image_entry *entry = &source->images.items[i];
		_cleanup_(local_image_free) struct local_image image = { 0 };
		int r = local_image_open(
			input->place, input->kind == VERIFY_ARCHIVE, entry->arch, &image, error);

		if (r < 0)
			return r;
		xstrv_push_unique(names, entry->manifest);
		xstrv_push_unique(names, entry->config);
		for (size_t k = 0; k < image.layers.count; k++)
			xstrv_push_unique(names, image.layers.items[k]);
	}
	return 0;
}

static int copy_blobs(struct output *output, const struct index_source *source, struct error *error)
{
	const struct verify_input *input = &source->input;
	_cleanup_strv_ struct strv names = { 0 };
	int r = list_blobs(source, &names, error);

	if (r == 0 && input->kind == VERIFY_ARCHIVE)
		r = copy_of_archive(output, input, &names, error);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		if (strv_contains(&output->written, names.items[i]))
			continue;
		r = input->kind == VERIFY_ARCHIVE
			    ? error_set(error, -EBADMSG, "%s: it has no %s, which its image names",
				      input->name, names.items[i])
			    : copy_file(output, input, names.items[i], error);
	}
	return r;
}

/* ---- the file */

/* The two texts that name all else, and the digest of the first one. */
struct names {
	char *index;
	char *layout; /* index.json */
	char digest[HASH_HEX_SIZE];
};

static void names_free(struct names *names)
{
	free(names->index);
	free(names->layout);
}

/* Does it end as pack_finish() ends it? A copy that is cut short does not. */
static bool is_whole(const char *path, struct stat *status)
{
	static const char end[1024];
	char last[sizeof(end)];
	_cleanup_close_ int fd = fs_open(AT_FDCWD, path, O_RDONLY);

	return fd >= 0 && fstat(fd, status) == 0 &&
	       pread(fd, last, sizeof(last), status->st_size - (off_t) sizeof(last)) ==
		       (ssize_t) sizeof(last) &&
	       memcmp(last, end, sizeof(end)) == 0;
}

/* Is the archive there the one that would be written? All its names are digests. */
static bool is_current(const char *path, const struct names *names, struct stat *status)
{
	_cleanup_free_ char *layout = NULL;
	struct error ignored;
	size_t size;

	return is_whole(path, status) &&
	       archive_member_read(path, "index.json", TEXT_LIMIT, &layout, &size, &ignored) == 0 &&
	       strcmp(layout, names->layout) == 0;
}

static int write_all(const struct image_index *index, const struct names *names,
	struct output *output, const char *path, struct error *error)
{
	_cleanup_free_ char *blob = xasprintf(BLOBS "%s", names->digest);
	int r;

	output->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (output->fd < 0)
		return error_set_errno(error, -errno, "--output %s", path);
	output->pack = pack_new_plain(output->fd);
	r = write_text(output, "oci-layout", LAYOUT, error);
	if (r == 0)
		r = write_text(output, "index.json", names->layout, error);
	if (r == 0)
		r = write_text(output, blob, names->index, error);
	for (size_t i = 0; i < index->source_count && r == 0; i++)
		r = copy_blobs(output, &index->sources[i], error);
	if (r < 0)
		return r;
	r = pack_finish(output->pack);
	return r < 0 ? error_set_errno(error, r, "--output %s", path) : 0;
}

static int write_file(const struct image_index *index, const struct names *names,
	struct stat *status, struct error *error)
{
	const char *path = index->output;
	_cleanup_free_ char *temporary = output_temporary(path);
	_cleanup_(output_close) struct output output = { .fd = -1 };
	int r;

	if (!temporary)
		return error_set_errno(error, -ENOMEM, "%s", path);
	progress_step(&index->context->progress, "write the OCI archive");
	r = write_all(index, names, &output, temporary, error);
	if (r == 0 && (stat(temporary, status) < 0 || rename(temporary, path) < 0))
		r = error_set_errno(error, -errno, "--output %s", path);
	if (r < 0)
		(void) unlink(temporary);
	return r;
}

int index_write(struct image_index *index, struct error *error)
{
	const char *path = index->output;
	_cleanup_(names_free) struct names names = { 0 };
	struct stat status;
	int r;

	/* A rename would put a file where a device was. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return error_set(
			error, -EEXIST, "--output %s: it exists and is not a regular file", path);
	r = index_text(index, &names.index, error);
	if (r < 0)
		return r;
	hash_bytes(names.index, strlen(names.index), names.digest);
	names.layout = layout_text(index->image.tag, names.digest, strlen(names.index));
	if (!is_current(path, &names, &status))
		r = write_file(index, &names, &status, error);
	if (r < 0)
		return r;
	index->image.digest = xasprintf("sha256:%s", names.digest);
	index->image.size_bytes = (uint64_t) status.st_size;
	return 0;
}

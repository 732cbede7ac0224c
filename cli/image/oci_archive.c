/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/oci_archive.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/xalloc.h"
#include "kernels/archive/pack.h"

#define OCI "application/vnd.oci.image."

/* A blob of the archive. */
struct blob {
	char digest[HASH_HEX_SIZE];
	uint64_t size_bytes;
};

static void add(json_object *object, const char *key, json_object *value)
{
	(void) json_object_object_add(object, key, value);
}

static void add_text(json_object *object, const char *key, const char *text)
{
	add(object, key, json_object_new_string(text));
}

static json_object *list_of(json_object *item)
{
	json_object *list = json_object_new_array();

	(void) json_object_array_add(list, item);
	return list;
}

/* "sha256:…" */
static json_object *digest_of(const char *hex)
{
	_cleanup_free_ char *text = xasprintf("sha256:%s", hex);

	return json_object_new_string(text);
}

static json_object *descriptor(const char *type, const struct blob *blob)
{
	json_object *object = json_object_new_object();

	add_text(object, "mediaType", type);
	add(object, "digest", digest_of(blob->digest));
	add(object, "size", json_object_new_uint64(blob->size_bytes));
	return object;
}

static json_object *make_config(const struct oci_image *image)
{
	json_object *root = json_object_new_object();
	json_object *config = json_object_new_object();
	json_object *labels = json_object_new_object();
	json_object *rootfs = json_object_new_object();
	time_t date = (time_t) strtoll(image->date ? image->date : "0", NULL, 10);
	char created[64] = "1970-01-01T00:00:00Z";
	struct tm broken;

	for (size_t i = 0; i < image->labels->count; i++) {
		const char *text = image->labels->items[i];
		const char *sign = strchr(text, '=');
		_cleanup_free_ char *key = xstrndup(text, sign ? (size_t) (sign - text) : 0);

		if (sign)
			add_text(labels, key, sign + 1);
	}
	if (gmtime_r(&date, &broken))
		(void) strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", &broken);
	add_text(root, "created", created);
	add_text(root, "architecture", image->arch->oci);
	add_text(root, "os", "linux");
	add(config, "Labels", labels);
	add(root, "config", config);
	add_text(rootfs, "type", "layers");
	add(rootfs, "diff_ids", list_of(digest_of(image->diff_id)));
	add(root, "rootfs", rootfs);
	return root;
}

/* Adds the object as a blob, or with @path as that file, and frees it. */
static int put_json(struct pack *pack, json_object *object, const char *path, struct blob *ret)
{
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE);
	_cleanup_free_ char *place = NULL;
	int r;

	ret->size_bytes = strlen(text);
	hash_bytes(text, strlen(text), ret->digest);
	place = path ? xstrdup(path) : xasprintf("blobs/sha256/%s", ret->digest);
	r = pack_text(pack, place, text, strlen(text));
	(void) json_object_put(object);
	return r;
}

static int put_layer(struct pack *pack, const struct oci_image *image, struct blob *ret)
{
	_cleanup_free_ char *place = NULL;
	struct stat status;
	int r = hash_file(AT_FDCWD, image->layer, ret->digest);

	if (r < 0)
		return r;
	if (stat(image->layer, &status) < 0)
		return -errno;
	ret->size_bytes = (uint64_t) status.st_size;
	place = xasprintf("blobs/sha256/%s", ret->digest);
	return pack_file(pack, place, image->layer);
}

static json_object *make_manifest(const struct blob *config, const struct blob *layer)
{
	json_object *root = json_object_new_object();

	add(root, "schemaVersion", json_object_new_int(2));
	add_text(root, "mediaType", OCI "manifest.v1+json");
	add(root, "config", descriptor(OCI "config.v1+json", config));
	add(root, "layers", list_of(descriptor(OCI "layer.v1.tar+zstd", layer)));
	return root;
}

static json_object *make_index(const struct oci_image *image, const struct blob *manifest)
{
	json_object *root = json_object_new_object();
	json_object *item = descriptor(OCI "manifest.v1+json", manifest);
	json_object *platform = json_object_new_object();
	json_object *annotations = json_object_new_object();

	add_text(platform, "architecture", image->arch->oci);
	add_text(platform, "os", "linux");
	add(item, "platform", platform);
	add_text(annotations, "org.opencontainers.image.ref.name", image->name);
	add(item, "annotations", annotations);
	add(root, "schemaVersion", json_object_new_int(2));
	add_text(root, "mediaType", OCI "index.v1+json");
	add(root, "manifests", list_of(item));
	return root;
}

static json_object *make_layout(void)
{
	json_object *root = json_object_new_object();

	add_text(root, "imageLayoutVersion", "1.0.0");
	return root;
}

int oci_archive_write(int fd, const struct oci_image *image)
{
	_cleanup_(pack_free) struct pack *pack = pack_new_plain(fd);
	struct blob config, layer, manifest, none;
	int r = put_json(pack, make_layout(), "oci-layout", &none);

	if (r == 0)
		r = put_layer(pack, image, &layer);
	if (r == 0)
		r = put_json(pack, make_config(image), NULL, &config);
	if (r == 0)
		r = put_json(pack, make_manifest(&config, &layer), NULL, &manifest);
	if (r == 0)
		r = put_json(pack, make_index(image, &manifest), "index.json", &none);
	if (r == 0)
		r = pack_finish(pack);
	return r;
}

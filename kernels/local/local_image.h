/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as files: an OCI image layout (a folder, or a tarball of one: the OCI image-spec's
 * image-layout.md) and the archive that `docker save` writes. Layers are read one after the other,
 * each removing what its whiteouts name; nothing but a kernel's files is unpacked.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"
#include "kernels/local/scan.h"
#include "kernels/archive/unpack.h"

struct local_image {
	char *path; /* of the folder or the archive */
	bool archive;
	const char *arch;           /* that is wanted */
	struct strv layers;         /* their names below @path, or in the archive; lowest first */
	char *config;               /* the name of its configuration; or NULL */
	char digest[HASH_HEX_SIZE]; /* of the manifest, which names all else; "" in docker's */
};

/*
 * Finds the layers. Of an index the image for the architecture @arch, as the OCI calls it; NULL:
 * this machine's. -EINVAL when there is none, or several; -EBADMSG for what is damaged. The caller
 * frees it.
 */
int local_image_open(const char *path, bool archive, const char *arch, struct local_image *ret,
	struct error *error) _must_check_;
void local_image_free(struct local_image *image);

/* One of the images that a layout has. */
struct local_image_entry {
	char *manifest; /* the name of its file: "blobs/sha256/…" */
	char *config;   /* and of its configuration */
	char *arch;     /* by its configuration, as the OCI calls it: "arm64" */
	char *variant;  /* "v8"; "" for most */
	char *tag;      /* that the layout has for it, or for an index with it; "": none */
};

struct local_images {
	struct local_image_entry *items;
	size_t count;
};

/*
 * Lists the images of a layout, of whatever architecture: one, or those of an index. Attestations,
 * whose platform is "unknown", are left out. Errors as local_image_open()'s; -ENOENT when it is no
 * layout. The caller frees it.
 */
int local_images_list(
	const char *path, bool archive, struct local_images *ret, struct error *error) _must_check_;
void local_images_free(struct local_images *images);

/* Has its configuration a label of this name? -EBADMSG when that is damaged. */
int local_image_has_label(const struct local_image *image, const char *name, bool *ret,
	struct error *error) _must_check_;

/* Adds the marks of the whole image. */
int local_image_scan(
	const struct local_image *image, struct local_scan *scan, struct error *error) _must_check_;

/* Reads which paths such a layer, unpacked into @layer, removes from lower ones; "" is all. */
int local_image_whiteouts(const char *layer, struct strv *paths, struct error *error) _must_check_;

/* The SHA-256 that names a layer, borrowed; NULL: docker's older names have none. */
const char *local_image_layer_digest(const struct local_image *image, size_t number);
/* Reads the layer: -EBADMSG when it has another digest. */
int local_image_check_layer(
	const struct local_image *image, size_t number, struct error *error) _must_check_;

/*
 * Unpacks what @unpack wants of one layer into its folder, which is new and empty, in a form for
 * local_image_merge() alone. Errors as unpack_run()'s; -EBADMSG also for another digest.
 */
int local_image_unpack_layer(const struct local_image *image, size_t number,
	const struct unpack *unpack, struct error *error) _must_check_;
/*
 * Puts such a layer over what is in the folder @to_fd, which is not changed by hand: its files
 * become hard links where that works. After the last one: unpack_check_links().
 */
int local_image_merge(const char *layer, int to_fd, struct error *error) _must_check_;

/* Unpacks what @unpack wants of all layers. -EBADMSG when a layer has another digest. */
int local_image_unpack(const struct local_image *image, const struct unpack *unpack,
	struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a driver image: in the cache beside its archive, and in images.json. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/image/buildah.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"

#define IMAGE_ARCHIVE "image.oci.tar"
#define IMAGE_LIST    "images.json" /* in the folder of --output */

/* In the local storage the names of Slipway's images begin with it. */
#define IMAGE_LOCAL "localhost/slipway/"

/* Follows a tag; the arguments are the other image's id, twice. */
#define IMAGE_TAG_MOVED                                                                            \
	"was moved from another image, %.12s, which is still in the storage "                      \
	"(buildah rmi --force %.12s removes it, with other tags that it may have)"

/*
 * Label of a GPU image: the peer memory interface that its nvidia-peermem was bound to. It is one
 * of the two values below, or else the version of an OFED.
 */
#define IMAGE_LABEL_ROLE      "io.slipway.role" /* of each image; containers/runtime writes it */
#define IMAGE_LABEL_PEERMEM   "io.slipway.peermem"
#define IMAGE_NO_PEERMEM      "none"
#define IMAGE_KERNELS_PEERMEM "kernel" /* Ubuntu's kernels have the interface, for one */

#define IMAGE_LABEL_USERSPACE    "io.slipway.userspace" /* its version */
#define IMAGE_LABEL_USERSPACE_ID "io.slipway.userspace.id"
#define IMAGE_NO_USERSPACE       "none"

struct image {
	char *role;    /* "nic" or "gpu" */
	char *version; /* of the driver */
	char *tag;
	char *reference;    /* name in the local storage */
	struct strv also;   /* and others, for operators that compose the tag otherwise */
	char *id;           /* of the image in the storage, 64 hex digits */
	char *digest;       /* of the manifest */
	char *proof;        /* "holds", "will-not-load", "will-not-start" or "cannot-tell" */
	char *modules;      /* a number: that it brings */
	char *loading;      /* and of these will load */
	struct strv pushed; /* "REFERENCE@DIGEST" */
	char *peermem;      /* gpu: as its label IMAGE_LABEL_PEERMEM; may be NULL */
	/* nic: "MLX5_MACSEC", an option that the kernel's own drivers have on and these have not */
	struct strv inbox_only;
	uint64_t size_bytes; /* of the archive */
	/*
	 * gpu: "version", "id" (equal ids mean equal files), lists "packages", "lacking" and
	 * "files"; NULL: none
	 */
	json_object *userspace;
};

/* image.json in @folder. */
int image_write(const char *folder, const struct image *image, struct error *error) _must_check_;
int image_read(const char *folder, struct image *ret, struct error *error) _must_check_;
json_object *image_to_json(const struct image *image);
/* Adds "also", its other names, and "pushed", where it has any. */
void image_add_also(json_object *object, const struct image *image);
bool image_is_proven(const struct image *image);
/* The higher, the worse is the verdict; one that is not known counts as "cannot-tell". */
int image_proof_rank(const char *proof);
/* A text of image->userspace; @none without one. */
const char *image_userspace(const struct image *image, const char *key, const char *none);
void image_free(struct image *image);

/*
 * The identity of the modules in a folder below @root_fd: of their names and bytes, so that
 * it is the same for two builds that came out the same.
 */
int image_set_id(int root_fd, const char *folder, char ret_id[HASH_HEX_SIZE]) _must_check_;

/* Writes the image with image->id and tag to IMAGE_ARCHIVE in @folder, and sets digest and size. */
int image_archive(const char *scratch_path, const char *folder, struct image *image,
	struct error *error) _must_check_;

/*
 * Makes @image's references stand for @image in the local storage, whatever it stood for before: a
 * tag does not name the OFED that an image was bound to, so the images of two OFEDs share one. An
 * image that was removed comes back from its archive in @folder. *ret_changed: whether anything had
 * to be done, *ret_before, which the caller frees, which image the first stood for; NULL for
 * none or this one. -EBADMSG when the archive holds another image.
 */
int image_place(const char *folder, const struct image *image, bool *ret_changed, char **ret_before,
	struct error *error) _must_check_;

/* Makes @reference stand for the image with @id; *changed becomes true where it did not. */
int image_give_name(
	const char *id, const char *reference, bool *changed, struct error *error) _must_check_;

/*
 * Files of --output, which appear by a rename: no half archive is ever seen. One that is current
 * already is left alone; else *changed becomes true.
 */
int image_place_file(
	const char *from, const char *to, bool *changed, struct error *error) _must_check_;
int image_place_text(
	const char *path, const char *text, bool *changed, struct error *error) _must_check_;
/*
 * Before a push: puts the archives in @folders where --output says, into one file each or into a
 * folder; there also images.json, which is @list (it is put), unless it names all of these images.
 * So no tag is pushed whose files do not fit, and none that images.json lacks: nobody would sign
 * it.
 */
int image_place_files(const char *output, const struct image *images, const char *const *folders,
	size_t count, json_object *list, bool *changed, struct error *error) _must_check_;
/* Writes images.json, which is @list (it is put), where --output is a folder. */
int image_place_list(
	const char *output, json_object *list, bool *changed, struct error *error) _must_check_;

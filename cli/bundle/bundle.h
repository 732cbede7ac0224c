/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a build of some targets needs, in one file: `slipway bundle` collects it where
 * there is a network, `slipway build --bundle` builds from it where there is none. It is a tarball
 * in zstd whose first entry is the manifest (slipway-bundle(1)).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

struct build;

/* ---- manifest.c */

#define BUNDLE_SCHEMA      1
#define BUNDLE_MANIFEST    "bundle.json"
#define BUNDLE_LIMIT_BYTES ((size_t) 16 << 20) /* the longest manifest that is read */
#define BUNDLE_SOURCE_NONE "none"
#define BUNDLE_SOURCE_WORD "package" /* made of packages of the lock */
#define BUNDLE_SOURCE_TREE "tree"    /* a folder of the user's, as a tarball in the bundle */
#define BUNDLE_SOURCE_FILE "file"    /* a file of the user's as it was */

struct bundle_file {
	char *path; /* in the bundle */
	char *sha256;
	uint64_t size_bytes;
};

/* An image that a stage's output stands for. */
struct bundle_image {
	char *stage;
	char *key;
	char *name; /* in the storage */
	char *id;
	char *file; /* OCI archive */
};

/* Something of the user's: driver sources, an image to start from, what --kernel-from named. */
struct bundle_source {
	char *kind; /* one of the above */
	char *name; /* last part of the path that it was named by; the ID of an image */
	char *file; /* "" where the kind is none or package */
};

struct bundle_target {
	char *krel;
	char *os;
	char *arch;
	char *lock;           /* its file */
	char *refreshed;      /* stamp of the package lists and keys that the base images are of */
	char *unsigned_lists; /* "yes": they were made with --allow-unsigned; "no" */
	struct bundle_source ofed;
	struct bundle_source nvidia;
	struct bundle_source base; /* --base */
	struct bundle_image *images;
	size_t image_count;
	struct bundle_source *kernel_from;
	size_t kernel_from_count;
};

/*
 * The first file of a bundle (slipway-bundle(1)): which targets can be built from it, and every
 * other file in it with its size and SHA-256.
 */
struct bundle_manifest {
	char *slipway; /* the version that made it */
	struct bundle_target *targets;
	size_t target_count;
	struct bundle_file *files;
	size_t file_count;
};

/* Each appends an empty one. */
struct bundle_target *bundle_add_target(struct bundle_manifest *manifest);
struct bundle_file *bundle_add_file(struct bundle_manifest *manifest);
struct bundle_image *bundle_add_image(struct bundle_target *target);
struct bundle_source *bundle_add_kernel(struct bundle_target *target);

const struct bundle_file *bundle_find_file(
	const struct bundle_manifest *manifest, const char *path);

/* Returns the JSON text, freed by the caller. */
char *bundle_manifest_write(const struct bundle_manifest *manifest);

/*
 * Reads such a text. -EBADMSG with what is wrong in it, -EXDEV for a file's path that leads out of
 * the bundle, -EINVAL for a schema that is not ours. Every file that a target names is in the list.
 */
int bundle_manifest_read(
	const char *text, struct bundle_manifest *ret, struct error *error) _must_check_;
void bundle_manifest_free(struct bundle_manifest *manifest);

/* ---- archive.c */

/*
 * Writes the files of @folder_fd that the manifest lists to @path, which appears when it is whole.
 * @on_bytes (may be NULL) gets how many have gone in so far. The digest of the bundle itself is
 * written to @ret_sha256, HASH_HEX_SIZE bytes.
 */
int bundle_pack(const struct bundle_manifest *manifest, int folder_fd, const char *path,
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes), void *context,
	char *ret_sha256, struct error *error) _must_check_;

/*
 * Unpacks a bundle into the empty folder @folder_fd and checks every byte of it: what is in the
 * folder is to be used only when this returns 0. -EBADMSG: cut short, altered, or no bundle;
 * -EXDEV: an entry leads out of the folder, or is no file; -EINVAL: another slipway's schema. The
 * caller frees the manifest.
 */
int bundle_unpack(const char *path, int folder_fd, struct bundle_manifest *ret,
	void (*on_bytes)(void *context, uint64_t bytes, uint64_t of_bytes), void *context,
	struct error *error) _must_check_;

/* ---- bundle.c */

/* A bundle that a build uses. */
struct bundle {
	struct bundle_manifest manifest;
	const struct bundle_target *target; /* the one that is built */
	char *folder;                       /* where it is unpacked: below the run's folder */
	struct strv texts;                  /* that the build's options borrow */
};

/*
 * Unpacks and checks build->options.bundle, takes its downloads and images into the cache and the
 * storage, and sets the build's options to what the bundle's target says. Nothing is taken before
 * all is checked. The caller frees the bundle, also after a failure. Errors as bundle_unpack()'s;
 * -ENODATA when --kernel names no target of it.
 */
int bundle_import(struct build *build, struct bundle **ret, struct error *error) _must_check_;
void bundle_free(struct bundle **bundle);

/*
 * Adds all that the target of @build needs to @manifest and, as files, to @folder (absolute), which
 * has what earlier targets needed. The build is prepared, and its lock made.
 */
int bundle_collect(struct build *build, struct bundle_manifest *manifest, const char *folder,
	struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first file of a bundle (docs/bundle.md): which targets can be built from it, and every other
 * file in it with its size and SHA-256.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

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

struct bundle_manifest {
	char *slipway; /* the version that made it */
	struct bundle_target *targets;
	size_t target_count;
	struct bundle_file *files;
	size_t file_count;
};

/* Each appends an empty one and returns it, or NULL without memory. */
struct bundle_target *bundle_add_target(struct bundle_manifest *manifest);
struct bundle_file *bundle_add_file(struct bundle_manifest *manifest);
struct bundle_image *bundle_add_image(struct bundle_target *target);
struct bundle_source *bundle_add_kernel(struct bundle_target *target);

const struct bundle_file *bundle_find_file(
	const struct bundle_manifest *manifest, const char *path);

/* Fills the three fields with copies; -ENOMEM. */
int bundle_set_source(struct bundle_source *source, const char *kind, const char *name,
	const char *file) _must_check_;

/* Returns the JSON text, freed by the caller, or NULL without memory. */
char *bundle_manifest_write(const struct bundle_manifest *manifest);

/*
 * Reads such a text. -EBADMSG with what is wrong in it, -EXDEV for a file's path that leads out of
 * the bundle, -EINVAL for a schema that is not ours. Every file that a target names is in the list.
 */
int bundle_manifest_read(
	const char *text, struct bundle_manifest *ret, struct error *error) _must_check_;
void bundle_manifest_free(struct bundle_manifest *manifest);

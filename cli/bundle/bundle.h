/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a build of some targets needs, in one file: `slipway bundle` collects it where
 * there is a network, `slipway build --bundle` builds from it where there is none. It is a tarball
 * in zstd whose first entry is the manifest: which targets can be built from it, and every other
 * file in it with its size and SHA-256. slipway-bundle(1) has the schema.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/progress.h"
#include "common/error.h"
#include "common/strv.h"

struct build;

/* ---- manifest.c */

#define BUNDLE_SCHEMA   4
#define BUNDLE_MANIFEST "bundle.json"

struct bundle_file {
	char *path;
	char *sha256;
	uint64_t size_bytes;
};

/* An image of ours, and the stage that made it where the bundle comes from. */
struct bundle_image {
	char *file;
	char *id;
	char *key; /* of the stage's output */
	char *name;
	char *stage;
};

/* A stage that no kernel goes into left this, as a tarball: it need not be made again. */
struct bundle_output {
	char *file;
	char *key;
	char *stage;
};

#define BUNDLE_SOURCE_PACKAGE "package" /* made of packages of the lock */
#define BUNDLE_SOURCE_TREE    "tree"    /* a folder of the user's, as a tarball in the bundle */
#define BUNDLE_SOURCE_FILE    "file"    /* a file of the user's as it was */

#define BUNDLE_KERNEL_FROM "kernel-from"
#define BUNDLE_USERSPACE   "userspace"

/* A source that an option of slipway build names: of a driver, its userspace, or a kernel. */
struct bundle_source {
	char *option; /* "ofed", BUNDLE_KERNEL_FROM */
	char *kind;   /* BUNDLE_SOURCE_… */
	char *name;   /* the last part of the user's path; "" for a package */
	char *file;   /* "" for a package */
};

struct bundle_target {
	char *krel;
	char *os;
	char *arch;
	char *lock;            /* its file */
	struct strv args;      /* of a plan's build: its command line; else empty */
	struct strv downloads; /* files, those of the lock */
	char *root;            /* the distribution of the build root */
	char *root_stamp;
	char *runtime_stamp;
	bool unsigned_lists;
	char *base_file; /* of the image of --base; both are "" without one */
	char *base_id;
	struct bundle_image *images;
	size_t image_count;
	struct bundle_output *outputs;
	size_t output_count;
	struct bundle_source *sources; /* in the order of the drivers, then of the command line */
	size_t source_count;
};

struct bundle_manifest {
	char *slipway; /* the version that made it */
	struct bundle_target *targets;
	size_t target_count;
	struct bundle_file *files;
	size_t file_count;
};

/*
 * Reads its text. -EBADMSG with what is wrong in it, or for a schema that is not ours; -EXDEV for a
 * file's path that leads out of the bundle. Every file that a target names is in the list. The
 * caller frees it with bundle_manifest_free().
 */
int bundle_manifest_read(
	const char *text, struct bundle_manifest *ret, struct error *error) _must_check_;
/* Its text, which the caller frees. */
char *bundle_manifest_write(const struct bundle_manifest *manifest);
void bundle_manifest_free(struct bundle_manifest *manifest);

/* The number of the target that was made for a plan's build; the count of all where there is none.
 */
size_t bundle_find_build(const struct bundle_manifest *manifest, const struct strv *args);

/* Does the target read this file? */
bool bundle_target_reads(const struct bundle_target *target, const char *path);
bool bundle_has_file(const struct bundle_manifest *manifest, const char *path);
/* Its index, or the count of all where there is none. */
size_t bundle_find_file(const struct bundle_manifest *manifest, const char *path);

/* ---- archive.c: the file */

#define BUNDLE_LIMIT_BYTES ((size_t) 16 << 20) /* the longest manifest that is read */

/*
 * Writes the files of @folder that the manifest lists to @path, which appears when it is whole.
 * The digest of the bundle itself is written to @ret_sha256, HASH_HEX_SIZE bytes. @progress gets
 * how many of the bytes are written; it may be NULL, as below.
 */
int bundle_pack(const struct bundle_manifest *manifest, const char *folder, const char *path,
	struct progress *progress, char *ret_sha256, struct error *error) _must_check_;

/* Reads the manifest of the bundle @path: bundle_manifest_read()'s errors, -EBADMSG: no bundle. */
int bundle_open(const char *path, struct bundle_manifest *ret, struct error *error) _must_check_;

/*
 * Unpacks what @target (NULL: any) reads into the empty folder @folder and checks every byte of it:
 * what is in the folder is to be used only when this returns 0. -EBADMSG: cut short or altered;
 * -EXDEV: an entry leads out of the folder, or is no file; and unpack_run()'s errors.
 */
int bundle_unpack(const char *path, const struct bundle_manifest *manifest,
	const struct bundle_target *target, const char *folder, struct progress *progress,
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
 * storage, and sets the build's options to those of the bundle's target. Nothing is taken before
 * all is checked. The caller closes the bundle, also after a failure. Where it fails,
 * context->failure is the exit code.
 */
int bundle_import(struct build *build, struct bundle *bundle, struct error *error) _must_check_;
void bundle_close(struct bundle *bundle);

/*
 * build_preflight() for what a bundle is made of. Of a plan's build (options.plan) that is more:
 * the stages that no kernel goes into.
 */
int bundle_preflight(struct build *build, struct error *error) _must_check_;

/*
 * Adds all that the target of @build needs to @manifest and, as files, to @folder (absolute), which
 * has what earlier targets needed. @args: the command line of a plan's build; NULL without one. The
 * build is prepared, and its lock made.
 */
int bundle_collect(struct build *build, struct bundle_manifest *manifest, const struct strv *args,
	const char *folder, struct error *error) _must_check_;

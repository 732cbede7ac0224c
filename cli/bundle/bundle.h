/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a build of some targets needs, in one file: `slipway bundle` collects it where
 * there is a network, `slipway build --bundle` builds from it where there is none. It is a tarball
 * in zstd whose first entry is the manifest: which targets can be built from it, and every other
 * file in it with its size and SHA-256. slipway-bundle(1) has the schema.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cli/json.h"
#include "cli/progress.h"
#include "common/error.h"
#include "common/strv.h"

struct build;

/* ---- archive.c: the file */

#define BUNDLE_SCHEMA      2
#define BUNDLE_MANIFEST    "bundle.json"
#define BUNDLE_LIMIT_BYTES ((size_t) 16 << 20) /* the longest manifest that is read */

/* The kinds of a source, which is something of the user's: of a driver, --base, --kernel-from. */
#define BUNDLE_SOURCE_NONE "none"
#define BUNDLE_SOURCE_WORD "package" /* made of packages of the lock */
#define BUNDLE_SOURCE_TREE "tree"    /* a folder of the user's, as a tarball in the bundle */
#define BUNDLE_SOURCE_FILE "file"    /* a file of the user's as it was */

/* A file in it, borrowed from the manifest. */
struct bundle_file {
	const char *path;
	const char *sha256;
	uint64_t size_bytes;
};

size_t bundle_file_count(json_object *manifest);
struct bundle_file bundle_file_at(json_object *manifest, size_t index);
/* Its index, or the count of all where there is none. */
size_t bundle_file_find(json_object *manifest, const char *path);

/* A text of an object in a manifest that was read. */
const char *bundle_text(json_object *object, const char *key);
/* An object or list. */
json_object *bundle_member(json_object *object, const char *key);

/*
 * Reads its text. -EBADMSG with what is wrong in it, -EXDEV for a file's path that leads out of the
 * bundle, -EINVAL for a schema that is not ours. Every file that a target names is in the list. The
 * caller puts it.
 */
int bundle_manifest_read(const char *text, json_object **ret, struct error *error) _must_check_;

/*
 * Writes the files of @folder that the manifest lists to @path, which appears when it is whole.
 * The digest of the bundle itself is written to @ret_sha256, HASH_HEX_SIZE bytes. @progress gets
 * how many of the bytes are written; it may be NULL, as below.
 */
int bundle_pack(json_object *manifest, const char *folder, const char *path,
	struct progress *progress, char *ret_sha256, struct error *error) _must_check_;

/*
 * Unpacks a bundle into the empty folder @folder and checks every byte of it: what is in the folder
 * is to be used only when this returns 0. -EBADMSG: cut short, altered, or no bundle; -EXDEV: an
 * entry leads out of the folder, or is no file; -EINVAL: another slipway's schema; and
 * unpack_run()'s errors. The caller puts the manifest.
 */
int bundle_unpack(const char *path, const char *folder, struct progress *progress,
	json_object **ret, struct error *error) _must_check_;

/* ---- bundle.c */

/* A bundle that a build uses. */
struct bundle {
	json_object *manifest;
	json_object *target; /* the one that is built */
	char *folder;        /* where it is unpacked: below the run's folder */
	struct strv texts;   /* that the build's options borrow */
};

/*
 * Unpacks and checks build->options.bundle, takes its downloads and images into the cache and the
 * storage, and sets the build's options to those of the bundle's target. Nothing is taken before
 * all is checked. The caller closes the bundle, also after a failure. Errors as bundle_unpack()'s;
 * -ENODATA when --kernel names no target of it.
 */
int bundle_import(struct build *build, struct bundle *bundle, struct error *error) _must_check_;
void bundle_close(struct bundle *bundle);

/* A manifest without targets and files. The caller puts it. */
json_object *bundle_manifest_new(void);
/* build_preflight() for what a bundle is made of. */
int bundle_preflight(struct build *build, struct error *error) _must_check_;

/*
 * Adds all that the target of @build needs to @manifest and, as files, to @folder (absolute), which
 * has what earlier targets needed. The build is prepared, and its lock made.
 */
int bundle_collect(struct build *build, json_object *manifest, const char *folder,
	struct error *error) _must_check_;

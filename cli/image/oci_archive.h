/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of one layer as an OCI archive, written without Buildah: Buildah's archives have the
 * time at which they were written. Formats: OCI image-spec v1.1, image-layout.md, manifest.md,
 * config.md.
 */
#pragma once

#include "common/arch.h"
#include "common/cleanup.h"
#include "common/hash.h"
#include "common/strv.h"

struct oci_image {
	const char *layer;           /* the path of the layer, a .tar.zst */
	char diff_id[HASH_HEX_SIZE]; /* the SHA-256 of its tar file, not compressed */
	const struct arch *arch;
	const char *date;          /* seconds since 1970; NULL: 0 */
	const char *name;          /* the tag */
	const struct strv *labels; /* "key=value" */
};

/* Writes the archive to @fd, which stays the caller's. A negative errno. */
int oci_archive_write(int fd, const struct oci_image *image) _must_check_;

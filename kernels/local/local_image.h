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
	struct strv layers;         /* their names below @path, or in the archive; lowest first */
	char digest[HASH_HEX_SIZE]; /* of the manifest, which names all else; "" in docker's */
};

/*
 * Finds the layers. -EINVAL when there is no image for this machine's architecture, or several;
 * -EBADMSG for what is damaged. The caller frees it.
 */
int local_image_open(
	const char *path, bool archive, struct local_image *ret, struct error *error) _must_check_;
void local_image_free(struct local_image *image);

/* Adds the marks of the whole image. */
int local_image_scan(
	const struct local_image *image, struct local_scan *scan, struct error *error) _must_check_;

/* Unpacks what @unpack wants of all layers. -EBADMSG when a layer has another digest. */
int local_image_unpack(const struct local_image *image, const struct unpack *unpack,
	struct error *error) _must_check_;

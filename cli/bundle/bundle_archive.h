/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle as a file: a tarball in zstd whose first entry is the manifest. docs/bundle.md. */
#pragma once

#include "cli/bundle/bundle_manifest.h"

/*
 * Writes the files of @folder_fd that the manifest lists to @path, which appears when it is whole.
 * @on_bytes (may be NULL) is told how many have gone in so far. The digest of the bundle itself is
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

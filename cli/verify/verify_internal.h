/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share. */
#pragma once

#include "cli/context.h"
#include "cli/programs/image_files.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/local_image.h"

/*
 * local_image_unpack() of the files that the proof needs, with each layer's kept in the cache
 * (layers.c): @unpack wants the same files each time. With @files (or NULL) what the programs of
 * the image need is added to them, layer by layer.
 */
int verify_unpack_layers(const struct local_image *image, const struct unpack *unpack,
	struct image_files *files, struct context *context, struct error *error) _must_check_;

/*
 * --- look.c: programs are read of an archive without being unpacked ---
 */

struct verify_look {
	struct image_files files; /* of one layer */
	int fd;                   /* of a file without a name, for the one that is being read */
};

/* @folder: where there is room for one file. The caller closes it with verify_look_close(). */
int verify_look_open(
	struct verify_look *look, const char *folder, struct error *error) _must_check_;
/* For struct unpack's look, with a struct verify_look. */
int verify_look(void *context, struct archive_entry *entry, struct archive *reader,
	struct error *error) _must_check_;
void verify_look_close(struct verify_look *look);

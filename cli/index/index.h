/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver images for several architectures as one OCI image index, so that one tag stands for all of
 * them and each node gets its own: the OCI image-spec's image-index.md. The images stay what they
 * are, byte by byte.
 */
#pragma once

#include "cli/context.h"
#include "cli/image/addons.h"
#include "cli/image/image_record.h"
#include "cli/image/operators.h"
#include "cli/push.h"

#define INDEX_MAX 16 /* images: more than there are architectures */

struct index_source;
struct index_image;

struct image_index {
	struct context *context;
	const char *output;     /* the file */
	const char *os_version; /* VERSION_ID of the nodes; NULL: as the images say */
	struct operators operators;
	struct index_source *sources; /* as the command line names them */
	size_t source_count;
	struct index_image *images; /* in the order of the sources */
	size_t image_count;
	/* The index as a whole; its digest and size are set by index_write(). */
	struct image image;
	struct image_use use;
	struct image_addons addons;
	char *node_version; /* VERSION_ID of all nodes; NULL: they differ */
};

/*
 * Reads the images and finds their common tag. -EINVAL for what is no image of ours, for two images
 * of one architecture, and for images that do not go together: another role, driver version or
 * distribution.
 */
int index_open(
	struct image_index *index, const struct strv *names, struct error *error) _must_check_;
void index_close(struct image_index *index);

/*
 * Writes the OCI archive index->output, which appears when it is whole; the same one, if it is
 * there already, is left alone. -EBADMSG for a damaged image; else errors of writing.
 */
int index_write(struct image_index *index, struct error *error) _must_check_;

/* The object that --json prints. The caller puts it. */
json_object *index_to_json(const struct image_index *index);
/* The same for people: the tag, the images, and what to do with the file. */
void index_print(const struct image_index *index);

/*
 * ---- folders.c
 *
 * A build for several architectures: a folder of build --output for each, and beside them the
 * indexes.
 */
struct index_folders {
	struct context *context;
	const char *output;       /* the folder that has the folders */
	const struct strv *archs; /* their names */
	const char *os_version;   /* as image_index has it */
	struct operators operators;
	const struct push *push;
};

/*
 * Makes an index of each image, pushes them where that was asked for, writes images.json and the
 * operators' files, and prints the result. Errors as index_open()'s, index_write()'s and
 * push_image()'s; the exit code is in context->failure.
 */
int index_folders_make(const struct index_folders *folders, struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share. */
#pragma once

#include "cli/index/index.h"
#include "cli/verify/input.h"
#include "common/image_conf.h"
#include "kernels/local/local_image.h"

/* An archive or a layout, with one image or an index of several. */
struct index_source {
	struct verify_input input;
	struct local_images images;
};

struct index_image {
	const struct index_source *source;
	const struct local_image_entry *entry;
	struct verify_input files; /* image.conf, and whether there is a kit */
	struct image_conf conf;
	char *version; /* of the driver, with the revision */
	struct strv krels;
	bool compiles; /* on a node */
	struct strv tags;
};

/* The tag and the images, for people. */
void index_print_images(const struct image_index *index);

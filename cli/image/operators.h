/* SPDX-License-Identifier: Apache-2.0 */
/* An image as the GPU Operator and the Network Operator name it: its tags, and their values. */
#pragma once

#include <stdbool.h>

#include "cli/image/image_record.h"
#include "common/strv.h"

#define IMAGE_TAG_LIMIT 128 /* OCI distribution specification */

/* Ends the tag of an image that --force made: no operator asks for it, and it takes no other's. */
#define IMAGE_UNPROVEN "-unproven"

/*
 * Appends the os tags that GPU operators compose for a GPU image on nodes with this ID and
 * VERSION_ID, unless @tags already has them. The first is the tag of operators 26.7 and newer; a
 * second follows if that of older ones differs.
 */
void image_os_tags(const char *os_id, const char *os_version, struct strv *tags);

/* Names it "<tag><end>": its tag and reference where it has none, else one that it has also. */
void image_add_tag(struct image *image, const char *repository, const char *tag, const char *end);

/*
 * Prints how to push the image, and what to put into the operator's values for it. @precompiled:
 * for just one kernel; @compiles: it has what compiles modules on a node.
 */
void image_print_use(const struct image *image, bool precompiled, bool compiles);
void image_print_push(const char *reference);
/* How to push its other names; nothing where it has none. */
void image_print_also(const struct image *image);

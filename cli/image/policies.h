/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside the archives that push the images and that the operators apply. */
#pragma once

#include "cli/image/operators.h"

/*
 * Writes them into the output folder: push.sh, and each role's policies. @uses: of each image.
 * Those of images that are not among these, or that no operator asks for, are removed: an earlier
 * build left them. *changed becomes true where one was not there so.
 */
int policies_place(const char *output, const struct image *images, size_t count,
	const struct image_use *uses, bool *changed, struct error *error) _must_check_;
/*
 * Would policies_place() replace a file that slipway did not write? -EEXIST that names it: to be
 * asked before any work. 0 for an output that is no folder.
 */
int policies_ready(const char *output, struct error *error) _must_check_;
/* Prints the commands that use them. */
void policies_print(
	const char *output, const struct image *images, size_t count, const struct image_use *uses);

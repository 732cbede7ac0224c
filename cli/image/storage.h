/* SPDX-License-Identifier: Apache-2.0 */
/* A finished image in the local storage, under the name that is pushed. */
#pragma once

#include <stdbool.h>

#include "cli/image/image.h"

/*
 * Makes @image's reference stand for @image, whatever it stood for before: a tag does not say which
 * OFED an image was bound to, so the images of two OFEDs share one. An image that someone removed
 * comes back from its archive in @folder. *ret_changed says whether anything had to be done,
 * *ret_before, which the caller frees, which image the reference stood for; NULL for none or this
 * one. -EBADMSG when the archive holds another image.
 */
int storage_place(const char *folder, const struct image *image, bool *ret_changed,
	char **ret_before, struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share. */
#pragma once

#include "cli/context.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/local_image.h"

/*
 * local_image_unpack() of the files that the proof needs, with each layer's kept in the cache
 * (layers.c): @unpack wants the same files each time.
 */
int verify_unpack_layers(const struct local_image *image, const struct unpack *unpack,
	struct context *context, struct error *error) _must_check_;

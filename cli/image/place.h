/* SPDX-License-Identifier: Apache-2.0 */
/* The places that build --output takes: a folder, or one of these. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define OUTPUT_STORAGE "containers-storage:"
#define OUTPUT_ARCHIVE "oci-archive:"

static inline bool output_place_is_folder(const char *place)
{
	return strcmp(place, OUTPUT_STORAGE) != 0 &&
	       strncmp(place, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) != 0;
}

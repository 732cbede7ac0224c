/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the place of a verb's result before minutes of work: refuses a kind of place that no verb
 * writes to, and a place below a folder that does not exist. build --output takes a folder, or one
 * of these:
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "common/error.h"

#define OUTPUT_STORAGE "containers-storage:"
#define OUTPUT_ARCHIVE "oci-archive:"

static inline bool output_place_is_folder(const char *place)
{
	return strcmp(place, OUTPUT_STORAGE) != 0 &&
	       strncmp(place, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) != 0;
}

/*
 * Is @place one that build --output takes: a folder, OUTPUT_STORAGE, or OUTPUT_ARCHIVE with a file?
 * -EINVAL with what is wrong: an address of a registry is pushed to, and is no folder.
 */
int output_place_check(const char *place, struct error *error) _must_check_;

/*
 * -EINVAL: @path, a file that --output @place stands for, is @input, an image that is read: writing
 * the one would destroy the other.
 */
int output_is_no_input(
	const char *place, const char *path, const char *input, struct error *error) _must_check_;

/*
 * The name by which the file @path is written until it is whole; the caller frees it. NULL: no
 * memory. What killed runs left of this file by such names goes, if nothing has changed it for an
 * hour: a run writes to its own all the time.
 */
char *output_temporary(const char *path);

/*
 * From here on, and in processes that are started then, the last name is remembered; an earlier one
 * is forgotten. The caller of output_remove_unfinished() waits for such a process, which has ended
 * without a result.
 */
void output_share(void);
void output_remove_unfinished(void);

/* @path itself, or the nearest folder above it that is there; the caller frees it. */
char *output_nearest(const char *path);

/*
 * Can what build --output names be written? Nothing is made yet: a folder's parents are made with
 * it, a file's are not. @place has passed output_place_check(). A negative errno that names the
 * folder.
 */
int output_place_ready(const char *place, struct error *error) _must_check_;

/*
 * Can the folder @path be written, or made? @option is how it was asked for. A negative errno that
 * names the folder.
 */
int output_folder_ready(const char *option, const char *path, struct error *error) _must_check_;

/*
 * Can the file @path be written: is its folder there and writable? "-", a pipe or a terminal are.
 * @option is how it was asked for. A negative errno that names the folder.
 */
int output_file_ready(const char *option, const char *path, struct error *error) _must_check_;

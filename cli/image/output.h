/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a build: the images where they were asked for, and what is said about them. */
#pragma once

#include "cli/stage/build.h"

/*
 * Puts the images, the lock and the proof where --output says and prints how to use them. Does
 * nothing but say so when all of it is there already.
 */
int output_write(struct build *build, struct error *error) _must_check_;

/* Prints why the build failed, to people and as a JSON event. */
void output_failure(const struct build *build, const struct error *error);

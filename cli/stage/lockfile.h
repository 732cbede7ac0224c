/* SPDX-License-Identifier: Apache-2.0 */
/* The first step of a build: its lock, from a file or by asking the package lists. */
#pragma once

#include "cli/stage/build.h"

/* Fills build->lock, unless that was read from a file: then it is checked. On failure
 * build->failure is the exit code. */
int lockfile_make(struct build *build, struct error *error) _must_check_;

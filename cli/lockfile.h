/* SPDX-License-Identifier: Apache-2.0 */
/* The first arrow: the lock of this build, from the cache or by asking apt. */
#pragma once

#include "cli/build.h"

/* Fills build->apt and build->lock. On failure build->failure is the exit code. */
int lockfile_make(struct build *build, struct error *error) _must_check_;

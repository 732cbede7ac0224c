/* SPDX-License-Identifier: Apache-2.0 */
/* The repositories that base images are made of, as containers/<distribution>/base.sh wants them.
 */
#pragma once

#include "cli/build/build.h"

/*
 * Appends --suite, --keyring and --source options for the distribution of the build; a repository
 * without a mirror is passed over with a note. -ENOMEDIUM when none has one.
 */
int base_sources(struct build *build, struct strv *argv, struct error *error) _must_check_;

/* Adds to a key what of this the command line or the catalogue can change. */
void base_sources_add_inputs(const struct build *build, struct hash *hash);

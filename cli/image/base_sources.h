/* SPDX-License-Identifier: Apache-2.0 */
/* The repositories that base images are made of, as containers/<distribution>/base.sh wants them.
 */
#pragma once

#include "cli/stage/build.h"

/*
 * Appends --suite and --source options, each source with its own keys, for the distribution of the
 * build; a repository without a mirror is passed over with a note. -ENOMEDIUM when none has one;
 * -EKEYREJECTED for a keyring that apt cannot be told of.
 */
int base_sources(struct build *build, struct strv *argv, struct error *error) _must_check_;

/*
 * A digest of what this machine has: the state of the package lists (cache_refreshed()), what is in
 * the keyrings, and whether expired lists are taken. It is part of the base images' keys, and a
 * bundle has it for machines that are offline. The caller frees it.
 */
int base_sources_stamp(const struct build *build, char **ret_stamp) _must_check_;

/* Adds to a key what of this the command line or the catalogue can change. */
void base_sources_add_inputs(const struct build *build, struct hash *hash);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of repositories, where this machine has none: fetched once, and believed when they are
 * the ones that are published, or when the user says so.
 */
#pragma once

#include <stdbool.h>

#include "cli/context.h"
#include "common/error.h"
#include "kernels/catalogue.h"
#include "kernels/repo/mirrors.h"

/*
 * For each repository of @os that @wanted says and that has a mirror, sees to it that there is a
 * keyring, as far as that can be: offline, with --allow-unsigned and without a place to fetch one
 * from nothing is done, and one that cannot be fetched is noted: what it should have signed is
 * refused later. -EKEYREJECTED for keys that the user has not accepted: the message says how.
 */
int keys_obtain(struct context *context, const struct catalogue *os, const struct mirrors *mirrors,
	bool (*wanted)(const void *data, const struct repository *repository), const void *data,
	struct error *error) _must_check_;

/*
 * After a refusal: returns the network's error in the place of -EKEYREJECTED where a
 * key could not be reached. It is no signature that lacks then, and another try may succeed.
 */
int keys_unreached(const struct context *context, int r, struct error *error) _must_check_;

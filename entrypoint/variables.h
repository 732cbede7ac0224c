/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the environment that are Slipway's by their name, and mistyped. */
#pragma once

#include <stdbool.h>

#include "common/error.h"

struct journal;

/*
 * Is @entry ("NAME=value") a variable that begins with SLIPWAY_ and that nobody reads? Then @note
 * says so, with the name that may have been meant.
 */
bool variables_is_unknown(const char *entry, struct error *note);

/* Notes all such variables of the process's environment. */
void variables_tell(struct journal *journal);

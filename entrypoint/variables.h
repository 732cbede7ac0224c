/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the environment that are Slipway's by their name, and mistyped. */
#pragma once

#include <stdbool.h>

#include "common/error.h"

struct log;

/*
 * Is @entry ("NAME=value") a variable that nobody reads and that somebody may believe in: one that
 * begins with SLIPWAY_, or an operator's with a slip or two in its name? Then @note says so, with
 * the name that may have been meant.
 */
bool variables_is_unknown(const char *entry, struct error *note);

/* Notes all such variables of the process's environment. */
void variables_tell(struct log *log);

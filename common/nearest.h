/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody who mistyped a word may have meant. */
#pragma once

#include "common/strv.h"

/*
 * The word of @words that @text is nearest to: one that it is the beginning of, or one that few
 * letters (a third of them at most) have to be changed, added or swapped for. NULL where none is
 * near. Borrows from @words.
 */
const char *nearest_word(const struct strv *words, const char *text);

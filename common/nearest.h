/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the word that a mistyped one may have meant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strv.h"

/*
 * The word of @words that @text is nearest to: one that it is the beginning of, or one that few
 * letters (a third of them at most) have to be changed, added or swapped for. NULL where none is
 * near. Borrows from @words.
 */
const char *nearest_word(const struct strv *words, const char *text);

/* Is @text @word with one to @most mistakes: a letter changed, added, left out, or two swapped? */
bool is_slip_of(const char *text, const char *word, size_t most);

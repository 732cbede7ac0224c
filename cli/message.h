/* SPDX-License-Identifier: Apache-2.0 */
/* A message on its way to the user: stderr, or a text in JSON. */
#pragma once

#include <stdio.h>

#include "common/error.h"

/*
 * Prints "@who: message", and the lines below it indented by two columns. On a terminal lines are
 * wrapped between words at its width; in a file or a pipe each stays one.
 */
void message_error(FILE *file, const char *who, const struct error *error);

/* The same as one text, without @who and a newline at its end; the caller frees it. */
char *message_text(const struct error *error);

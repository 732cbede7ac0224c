/* SPDX-License-Identifier: Apache-2.0 */
/* A message on its way to the user: stderr, or a text in JSON. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

enum colour { COLOUR_NONE, COLOUR_RED, COLOUR_YELLOW };

/*
 * text_print() in that colour, but for a newline at the end of @format. It has none where @file is
 * no terminal, the terminal is a dumb one, or NO_COLOR is set (no-color.org).
 */
void message_print(FILE *file, enum colour colour, const char *format, ...) _printf_(3, 4);

/*
 * Messages name our documents and scripts by their place in the source tree. Replaces that, where
 * this program is installed, with the path of the installed file. The caller frees it.
 */
char *message_paths(const char *text);
/* Is this program installed, with its documents? */
bool message_is_installed(void);

/*
 * Prints "@who: message", and the lines below it indented by two columns. On a terminal lines are
 * wrapped between words at its width; in a file or a pipe each stays one.
 */
void message_error(FILE *file, const char *who, const struct error *error);

/* A write to stdout has just failed with errno, which a later flush does not tell. */
void message_lost(void);
/*
 * Writes what stdout holds. Returns 0, or, when some of this process' output could not be written
 * so far, the negative errno of the first failure, -EIO where it is not known.
 */
int message_flush(void);
/* In a new process: what another one could not write is not its own. */
void message_start(void);
/*
 * At the end of a process whose exit code is @code: says that some of its output could not be
 * written. Such an answer is none: returns EXIT_CODE_DISK_FULL or EXIT_CODE_OUTPUT in the place of
 * EXIT_CODE_OK.
 */
int message_end(int code) _must_check_;

/* The same as one text, without @who and a newline at its end; the caller frees it. */
char *message_text(const struct error *error);

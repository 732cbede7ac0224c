/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside (names in archives, package lists, module files, a node's state) on its way to
 * a terminal, a log or a line of a table.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "common/cleanup.h"

/*
 * Makes @text one line that changes nothing but its own place: a tab becomes a blank, and each of
 * the following one '?': a control character of C0 (newlines, ESC) or C1 (U+0080 to U+009F), DEL, a
 * character that reorders or breaks lines (Unicode's Bidi_Control, U+2028, U+2029), and a byte that
 * is not part of well-formed UTF-8 (RFC 3629). In place: the text never grows.
 */
void text_clean(char *text);

/*
 * The printf() of all that people read: fprintf() of one line, or of a part of one, through
 * text_clean(). Newlines at the two ends of @format stay. A text that there is no memory for is
 * left out; a failed write is @file's (ferror()).
 */
void text_print(FILE *file, const char *format, ...) _printf_(2, 3);
void text_vprint(FILE *file, const char *format, va_list arguments) _printf_(2, 0);

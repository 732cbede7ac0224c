/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON strings (RFC 8259) for programs that write a few flat objects and link no JSON
 * library: slipway-init. The build side uses json-c.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes @text as a quoted JSON string; bytes that are not valid UTF-8 become U+FFFD. */
void json_text_string(FILE *file, const char *text);

/* Bytes of the UTF-8 sequence that @text begins with; 0 when it is not a valid one. */
size_t json_text_utf8_length(const char *text);

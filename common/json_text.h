/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON (RFC 8259) for programs that link no JSON library: slipway-init. The build side uses
 * json-c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/strv.h"

/* Writes @text as a quoted JSON string; bytes that are not valid UTF-8 become U+FFFD. */
void json_text_string(FILE *file, const char *text);

/* Bytes of the UTF-8 sequence that @text begins with; 0 when it is not a valid one. */
size_t json_text_utf8_length(const char *text);

/*
 * One object or array, value by value; commas and quoting come by themselves. All of the functions
 * write nothing where @json is NULL: a caller that also has a form for people calls both.
 */
struct json {
	FILE *file;
	bool comma;   /* something stands before the next value */
	bool lines;   /* for people too: a line for each member, indented */
	bool in_line; /* but for those of the object or array that is open */
	int depth;
};

/* @key is the member's name, or NULL for a value in an array and for the outermost one. */
void json_write_open(struct json *json, const char *key, char bracket);
/* With @lines: one whose members stand in one line; it has none that is open itself. */
void json_write_open_in_line(struct json *json, const char *key, char bracket);
void json_write_close(struct json *json, char bracket);
void json_write_text(struct json *json, const char *key, const char *text);
void json_write_number(struct json *json, const char *key, long long number);
void json_write_boolean(struct json *json, const char *key, bool value);
void json_write_null(struct json *json, const char *key);
/* An array of texts. */
void json_write_list(struct json *json, const char *key, const struct strv *list);

/* Values that may be unknown: null for a negative @number or @answer, for an empty or NULL @text.
 */
void json_write_answer(struct json *json, const char *key, int answer);
void json_write_number_or_null(struct json *json, const char *key, long long number);
void json_write_text_or_null(struct json *json, const char *key, const char *text);

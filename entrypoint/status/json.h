/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON object on stdout or wherever, value by value; commas and quoting come by themselves. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct json {
	FILE *file;
	bool comma; /* something stands before the next value */
};

/* @key is the member's name, or NULL for a value in an array and for the outermost one. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, long long number);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/* What may be unknown: null for a negative @number, for an empty or NULL @text. */
void json_number_or_null(struct json *json, const char *key, long long number);
void json_text_or_null(struct json *json, const char *key, const char *text);

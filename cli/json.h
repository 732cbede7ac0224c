/* SPDX-License-Identifier: Apache-2.0 */
/* JSON output of the verbs: json-c objects that are made from the verbs' structs. */
#pragma once

#include <json-c/json.h>
#include <stdio.h>

#include "common/error.h"
#include "common/strv.h"

/*
 * Parses @text, one JSON value and nothing behind it. -EBADMSG with what is wrong; the caller puts
 * *ret.
 */
int json_parse(const char *text, size_t size, json_object **ret, struct error *error) _must_check_;

/*
 * The JSON of the file @path, "-" for stdin, of at most 1 GiB, that @option ("--plan") names.
 * Errors as json_parse()'s and fs_read()'s; the caller puts *ret.
 */
int json_read(
	const char *option, const char *path, json_object **ret, struct error *error) _must_check_;

/* A text, or null for NULL. What is no UTF-8 becomes '?'. */
json_object *json_text(const char *text);
json_object *json_list(const struct strv *list);
/* Adds @value, which it takes. */
void json_add(json_object *object, const char *name, json_object *value);
/* Adds texts: pairs of a name and a text (or NULL for null); a name that is NULL ends them. */
void json_add_pairs(json_object *object, const char *const *pairs);
#define json_add_texts(object, ...)                                                                \
	json_add_pairs((object), (const char *const[]){ __VA_ARGS__, NULL })
/* As a file has it, with a newline at its end; the caller frees it. */
char *json_pretty(json_object *root);
/* Prints @root and a newline, and frees it. */
void json_print(json_object *root, FILE *file);
/* The same on one line of stdout, at once. */
void json_print_line(json_object *root);

/*
 * Prints one object on a line of stdout: how a verb ended. It has @event unless it is "", and of
 * @reason and @message those that are not NULL.
 */
void json_print_failed(const char *event, int exit_code, const char *reason, const char *message);

/*
 * Prints why a verb failed, to stderr, and with @event also as one object to stdout; it has that
 * event unless it is "". Returns @exit_code.
 */
int json_fail(const char *verb, const char *event, int exit_code, const struct error *error);

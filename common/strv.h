/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing list of strings that it owns. The array is NULL-terminated at all times after the first
 * push, so that it can be passed as an argv. Functions return 0 or -ENOMEM unless noted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"

struct strv {
	char **items;
	size_t count;
	size_t capacity;
};

/* Appends a copy of @text. */
int strv_push(struct strv *list, const char *text) _must_check_;
/* Appends a formatted string. */
int strv_pushf(struct strv *list, const char *format, ...) _printf_(2, 3) _must_check_;
/* Appends a copy of @text unless it is there already. */
int strv_push_unique(struct strv *list, const char *text) _must_check_;
/* Appends each non-empty field of @text between any of the bytes in @separators. */
int strv_split(struct strv *list, const char *text, const char *separators) _must_check_;
bool strv_contains(const struct strv *list, const char *text);
/* The same of a list that strv_sort() has sorted. */
bool strv_contains_sorted(const struct strv *list, const char *text);
/* Removes the item at @index, keeping the order of the others. */
void strv_remove(struct strv *list, size_t index);
/* Sorts by byte value. */
void strv_sort(struct strv *list);
/* Returns a new string of all items with @separator between them, or NULL without memory. */
char *strv_join(const struct strv *list, const char *separator);
void strv_free(struct strv *list);

#define _cleanup_strv_ _cleanup_(strv_free)

/* ---- of one string */

bool str_ends_with(const char *text, const char *end);

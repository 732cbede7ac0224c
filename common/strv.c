/* SPDX-License-Identifier: Apache-2.0 */
#include "common/strv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int strv_reserve(struct strv *list)
{
	size_t capacity = list->capacity ? list->capacity * 2 : 8;
	char **items;

	if (list->count + 1 < list->capacity)
		return 0;
	items = reallocarray(list->items, capacity, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->capacity = capacity;
	return 0;
}

/* Takes ownership of @text, also on failure. */
static int strv_adopt(struct strv *list, char *text)
{
	if (!text)
		return -ENOMEM;
	if (strv_reserve(list) < 0) {
		free(text);
		return -ENOMEM;
	}
	list->items[list->count++] = text;
	list->items[list->count] = NULL;
	return 0;
}

int strv_push(struct strv *list, const char *text)
{
	return strv_adopt(list, strdup(text));
}

int strv_pushf(struct strv *list, const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	return strv_adopt(list, length < 0 ? NULL : text);
}

int strv_push_unique(struct strv *list, const char *text)
{
	return strv_contains(list, text) ? 0 : strv_push(list, text);
}

int strv_split(struct strv *list, const char *text, const char *separators)
{
	while (*text) {
		size_t length = strcspn(text, separators);

		if (length && strv_adopt(list, strndup(text, length)) < 0)
			return -ENOMEM;
		text += length;
		text += strspn(text, separators);
	}
	return 0;
}

bool strv_contains(const struct strv *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i][0] == text[0] && strcmp(list->items[i], text) == 0)
			return true;
	return false;
}

void strv_remove(struct strv *list, size_t index)
{
	free(list->items[index]);
	/* The terminating NULL moves along. */
	memmove(&list->items[index], &list->items[index + 1],
		(list->count - index) * sizeof(*list->items));
	list->count--;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

void strv_sort(struct strv *list)
{
	if (list->count > 1)
		qsort(list->items, list->count, sizeof(*list->items), compare_strings);
}

bool strv_contains_sorted(const struct strv *list, const char *text)
{
	return list->count &&
	       bsearch(&text, list->items, list->count, sizeof(*list->items), compare_strings);
}

char *strv_join(const struct strv *list, const char *separator)
{
	size_t size = 1;
	char *joined;
	char *end;

	for (size_t i = 0; i < list->count; i++)
		size += strlen(list->items[i]) + strlen(separator);
	joined = malloc(size);
	if (!joined)
		return NULL;
	end = joined;
	*end = '\0';
	for (size_t i = 0; i < list->count; i++) {
		if (i)
			end = stpcpy(end, separator);
		end = stpcpy(end, list->items[i]);
	}
	return joined;
}

void strv_free(struct strv *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	*list = (struct strv){ 0 };
}

bool str_ends_with(const char *text, const char *end)
{
	size_t length = strlen(text);
	size_t wanted = strlen(end);

	return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "common/xalloc.h"

#include <string.h>

_Noreturn void out_of_memory(void)
{
	(void) fputs("slipway: out of memory\n", stderr);
	exit(EXIT_OUT_OF_MEMORY);
}

static void *check(void *memory)
{
	if (!memory)
		out_of_memory();
	return memory;
}

void *xcalloc(size_t count, size_t size)
{
	return check(calloc(count ? count : 1, size ? size : 1));
}

void *xreallocarray(void *old, size_t count, size_t size)
{
	return check(reallocarray(old, count ? count : 1, size ? size : 1));
}

char *xstrdup(const char *text)
{
	return check(strdup(text));
}

char *xstrndup(const char *text, size_t length)
{
	return check(strndup(text, length));
}

char *xasprintf(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	return text;
}

char *xvasprintf(const char *format, va_list arguments)
{
	char *text = NULL;

	if (vasprintf(&text, format, arguments) < 0)
		out_of_memory();
	return text;
}

void xstrv_push(struct strv *list, const char *text)
{
	if (strv_push(list, text) < 0)
		out_of_memory();
}

void xstrv_pushf(struct strv *list, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;
	int r;

	va_start(arguments, format);
	r = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (r < 0 || strv_push(list, text) < 0)
		out_of_memory();
	free(text);
}

void xstrv_push_unique(struct strv *list, const char *text)
{
	if (strv_push_unique(list, text) < 0)
		out_of_memory();
}

void xstrv_split(struct strv *list, const char *text, const char *separators)
{
	if (strv_split(list, text, separators) < 0)
		out_of_memory();
}

char *xstrv_join(const struct strv *list, const char *separator)
{
	return check(strv_join(list, separator));
}

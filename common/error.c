/* SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include <stdarg.h>
#include <string.h>

#include "common/text.h"

/* The arguments may be of the very message that is written. */
static void format_text(char *text, const char *format, va_list arguments)
{
	(void) vsnprintf(text, ERROR_TEXT_SIZE, format, arguments);
	text_clean(text);
}

int error_set(struct error *error, int code, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	format_text(text, format, arguments);
	va_end(arguments);
	memcpy(error->text, text, sizeof(text));
	error->lines[0] = '\0';
	return code;
}

const char *error_cause(int code)
{
	return code == -ESPIPE ? "a FIFO, device or socket, not a file" : strerror(-code);
}

int error_set_errno(struct error *error, int code, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	format_text(text, format, arguments);
	va_end(arguments);
	return error_set(error, code, "%s: %s", text, error_cause(code));
}

int error_prefix(struct error *error, int code, const char *format, ...)
{
	char rest[ERROR_TEXT_SIZE];
	va_list arguments;
	size_t used;

	memcpy(rest, error->text, sizeof(rest));
	va_start(arguments, format);
	format_text(error->text, format, arguments);
	va_end(arguments);
	used = strlen(error->text);
	(void) snprintf(error->text + used, sizeof(error->text) - used, ": %s", rest);
	text_clean(error->text); /* it may have been cut within a character */
	return code;
}

/* One that is cut still ends its line, and has some words. */
static void add_line(struct error *error, const char *label, const char *text)
{
	size_t used = strlen(error->lines), room = sizeof(error->lines) - used;

	if (room < ERROR_LINE_MIN)
		return;
	(void) snprintf(error->lines + used, room - 1, "%s%s", label, text);
	text_clean(error->lines + used);
	used = strlen(error->lines);
	error->lines[used] = '\n';
	error->lines[used + 1] = '\0';
}

int error_try(struct error *error, int code, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	format_text(text, format, arguments);
	va_end(arguments);
	add_line(error, ERROR_TRY, text);
	return code;
}

int error_line(struct error *error, int code, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	format_text(text, format, arguments);
	va_end(arguments);
	add_line(error, "", text);
	return code;
}

int error_take_lines(struct error *error, int code, const struct error *other)
{
	size_t used = strlen(error->lines);

	if (used + strlen(other->lines) < sizeof(error->lines))
		memcpy(error->lines + used, other->lines, strlen(other->lines) + 1);
	return code;
}

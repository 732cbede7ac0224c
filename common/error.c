/* SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include <stdarg.h>
#include <string.h>

int error_set(struct error *error, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	return code;
}

int error_set_errno(struct error *error, int code, const char *format, ...)
{
	va_list arguments;
	size_t used;

	va_start(arguments, format);
	(void) vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	used = strlen(error->text);
	(void) snprintf(error->text + used, sizeof(error->text) - used, ": %s", strerror(-code));
	return code;
}

int error_prefix(struct error *error, int code, const char *format, ...)
{
	char rest[ERROR_TEXT_SIZE];
	va_list arguments;
	size_t used;

	memcpy(rest, error->text, sizeof(rest));
	va_start(arguments, format);
	(void) vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	used = strlen(error->text);
	(void) snprintf(error->text + used, sizeof(error->text) - used, ": %s", rest);
	return code;
}

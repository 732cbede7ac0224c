/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/tell.h"

#include <stdarg.h>

void network_note(const struct network *network, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (network->tell)
		network->tell(network->context, text);
}

void network_failure(
	const struct network *network, struct network_result *result, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (result->failures++ == 0)
		(void) snprintf(result->first, sizeof(result->first), "%.255s", text);
	network_note(network, "could not be restored: %s", text);
}

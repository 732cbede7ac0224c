/* SPDX-License-Identifier: Apache-2.0 */
#include "common/conf.h"

#include <stdio.h>
#include <string.h>

void conf_value(const char *text, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	value[0] = '\0';
	while (*text) {
		size_t line = strcspn(text, "\n");

		if (line > length && strncmp(text, key, length) == 0 && text[length] == '=') {
			(void) snprintf(
				value, size, "%.*s", (int) (line - length - 1), text + length + 1);
			return;
		}
		text += line + (text[line] == '\n');
	}
}

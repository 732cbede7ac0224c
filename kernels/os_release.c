/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/os_release.h"

#include <string.h>

char *os_release_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *value;
		size_t size;

		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || line[length] != '=')
			continue;
		value = line + length + 1;
		size = strcspn(value, "\r\n");
		if (size >= 2 && (*value == '"' || *value == '\'') && value[size - 1] == *value) {
			value++;
			size -= 2;
		}
		return strndup(value, size);
	}
	return NULL;
}

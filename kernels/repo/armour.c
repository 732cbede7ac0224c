/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/armour.h"

#include <stdint.h>
#include <string.h>

static const char begin_line[] = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
static const char end_line[] = "-----END PGP PUBLIC KEY BLOCK-----";

bool armour_is_key(const char *text)
{
	return strstr(text, begin_line) != NULL;
}

static int digit_of(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int) (found - digits) : -1;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : NULL;
}

/* Headers such as "Version: …" end with a blank line; some writers leave both out. */
static const char *skip_headers(const char *line)
{
	while (line && *line && strncmp(line, end_line, strlen(end_line)) != 0) {
		size_t length = strcspn(line, "\r\n");

		if (!memchr(line, ':', length) && strspn(line, " \t\r") < length)
			return line;
		line = next_line(line);
	}
	return line;
}

/* One line's digits; "=abcd" is the checksum's line: gpgv checks the keys themselves. */
static int decode_line(const char *line, size_t length, uint32_t *bits, unsigned int *count,
	char *data, size_t *size)
{
	for (size_t i = 0; i < length; i++) {
		int digit = digit_of(line[i]);

		if (line[i] == '=' || line[i] == ' ' || line[i] == '\t' || line[i] == '\r')
			continue;
		if (digit < 0)
			return -EBADMSG;
		*bits = *bits << 6 | (uint32_t) digit;
		*count += 6;
		if (*count >= 8) {
			*count -= 8;
			data[(*size)++] = (char) (*bits >> *count & 0xff);
		}
	}
	return 0;
}

static int decode_block(const char **cursor, char *data, size_t *size)
{
	const char *line = skip_headers(*cursor);
	uint32_t bits = 0;
	unsigned int count = 0;

	while (line && *line) {
		size_t length = strcspn(line, "\n");

		if (strncmp(line, end_line, strlen(end_line)) == 0) {
			*cursor = line + strlen(end_line);
			return 0;
		}
		if (*line != '=' && decode_line(line, length, &bits, &count, data, size) < 0)
			return -EBADMSG;
		line = next_line(line);
	}
	return -EBADMSG;
}

int armour_decode_keys(const char *text, char **ret_data, size_t *ret_size)
{
	_cleanup_free_ char *data = malloc(strlen(text) + 1);
	const char *cursor = text;
	size_t size = 0;

	if (!data)
		return -ENOMEM;
	while ((cursor = strstr(cursor, begin_line))) {
		cursor = next_line(cursor);
		if (!cursor || decode_block(&cursor, data, &size) < 0)
			return -EBADMSG;
	}
	if (size == 0)
		return -EBADMSG;
	*ret_data = TAKE_PTR(data);
	*ret_size = size;
	return 0;
}

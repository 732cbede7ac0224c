/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The character at @text and, as the result, its length in bytes; 0: not well-formed UTF-8. */
static size_t decode(const unsigned char *text, uint32_t *ret)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least; /* smaller ones have a shorter form */
	} forms[] = {
		{ 0x80, 0x00, 0 },
		{ 0xe0, 0xc0, 0x80 },
		{ 0xf0, 0xe0, 0x800 },
		{ 0xf8, 0xf0, 0x10000 },
	};
	size_t length = 0;

	while (length < ARRAY_SIZE(forms) && (*text & forms[length].mask) != forms[length].lead)
		length++;
	if (length == ARRAY_SIZE(forms))
		return 0;
	*ret = *text & (unsigned char) ~forms[length].mask;
	/* The text's end is no continuation. */
	for (size_t i = 1; i <= length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*ret = *ret << 6 | (text[i] & 0x3f);
	}
	if (*ret < forms[length].least || *ret > 0x10ffff || (*ret >= 0xd800 && *ret <= 0xdfff))
		return 0;
	return length + 1;
}

static bool is_harmless(uint32_t character)
{
	/* Controls, then Bidi_Control and the separators of lines and paragraphs. */
	static const struct {
		uint32_t first, last;
	} ranges[] = { { 0x00, 0x1f }, { 0x7f, 0x9f }, { 0x61c, 0x61c }, { 0x200e, 0x200f },
		{ 0x2028, 0x202e }, { 0x2066, 0x2069 } };

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (character >= ranges[i].first && character <= ranges[i].last)
			return false;
	return true;
}

void text_clean(char *text)
{
	const unsigned char *from = (const unsigned char *) text;
	unsigned char *to = (unsigned char *) text;

	while (*from) {
		uint32_t character = 0;
		size_t length = decode(from, &character);

		if (length && is_harmless(character)) {
			for (size_t i = 0; i < length; i++)
				*to++ = from[i];
		} else {
			*to++ = character == '\t' ? ' ' : '?';
		}
		from += length ? length : 1;
	}
	*to = '\0';
}

void text_vprint(FILE *file, const char *format, va_list arguments)
{
	size_t first = strspn(format, "\n"), end = strlen(format);
	_cleanup_free_ char *text = NULL;
	int size;

	while (end > first && format[end - 1] == '\n')
		end--;
	size = vasprintf(&text, format, arguments);
	if (size < 0)
		return;
	text[(size_t) size - strlen(format + end)] = '\0';
	text_clean(text + first);
	(void) fprintf(file, "%s%s", text, format + end);
}

void text_print(FILE *file, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text_vprint(file, format, arguments);
	va_end(arguments);
}

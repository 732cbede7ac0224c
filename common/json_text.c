/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json_text.h"

#include <string.h>

/*
 * Length of the valid UTF-8 sequence at @text, or 0. The bounds on the second byte refuse overlong
 * forms, surrogates and what lies above U+10FFFF (Unicode 15, table 3-7).
 */
size_t json_text_utf8_length(const char *bytes)
{
	const unsigned char *text = (const unsigned char *) bytes;
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf)
		length = 2;
	else if (text[0] >= 0xe0 && text[0] <= 0xef)
		length = 3;
	else if (text[0] >= 0xf0 && text[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (text[0] == 0xe0)
		low = 0xa0;
	else if (text[0] == 0xed)
		high = 0x9f;
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;
	if (text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (text[i] < 0x80 || text[i] > 0xbf)
			return 0;
	return length;
}

static void write_ascii(FILE *file, unsigned char byte)
{
	if (byte == '"' || byte == '\\')
		(void) fprintf(file, "\\%c", byte);
	else if (byte == '\n')
		(void) fputs("\\n", file);
	else if (byte < 0x20 || byte == 0x7f)
		(void) fprintf(file, "\\u%04x", byte);
	else
		(void) fputc(byte, file);
}

void json_text_string(FILE *file, const char *text)
{
	const unsigned char *next = (const unsigned char *) text;

	(void) fputc('"', file);
	while (*next) {
		size_t length = json_text_utf8_length((const char *) next);

		if (length == 1)
			write_ascii(file, *next);
		else if (length)
			(void) fwrite(next, 1, length, file);
		else
			(void) fputs("\\ufffd", file);
		next += length ? length : 1;
	}
	(void) fputc('"', file);
}

/* False: there is nothing to write to. */
static bool begin(struct json *json, const char *key)
{
	if (!json)
		return false;
	if (json->comma)
		(void) fputc(',', json->file);
	if (json->lines && json->depth && !json->in_line)
		(void) fprintf(json->file, "\n%*s", 2 * json->depth, "");
	else if (json->lines && json->comma)
		(void) fputc(' ', json->file);
	json->comma = true;
	if (key) {
		json_text_string(json->file, key);
		(void) fputs(json->lines ? ": " : ":", json->file);
	}
	return true;
}

void json_write_open(struct json *json, const char *key, char bracket)
{
	if (!begin(json, key))
		return;
	(void) fputc(bracket, json->file);
	json->comma = false;
	json->depth++;
}

void json_write_open_in_line(struct json *json, const char *key, char bracket)
{
	json_write_open(json, key, bracket);
	if (json && json->lines) {
		(void) fputs(bracket == '{' ? " " : "", json->file);
		json->in_line = true;
	}
}

void json_write_close(struct json *json, char bracket)
{
	if (!json)
		return;
	json->depth--;
	if (json->in_line)
		(void) fputs(bracket == '}' ? " " : "", json->file);
	else if (json->lines && json->comma)
		(void) fprintf(json->file, "\n%*s", 2 * json->depth, "");
	(void) fputc(bracket, json->file);
	json->in_line = false;
	json->comma = true;
}

void json_write_text(struct json *json, const char *key, const char *text)
{
	if (begin(json, key))
		json_text_string(json->file, text);
}

void json_write_number(struct json *json, const char *key, long long number)
{
	if (begin(json, key))
		(void) fprintf(json->file, "%lld", number);
}

void json_write_boolean(struct json *json, const char *key, bool value)
{
	if (begin(json, key))
		(void) fputs(value ? "true" : "false", json->file);
}

void json_write_null(struct json *json, const char *key)
{
	if (begin(json, key))
		(void) fputs("null", json->file);
}

void json_write_answer(struct json *json, const char *key, int answer)
{
	if (answer < 0)
		json_write_null(json, key);
	else
		json_write_boolean(json, key, answer);
}

void json_write_number_or_null(struct json *json, const char *key, long long number)
{
	if (number < 0)
		json_write_null(json, key);
	else
		json_write_number(json, key, number);
}

void json_write_text_or_null(struct json *json, const char *key, const char *text)
{
	if (text && *text)
		json_write_text(json, key, text);
	else
		json_write_null(json, key);
}

void json_write_list(struct json *json, const char *key, const struct strv *list)
{
	json_write_open(json, key, '[');
	for (size_t i = 0; i < list->count; i++)
		json_write_text(json, NULL, list->items[i]);
	json_write_close(json, ']');
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/json.h"

#include "common/json_text.h"

static void begin(struct json *json, const char *key)
{
	if (json->comma)
		(void) fputc(',', json->file);
	json->comma = true;
	if (!key)
		return;
	json_text_string(json->file, key);
	(void) fputc(':', json->file);
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin(json, key);
	(void) fputc(bracket, json->file);
	json->comma = false;
}

void json_close(struct json *json, char bracket)
{
	(void) fputc(bracket, json->file);
	json->comma = true;
}

void json_text(struct json *json, const char *key, const char *text)
{
	begin(json, key);
	json_text_string(json->file, text);
}

void json_number(struct json *json, const char *key, long long number)
{
	begin(json, key);
	(void) fprintf(json->file, "%lld", number);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin(json, key);
	(void) fputs(value ? "true" : "false", json->file);
}

void json_null(struct json *json, const char *key)
{
	begin(json, key);
	(void) fputs("null", json->file);
}

void json_number_or_null(struct json *json, const char *key, long long number)
{
	if (number < 0)
		json_null(json, key);
	else
		json_number(json, key, number);
}

void json_text_or_null(struct json *json, const char *key, const char *text)
{
	if (text && *text)
		json_text(json, key, text);
	else
		json_null(json, key);
}

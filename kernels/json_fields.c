/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/json_fields.h"

#include <string.h>

#include "common/xalloc.h"

static bool is_text(const struct json_field *field)
{
	return field->kind == JSON_TEXT || field->kind == JSON_KNOWN;
}

static int read_text(struct json_object *value, const struct json_fields *fields,
	const struct json_field *field, char **slot, struct error *error)
{
	char shown[81];
	const char *text;

	if (!json_object_is_type(value, json_type_string))
		return error_set(error, -EBADMSG, "%s: \"%s\" is missing or no text", fields->thing,
			field->key);
	text = json_object_get_string(value);
	/* A zero byte in JSON's text would hide what follows it. */
	if (strlen(text) != (size_t) json_object_get_string_len(value))
		return error_set(
			error, -EBADMSG, "%s: \"%s\" has a zero byte", fields->thing, field->key);
	if (!field->is_right || field->is_right(text)) {
		*slot = xstrdup(text);
		return 0;
	}
	/* It may come from anywhere: what would move a terminal's cursor is not shown. */
	(void) snprintf(shown, sizeof(shown), "%s", text);
	for (char *c = shown; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	return error_set(error, -EBADMSG, "%s: \"%s\" is \"%s\": %s", fields->thing, field->key,
		shown, field->wanted);
}

static int read_field(struct json_object *value, const struct json_fields *fields,
	const struct json_field *field, void *slot, struct error *error)
{
	bool is_int = json_object_is_type(value, json_type_int);
	int64_t number = is_int ? json_object_get_int64(value) : -1;

	switch (field->kind) {
	case JSON_KNOWN:
		if (!value)
			return 0;
		return read_text(value, fields, field, slot, error);
	case JSON_TEXT:
		return read_text(value, fields, field, slot, error);
	case JSON_ANSWER:
		*(int *) slot = -1;
		if (!value)
			return 0;
		if (!json_object_is_type(value, json_type_boolean))
			break;
		*(int *) slot = json_object_get_boolean(value);
		return 0;
	case JSON_BOOL:
		if (!json_object_is_type(value, json_type_boolean))
			break;
		*(bool *) slot = json_object_get_boolean(value);
		return 0;
	case JSON_NUMBER:
		if (number < 0 || number > INT32_MAX)
			break;
		*(unsigned int *) slot = (unsigned int) number;
		return 0;
	case JSON_SIZE:
		if (number <= 0)
			break;
		*(uint64_t *) slot = json_object_get_uint64(value);
		return 0;
	}
	return error_set(error, -EBADMSG, "%s: \"%s\" is missing or not %s", fields->thing,
		field->key,
		field->kind == JSON_SIZE     ? "a positive number"
		: field->kind == JSON_NUMBER ? "a number from 0"
					     : "true or false");
}

int json_fields_read(struct json_object *object, const struct json_fields *fields, void *base,
	struct error *error)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct json_field *field = &fields->items[i];
		int r = read_field(json_object_object_get(object, field->key), fields, field,
			(char *) base + field->offset, error);

		if (r < 0)
			return r;
	}
	return 0;
}

void json_member_add(struct json_object *object, const char *key, struct json_object *value)
{
	if (!value || (key ? json_object_object_add(object, key, value)
			   : json_object_array_add(object, value)) < 0)
		out_of_memory();
}

void json_fields_add(struct json_object *object, const struct json_fields *fields, const void *base)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct json_field *field = &fields->items[i];
		const void *slot = (const char *) base + field->offset;
		struct json_object *value;

		if (is_text(field))
			value = json_object_new_string(
				*(char *const *) slot ? *(char *const *) slot : "");
		else if (field->kind == JSON_NUMBER)
			value = json_object_new_int64(*(const unsigned int *) slot);
		else if (field->kind == JSON_SIZE)
			value = json_object_new_uint64(*(const uint64_t *) slot);
		else
			value = json_object_new_boolean(*(const bool *) slot);
		json_member_add(object, field->key, value);
	}
}

void json_fields_fill(const struct json_fields *fields, void *base)
{
	for (size_t i = 0; i < fields->count; i++) {
		char **slot = (void *) ((char *) base + fields->items[i].offset);

		if (is_text(&fields->items[i]) && !*slot)
			*slot = xstrdup("");
	}
}

void json_fields_free(const struct json_fields *fields, void *base)
{
	for (size_t i = 0; i < fields->count; i++) {
		char **slot = (void *) ((char *) base + fields->items[i].offset);

		if (!is_text(&fields->items[i]))
			continue;
		free(*slot);
		*slot = NULL;
	}
}

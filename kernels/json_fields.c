/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/json_fields.h"

#include <string.h>

#include "common/strv.h"
#include "common/xalloc.h"

/* How an array of structs lies in a struct: there its pointer has the type of the items. */
struct list {
	void *items;
	size_t count;
} __attribute__((may_alias));

static void *slot_of(const struct json_field *field, const void *base)
{
	return (char *) (uintptr_t) base + field->offset;
}

static void *item_of(const struct json_field *field, const struct list *list, size_t index)
{
	return (char *) list->items + index * field->of->size;
}

static int read_text(struct json_object *value, const char *thing, const struct json_field *field,
	char **slot, struct error *error)
{
	char shown[81];
	const char *text;

	if (!json_object_is_type(value, json_type_string))
		return error_set(
			error, -EBADMSG, "%s: \"%s\" is missing or no text", thing, field->key);
	text = json_object_get_string(value);
	/* A zero byte in JSON's text would hide what follows it. */
	if (strlen(text) != (size_t) json_object_get_string_len(value))
		return error_set(error, -EBADMSG, "%s: \"%s\" has a zero byte", thing, field->key);
	if (!field->is_right || field->is_right(text)) {
		*slot = xstrdup(text);
		return 0;
	}
	/* It may come from anywhere: what would move a terminal's cursor is not shown. */
	(void) snprintf(shown, sizeof(shown), "%s", text);
	for (char *c = shown; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	return error_set(error, -EBADMSG, "%s: \"%s\" is \"%s\": %s", thing, field->key, shown,
		field->wanted);
}

static int read_list(struct json_object *value, const struct json_field *field, struct list *list,
	struct error *error)
{
	size_t length;

	if (!json_object_is_type(value, json_type_array))
		return error_set(error, -EBADMSG, "\"%s\" is missing or no list", field->key);
	length = json_object_array_length(value);
	list->items = xcalloc(length, field->of->size);
	while (list->count < length) {
		struct json_object *item = json_object_array_get_idx(value, list->count);
		int r;

		if (!json_object_is_type(item, json_type_object))
			return error_set(error, -EBADMSG, "\"%s\"[%zu] is no object", field->key,
				list->count);
		r = json_fields_read(item, field->of, item_of(field, list, list->count++), error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_texts(struct json_object *value, const char *thing, const struct json_field *field,
	struct strv *list, struct error *error)
{
	size_t length;

	if (!json_object_is_type(value, json_type_array))
		return error_set(
			error, -EBADMSG, "%s: \"%s\" is missing or no list", thing, field->key);
	length = json_object_array_length(value);
	for (size_t i = 0; i < length; i++) {
		_cleanup_free_ char *text = NULL;
		int r = read_text(json_object_array_get_idx(value, i), thing, field, &text, error);

		if (r < 0)
			return r;
		xstrv_push(list, text);
	}
	return 0;
}

static int read_field(struct json_object *value, const char *thing, const struct json_field *field,
	void *slot, struct error *error)
{
	bool is_int = json_object_is_type(value, json_type_int);
	int64_t number = is_int ? json_object_get_int64(value) : -1;

	switch (field->kind) {
	case JSON_KNOWN:
		return value ? read_text(value, thing, field, slot, error) : 0;
	case JSON_TEXT:
		return read_text(value, thing, field, slot, error);
	case JSON_TEXTS:
		return read_texts(value, thing, field, slot, error);
	case JSON_OBJECT:
		return json_fields_read(value, field->of, slot, error);
	case JSON_LIST:
		return read_list(value, field, slot, error);
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
	return error_set(error, -EBADMSG, "%s: \"%s\" is missing or not %s", thing, field->key,
		field->kind == JSON_SIZE     ? "a positive number"
		: field->kind == JSON_NUMBER ? "a number from 0"
					     : "true or false");
}

int json_fields_read(struct json_object *object, const struct json_fields *fields, void *base,
	struct error *error)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct json_field *field = &fields->items[i];
		int r = read_field(json_object_object_get(object, field->key), fields->thing, field,
			slot_of(field, base), error);

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

static struct json_object *object_of(const struct json_fields *fields, const void *base)
{
	struct json_object *object = json_object_new_object();

	json_fields_add(object, fields, base);
	return object;
}

static struct json_object *texts_of(const struct strv *list)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < list->count; i++)
		json_member_add(array, NULL, json_object_new_string(list->items[i]));
	return array;
}

static struct json_object *value_of(const struct json_field *field, const void *slot)
{
	const struct list *list = slot;
	struct json_object *array;

	switch (field->kind) {
	case JSON_TEXT:
	case JSON_KNOWN:
		return json_object_new_string(*(char *const *) slot ? *(char *const *) slot : "");
	case JSON_NUMBER:
		return json_object_new_int64(*(const unsigned int *) slot);
	case JSON_SIZE:
		return json_object_new_uint64(*(const uint64_t *) slot);
	case JSON_TEXTS:
		return texts_of(slot);
	case JSON_OBJECT:
		return object_of(field->of, slot);
	case JSON_LIST:
		array = json_object_new_array();
		for (size_t i = 0; i < list->count; i++)
			json_member_add(array, NULL, object_of(field->of, item_of(field, list, i)));
		return array;
	case JSON_ANSWER:
	case JSON_BOOL:
		break;
	}
	return json_object_new_boolean(*(const bool *) slot);
}

void json_fields_add(struct json_object *object, const struct json_fields *fields, const void *base)
{
	for (size_t i = 0; i < fields->count; i++)
		json_member_add(object, fields->items[i].key,
			value_of(&fields->items[i], slot_of(&fields->items[i], base)));
}

void json_fields_fill(const struct json_fields *fields, void *base)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct json_field *field = &fields->items[i];
		char **slot = slot_of(field, base);

		if (field->kind == JSON_OBJECT)
			json_fields_fill(field->of, slot);
		else if (field->kind == JSON_TEXT && !*slot)
			*slot = xstrdup("");
	}
}

void json_fields_free(const struct json_fields *fields, void *base)
{
	for (size_t i = 0; i < fields->count; i++) {
		const struct json_field *field = &fields->items[i];
		void *slot = slot_of(field, base);
		struct list *list = slot;

		if (field->kind == JSON_TEXT || field->kind == JSON_KNOWN) {
			free(*(char **) slot);
			*(char **) slot = NULL;
		} else if (field->kind == JSON_TEXTS) {
			strv_free(slot);
		} else if (field->kind == JSON_OBJECT) {
			json_fields_free(field->of, slot);
		} else if (field->kind == JSON_LIST) {
			for (size_t j = 0; j < list->count; j++)
				json_fields_free(field->of, item_of(field, list, j));
			free(list->items);
			*list = (struct list){ 0 };
		}
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Structs as JSON objects (json-c): tables of fields, by which they are read, written and freed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "common/error.h"

enum json_kind {
	JSON_TEXT,   /* char *, which has to be there; NULL is written as "" */
	JSON_KNOWN,  /* char *, NULL where it is absent or null */
	JSON_BOOL,   /* bool */
	JSON_ANSWER, /* int: 1, 0, or -1 where it is absent or null */
	JSON_NUMBER, /* unsigned int, from 0 */
	JSON_SIZE,   /* uint64_t, from 1 */
	JSON_TEXTS,  /* struct strv: an array of texts */
	JSON_OBJECT, /* a struct at the offset; where it is absent, so are its fields */
	JSON_LIST,   /* an array of structs, then its size_t count */
};

/* To be said of each JSON_LIST: its count lies behind it. */
#define JSON_HAS_COUNT(type, list, number)                                                         \
	_Static_assert(offsetof(type, number) == offsetof(type, list) + sizeof(void *), #list)

struct json_fields;

struct json_field {
	const char *key;
	enum json_kind kind;
	size_t offset;
	bool (*is_right)(const char *text); /* of texts; NULL: any text will do */
	const char *wanted;                 /* for messages, where is_right is set */
	const struct json_fields *of;       /* what is in an object, or in each of a list */
};

struct json_fields {
	const char *thing; /* "package": for messages */
	const struct json_field *items;
	size_t count;
	size_t size; /* of the struct */
};

/* clang-format off */
#define JSON_FIELDS(thing, fields, type) { thing, fields, ARRAY_SIZE(fields), sizeof(type) }
/* clang-format on */
/* The member of a struct that has this key. */
#define JSON_FIELD(key_, kind_, type, member)                                                      \
	.key = (key_), .kind = (kind_), .offset = offsetof(type, member)

/* Reads the fields of @base from an object. -EBADMSG with the one that is missing or wrong. */
int json_fields_read(struct json_object *object, const struct json_fields *fields, void *base,
	struct error *error) _must_check_;
/* Adds the fields of @base to @object, in the table's order. */
void json_fields_add(
	struct json_object *object, const struct json_fields *fields, const void *base);
/* Gives "" to every text that is NULL. */
void json_fields_fill(const struct json_fields *fields, void *base);
/* Frees the texts and the lists. */
void json_fields_free(const struct json_fields *fields, void *base);

/* Adds to an object, or with @key NULL to a list; takes @value over. */
void json_member_add(struct json_object *object, const char *key, struct json_object *value);

static inline void json_cleanup(struct json_object **object)
{
	(void) json_object_put(*object);
}

#define _cleanup_json_ _cleanup_(json_cleanup)

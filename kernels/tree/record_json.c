/* SPDX-License-Identifier: Apache-2.0 */
/* The record as a file: slipway-lint(1). One table of fields is read and written. */
#include <fcntl.h>
#include <json-c/json.h>
#include <stddef.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/tree/record.h"

#define SCHEMA 1

enum kind {
	KIND_TEXT,
	KIND_BOOL,
	KIND_NUMBER,
};

struct field {
	const char *name;
	enum kind kind;
	bool of_compiler; /* a member of the object "compiler" */
	size_t offset;    /* in struct kernel_record */
};

#define OWN(member, kind)                                                                          \
	{                                                                                          \
#member, kind, false, offsetof(struct kernel_record, member)                       \
	}
#define COMPILER(member, kind)                                                                     \
	{                                                                                          \
#member, kind, true, offsetof(struct kernel_record, compiler.member)               \
	}

static const struct field fields[] = {
	OWN(krel, KIND_TEXT),
	OWN(arch, KIND_TEXT),
	OWN(tools_arch, KIND_TEXT),
	OWN(vermagic, KIND_TEXT),
	OWN(vermagic_source, KIND_TEXT),
	OWN(config_source, KIND_TEXT),
	OWN(sig_hash, KIND_TEXT),
	OWN(compress, KIND_TEXT),
	OWN(page_kib, KIND_NUMBER),
	OWN(has_symvers, KIND_BOOL),
	OWN(has_vmlinux, KIND_BOOL),
	OWN(has_randseed, KIND_BOOL),
	OWN(prepared, KIND_BOOL),
	COMPILER(name, KIND_TEXT),
	COMPILER(family, KIND_TEXT),
	COMPILER(program, KIND_TEXT),
	COMPILER(version, KIND_TEXT),
	COMPILER(text, KIND_TEXT),
	COMPILER(linker, KIND_TEXT),
	COMPILER(major, KIND_NUMBER),
	COMPILER(config_version, KIND_NUMBER),
	COMPILER(llvm, KIND_BOOL),
	COMPILER(disagrees, KIND_BOOL),
};

static void *member_of(const struct kernel_record *record, const struct field *field)
{
	return (char *) (uintptr_t) record + field->offset;
}

int record_fill_empty(struct kernel_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		char **text = member_of(record, &fields[i]);

		if (fields[i].kind != KIND_TEXT || *text)
			continue;
		*text = strdup("");
		if (!*text)
			return -ENOMEM;
	}
	return 0;
}

void kernel_record_free(struct kernel_record *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].kind == KIND_TEXT)
			free(*(char **) member_of(record, &fields[i]));
	*record = (struct kernel_record){ 0 };
}

static void json_free(struct json_object **object)
{
	json_object_put(*object);
}

static void tokener_free(struct json_tokener **tokener)
{
	if (*tokener)
		json_tokener_free(*tokener);
}

static struct json_object *new_value(const struct kernel_record *record, const struct field *field)
{
	const void *member = member_of(record, field);

	switch (field->kind) {
	case KIND_TEXT:
		return json_object_new_string(*(char *const *) member);
	case KIND_BOOL:
		return json_object_new_boolean(*(const bool *) member);
	case KIND_NUMBER:
		return json_object_new_int64(*(const unsigned int *) member);
	}
	return NULL;
}

/* Takes @value over. */
static int add(struct json_object *object, const char *name, struct json_object *value)
{
	if (!value)
		return -ENOMEM;
	if (json_object_object_add(object, name, value) < 0) {
		json_object_put(value);
		return -ENOMEM;
	}
	return 0;
}

static int add_options(struct json_object *options, const struct kernel_record *record)
{
	int r = 0;

	for (unsigned int i = 0; i < KOPT_COUNT && r == 0; i++)
		r = add(options, kernel_option_name(i),
			json_object_new_string_len(&record->options[i], 1));
	return r;
}

struct json_object *kernel_record_json(const struct kernel_record *record)
{
	_cleanup_(json_free) struct json_object *root = json_object_new_object();
	struct json_object *compiler = json_object_new_object();
	struct json_object *options = json_object_new_object();
	int r = root ? add(root, "schema", json_object_new_int(SCHEMA)) : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0 && compiler; i++)
		r = add(fields[i].of_compiler ? compiler : root, fields[i].name,
			new_value(record, &fields[i]));
	if (r == 0 && options)
		r = add_options(options, record);
	if (r < 0 || !compiler || !options) {
		json_object_put(compiler);
		json_object_put(options);
		return NULL;
	}
	r = add(root, "compiler", compiler);
	if (r < 0) {
		json_object_put(options);
		return NULL;
	}
	return add(root, "options", options) < 0 ? NULL : TAKE_PTR(root);
}

char *kernel_record_write(const struct kernel_record *record)
{
	_cleanup_(json_free) struct json_object *root = kernel_record_json(record);
	char *text;

	if (!root)
		return NULL;
	return asprintf(&text, "%s\n",
		       json_object_to_json_string_ext(
			       root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					     JSON_C_TO_STRING_NOSLASHESCAPE)) < 0
		       ? NULL
		       : text;
}

static int wrong(const char *name, const char *wanted, struct error *error)
{
	return error_set(error, -EBADMSG,
		KERNEL_RECORD_FILE ": %s: %s is wanted: the record is damaged; remove it and its "
				   "folder, it is made anew",
		name, wanted);
}

static int read_field(struct json_object *object, const struct field *field,
	struct kernel_record *record, struct error *error)
{
	struct json_object *value = NULL;
	void *member = member_of(record, field);

	(void) json_object_object_get_ex(object, field->name, &value);
	switch (field->kind) {
	case KIND_TEXT:
		if (!json_object_is_type(value, json_type_string))
			return wrong(field->name, "a text", error);
		*(char **) member = strdup(json_object_get_string(value));
		return *(char **) member ? 0 : error_set_errno(error, -ENOMEM, "%s", field->name);
	case KIND_BOOL:
		if (!json_object_is_type(value, json_type_boolean))
			return wrong(field->name, "true or false", error);
		*(bool *) member = json_object_get_boolean(value);
		return 0;
	case KIND_NUMBER:
		if (!json_object_is_type(value, json_type_int) ||
			json_object_get_int64(value) < 0 ||
			json_object_get_int64(value) > INT32_MAX)
			return wrong(field->name, "a number from 0", error);
		*(unsigned int *) member = (unsigned int) json_object_get_int64(value);
		return 0;
	}
	return wrong(field->name, "a value", error);
}

static int read_options(
	struct json_object *options, struct kernel_record *record, struct error *error)
{
	for (unsigned int i = 0; i < KOPT_COUNT; i++) {
		const char *name = kernel_option_name(i);
		struct json_object *value = NULL;
		const char *text;

		(void) json_object_object_get_ex(options, name, &value);
		text = json_object_is_type(value, json_type_string) ? json_object_get_string(value)
								    : "";
		if (strcmp(text, "y") != 0 && strcmp(text, "m") != 0 && strcmp(text, "n") != 0)
			return wrong(name, "y, m or n", error);
		record->options[i] = text[0];
	}
	return 0;
}

static int read_root(struct json_object *root, struct kernel_record *record, struct error *error)
{
	struct json_object *schema = NULL, *compiler = NULL, *options = NULL;
	int r = 0;

	if (!json_object_is_type(root, json_type_object))
		return wrong("the file", "an object", error);
	if (!json_object_object_get_ex(root, "schema", &schema) ||
		json_object_get_int(schema) != SCHEMA)
		return wrong("schema", "1", error);
	if (!json_object_object_get_ex(root, "compiler", &compiler) ||
		!json_object_is_type(compiler, json_type_object))
		return wrong("compiler", "an object", error);
	if (!json_object_object_get_ex(root, "options", &options) ||
		!json_object_is_type(options, json_type_object))
		return wrong("options", "an object", error);
	for (size_t i = 0; i < ARRAY_SIZE(fields) && r == 0; i++)
		r = read_field(fields[i].of_compiler ? compiler : root, &fields[i], record, error);
	return r < 0 ? r : read_options(options, record, error);
}

int kernel_record_read(const char *text, struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(tokener_free) struct json_tokener *tokener = json_tokener_new();
	_cleanup_(json_free) struct json_object *root = NULL;
	int r;

	if (!tokener)
		return error_set_errno(error, -ENOMEM, KERNEL_RECORD_FILE);
	root = json_tokener_parse_ex(tokener, text, -1);
	if (!root)
		return wrong("the file", "JSON", error);
	r = read_root(root, &record, error);
	if (r < 0)
		return r;
	*ret = record;
	record = (struct kernel_record){ 0 };
	return 0;
}

int kernel_record_save(const struct kernel_record *record, int dir_fd, struct error *error)
{
	_cleanup_free_ char *text = kernel_record_write(record);
	int r = text ? fs_write_atomic(dir_fd, KERNEL_RECORD_FILE, text, strlen(text), 0644)
		     : -ENOMEM;

	return r < 0 ? error_set_errno(error, r, KERNEL_RECORD_FILE) : 0;
}

int kernel_record_load(int dir_fd, struct kernel_record *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(dir_fd, KERNEL_RECORD_FILE, 1 << 20, &text, NULL);

	return r < 0 ? error_set_errno(error, r, KERNEL_RECORD_FILE)
		     : kernel_record_read(text, ret, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/probe/probe.h"

#include <string.h>

#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

#define KEYS_MAX   8192 /* far more than any node has */
#define STRING_MAX 4096
#define DEPTH_MAX  8

/* Control characters have no place in any text. */
static bool is_printable(const char *text)
{
	if (strlen(text) > STRING_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			return false;
	return true;
}

static bool is_schema(const char *text)
{
	return strcmp(text, PROBE_SCHEMA) == 0;
}

#define PRINTABLE      is_printable, "it is too long or holds a control character"
#define ANSWER(member) JSON_ANSWER, offsetof(struct probe, member), NULL, NULL
#define KNOWN(member)  JSON_KNOWN, offsetof(struct probe, member), PRINTABLE

static const struct json_field schema_field[] = {
	{ "schema", JSON_TEXT, 0, is_schema,
		"this program knows " PROBE_SCHEMA ": collect it with the slipway that reads it" },
};

static const struct json_field kernel_fields[] = {
	{ "release", JSON_TEXT, offsetof(struct probe, krel), krel_is_valid,
		"it is no kernel release" },
	{ "proc_version", KNOWN(proc_version) },
	{ "module_unload", ANSWER(module_unload) },
};

static const struct json_field os_fields[] = {
	{ "id", KNOWN(os) },
	{ "version_id", KNOWN(os_version) },
};

static const struct json_field file_field[] = { { "included", JSON_ANSWER, 0, NULL, NULL } };

static const struct json_field security_fields[] = {
	{ "sig_enforce", ANSWER(sig_enforce) },
	{ "lockdown", KNOWN(lockdown) },
};

static const struct json_field key_field[] = { { "description", JSON_TEXT, 0, PRINTABLE } };

static const struct json_fields of_schema = JSON_FIELDS("manifest", schema_field);
static const struct json_fields of_kernel = JSON_FIELDS("kernel", kernel_fields);
static const struct json_fields of_os = JSON_FIELDS("os", os_fields);
static const struct json_fields of_symvers = JSON_FIELDS("symvers", file_field);
static const struct json_fields of_security = JSON_FIELDS("security", security_fields);
static const struct json_fields of_key = JSON_FIELDS("keys", key_field);

static int read_keys(struct json_object *security, struct probe *probe, struct error *error)
{
	struct json_object *list = json_object_object_get(security, "keys");
	size_t count;

	if (!list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return error_set(error, -EBADMSG, "\"keys\" is no list");
	count = json_object_array_length(list);
	if (count > KEYS_MAX)
		return error_set(error, -EBADMSG, "\"keys\" is too long");
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *key = NULL;
		int r = json_fields_read(
			json_object_array_get_idx(list, i), &of_key, (void *) &key, error);

		if (r < 0)
			return r;
		xstrv_push(&probe->keys, key);
	}
	return 0;
}

static int read_all(struct json_object *object, struct probe *probe, struct error *error)
{
	struct json_object *files = json_object_object_get(object, "files");
	struct json_object *security = json_object_object_get(object, "security");
	_cleanup_free_ char *schema = NULL;
	int included = PROBE_UNKNOWN;
	int r = json_fields_read(object, &of_schema, (void *) &schema, error);

	if (r == 0)
		r = json_fields_read(
			json_object_object_get(object, "kernel"), &of_kernel, probe, error);
	if (r == 0)
		r = json_fields_read(json_object_object_get(object, "os"), &of_os, probe, error);
	if (r == 0)
		r = json_fields_read(
			json_object_object_get(files, "symvers"), &of_symvers, &included, error);
	if (r == 0)
		r = json_fields_read(security, &of_security, probe, error);
	probe->has_symvers = included == PROBE_YES;
	return r < 0 ? r : read_keys(security, probe, error);
}

static struct json_object *parse(const char *text, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	struct json_object *object;

	if (!tokener)
		out_of_memory();
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, text, (int) size);
	if (json_tokener_get_error(tokener) != json_tokener_success) {
		json_object_put(object);
		object = NULL;
	}
	json_tokener_free(tokener);
	return object;
}

int probe_parse(const char *text, size_t size, struct probe *ret, struct error *error)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_(probe_free) struct probe probe = { 0 };
	struct error why = { .text = "it is no JSON object" };
	int r;

	if (size > PROBE_JSON_LIMIT)
		return error_set(error, -EFBIG,
			PROBE_FILE " has %zu bytes, more than the %zu that one can have", size,
			PROBE_JSON_LIMIT);
	object = parse(text, size);
	r = json_object_is_type(object, json_type_object) ? read_all(object, &probe, &why)
							  : -EBADMSG;
	if (r < 0)
		return error_set(
			error, r, PROBE_FILE ": %s: it is not what slipway probe writes", why.text);
	*ret = probe;
	probe = (struct probe){ 0 };
	return 0;
}

void probe_free(struct probe *probe)
{
	json_fields_free(&of_kernel, probe);
	json_fields_free(&of_os, probe);
	json_fields_free(&of_security, probe);
	strv_free(&probe->keys);
	*probe = (struct probe){ 0 };
}

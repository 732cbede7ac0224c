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

#define NOT_PRINTABLE            "it is too long or holds a control character"
#define PRINTABLE                .is_right = is_printable, .wanted = NOT_PRINTABLE
#define PROBE(key, kind, member) JSON_FIELD(key, kind, struct probe, member)

static const struct json_field kernel_fields[] = {
	{ PROBE("release", JSON_TEXT, krel), .is_right = krel_is_valid,
		.wanted = "it is no kernel release" },
	{ PROBE("proc_version", JSON_KNOWN, proc_version), PRINTABLE },
	{ PROBE("module_unload", JSON_ANSWER, module_unload) },
};

static const struct json_field os_fields[] = {
	{ PROBE("id", JSON_KNOWN, os), PRINTABLE },
	{ PROBE("version_id", JSON_KNOWN, os_version), PRINTABLE },
};

static const struct json_field symvers_fields[] = {
	{ PROBE("included", JSON_ANSWER, symvers) },
};

static const struct json_field security_fields[] = {
	{ PROBE("sig_enforce", JSON_ANSWER, sig_enforce) },
	{ PROBE("lockdown", JSON_KNOWN, lockdown), PRINTABLE },
};

static const struct json_field key_fields[] = {
	{ .key = "description", .kind = JSON_TEXT, PRINTABLE },
};

static const struct json_fields of_kernel = JSON_FIELDS("kernel", kernel_fields, struct probe);
static const struct json_fields of_os = JSON_FIELDS("os", os_fields, struct probe);
static const struct json_fields of_symvers = JSON_FIELDS("symvers", symvers_fields, struct probe);
static const struct json_fields of_security =
	JSON_FIELDS("security", security_fields, struct probe);
static const struct json_fields of_key = JSON_FIELDS("keys", key_fields, char *);

static const struct json_field files_fields[] = {
	{ .key = "symvers", .kind = JSON_OBJECT, .of = &of_symvers }
};
static const struct json_fields of_files = JSON_FIELDS("files", files_fields, struct probe);

static const struct json_field probe_fields[] = {
	{ PROBE("schema", JSON_TEXT, schema), .is_right = is_schema,
		.wanted = "this program knows " PROBE_SCHEMA
			  ": collect it with the slipway that reads it" },
	{ .key = "kernel", .kind = JSON_OBJECT, .of = &of_kernel },
	{ .key = "os", .kind = JSON_OBJECT, .of = &of_os },
	{ .key = "files", .kind = JSON_OBJECT, .of = &of_files },
	{ .key = "security", .kind = JSON_OBJECT, .of = &of_security },
};

static const struct json_fields of_probe = JSON_FIELDS("manifest", probe_fields, struct probe);

static int read_keys(struct json_object *manifest, struct probe *probe, struct error *error)
{
	struct json_object *list =
		json_object_object_get(json_object_object_get(manifest, "security"), "keys");
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
	r = json_object_is_type(object, json_type_object)
		    ? json_fields_read(object, &of_probe, &probe, &why)
		    : -EBADMSG;
	if (r == 0)
		r = read_keys(object, &probe, &why);
	if (r < 0)
		return error_set(
			error, r, PROBE_FILE ": %s: it is not what slipway probe writes", why.text);
	*ret = probe;
	probe = (struct probe){ 0 };
	return 0;
}

void probe_free(struct probe *probe)
{
	json_fields_free(&of_probe, probe);
	strv_free(&probe->keys);
	*probe = (struct probe){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/probe/probe.h"

#include <string.h>

#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

#define ITEMS_MAX  8192 /* modules, devices, keys: far more than any node has */
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

#define PRINTABLE            is_printable, "it is too long or holds a control character"
#define ANSWER(member)       JSON_ANSWER, offsetof(struct probe, member), NULL, NULL
#define PROBE(member)        JSON_KNOWN, offsetof(struct probe, member), PRINTABLE
#define MODULE(member)       #member, JSON_KNOWN, offsetof(struct probe_module, member), PRINTABLE
#define DEVICE(member)       #member, JSON_KNOWN, offsetof(struct probe_device, member), PRINTABLE
#define NEEDED(type, member) #member, JSON_TEXT, offsetof(struct type, member), PRINTABLE

static const struct json_field kernel_fields[] = {
	{ "release", JSON_TEXT, offsetof(struct probe, krel), krel_is_valid,
		"it is no kernel release" },
	{ "machine", PROBE(machine) },
	{ "proc_version", PROBE(proc_version) },
	{ "module_unload", ANSWER(module_unload) },
};

static const struct json_field os_fields[] = {
	{ "id", PROBE(os) },
	{ "version_id", PROBE(os_version) },
	{ "name", PROBE(os_name) },
};

static const struct json_field security_fields[] = {
	{ "sig_enforce", ANSWER(sig_enforce) },
	{ "lockdown", PROBE(lockdown) },
};

static const struct json_field module_fields[] = {
	{ NEEDED(probe_module, name) },
	{ MODULE(srcversion) },
	{ MODULE(version) },
	{ MODULE(build_id) },
};

static const struct json_field device_fields[] = {
	{ NEEDED(probe_device, vendor) },
	{ NEEDED(probe_device, device) },
	{ DEVICE(class) },
	{ DEVICE(driver) },
};

static const struct json_field schema_field[] = {
	{ "schema", JSON_TEXT, 0, is_schema,
		"this program knows " PROBE_SCHEMA ": collect it with the slipway that reads it" },
};
static const struct json_field included_field[] = { { "included", JSON_ANSWER, 0, NULL, NULL } };
static const struct json_field name_field[] = { { "name", JSON_TEXT, 0, PRINTABLE } };
static const struct json_field description_field[] = { { "description", JSON_TEXT, 0, PRINTABLE } };

static const struct json_fields of_schema = JSON_FIELDS("manifest", schema_field);
static const struct json_fields of_kernel = JSON_FIELDS("kernel", kernel_fields);
static const struct json_fields of_os = JSON_FIELDS("os", os_fields);
static const struct json_fields of_security = JSON_FIELDS("security", security_fields);
static const struct json_fields of_module = JSON_FIELDS("modules", module_fields);
static const struct json_fields of_device = JSON_FIELDS("devices", device_fields);
static const struct json_fields of_file = JSON_FIELDS("files", included_field);
static const struct json_fields of_keyring = JSON_FIELDS("keyrings", name_field);
static const struct json_fields of_key = JSON_FIELDS("keys", description_field);

/* A list with its length, which is 0 for one that is not known. */
static int open_list(struct json_object *object, const char *key, struct json_object **ret_list,
	size_t *ret_length, struct error *error)
{
	struct json_object *value = json_object_object_get(object, key);

	*ret_list = value;
	*ret_length = 0;
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_array))
		return error_set(error, -EBADMSG, "\"%s\" is no list", key);
	*ret_length = json_object_array_length(value);
	return *ret_length > ITEMS_MAX ? error_set(error, -EBADMSG, "\"%s\" is too long", key) : 0;
}

static int read_names(struct json_object *object, const struct json_fields *fields,
	struct strv *names, struct error *error)
{
	struct json_object *list;
	size_t count;
	int r = open_list(object, fields->thing, &list, &count, error);

	for (size_t i = 0; i < count && r == 0; i++) {
		_cleanup_free_ char *name = NULL;

		r = json_fields_read(
			json_object_array_get_idx(list, i), fields, (void *) &name, error);
		if (r == 0)
			xstrv_push(names, name);
	}
	return r;
}

static int read_lists(struct json_object *object, struct probe *probe, struct error *error)
{
	struct json_object *security = json_object_object_get(object, "security");
	struct json_object *list;
	size_t count;
	int r = read_names(security, &of_keyring, &probe->keyrings, error);

	if (r == 0)
		r = read_names(security, &of_key, &probe->keys, error);
	if (r == 0)
		r = open_list(object, "modules", &list, &count, error);
	if (r < 0)
		return r;
	probe->modules = xcalloc(count, sizeof(*probe->modules));
	for (size_t i = 0; i < count && r == 0; i++)
		r = json_fields_read(json_object_array_get_idx(list, i), &of_module,
			&probe->modules[probe->module_count++], error);
	if (r == 0)
		r = open_list(object, "devices", &list, &count, error);
	if (r < 0)
		return r;
	probe->devices = xcalloc(count, sizeof(*probe->devices));
	for (size_t i = 0; i < count && r == 0; i++)
		r = json_fields_read(json_object_array_get_idx(list, i), &of_device,
			&probe->devices[probe->device_count++], error);
	return r;
}

static int read_all(struct json_object *object, struct probe *probe, struct error *error)
{
	const struct {
		const char *key;
		bool *answer;
	} files[] = {
		{ "config", &probe->has_config },
		{ "headers", &probe->has_headers },
		{ "symvers", &probe->has_symvers },
	};
	struct json_object *kernel = json_object_object_get(object, "kernel");
	struct json_object *page_size = json_object_object_get(kernel, "page_size");
	_cleanup_free_ char *schema = NULL;
	int r = json_fields_read(object, &of_schema, (void *) &schema, error);

	if (r == 0)
		r = json_fields_read(kernel, &of_kernel, probe, error);
	if (r == 0)
		r = json_fields_read(json_object_object_get(object, "os"), &of_os, probe, error);
	if (r == 0)
		r = json_fields_read(
			json_object_object_get(object, "security"), &of_security, probe, error);
	if (r < 0)
		return r;
	if (page_size && !json_object_is_type(page_size, json_type_int))
		return error_set(error, -EBADMSG, "kernel: \"page_size\" is no number");
	probe->page_size = (long) json_object_get_int64(page_size);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct json_object *file = json_object_object_get(
			json_object_object_get(object, "files"), files[i].key);
		int answer;

		r = json_fields_read(file, &of_file, &answer, error);
		if (r < 0)
			return r;
		*files[i].answer = answer == 1;
	}
	return read_lists(object, probe, error);
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
	for (size_t i = 0; i < probe->module_count; i++)
		json_fields_free(&of_module, &probe->modules[i]);
	for (size_t i = 0; i < probe->device_count; i++)
		json_fields_free(&of_device, &probe->devices[i]);
	json_fields_free(&of_kernel, probe);
	json_fields_free(&of_os, probe);
	json_fields_free(&of_security, probe);
	free(probe->modules);
	free(probe->devices);
	strv_free(&probe->keyrings);
	strv_free(&probe->keys);
	*probe = (struct probe){ 0 };
}

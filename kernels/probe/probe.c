/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/probe/probe.h"

#include <json-c/json.h>
#include <string.h>

#include "kernels/krel.h"

#define ITEMS_MAX  8192 /* modules, devices, keys: far more than any node has */
#define STRING_MAX 4096
#define DEPTH_MAX  8

static void json_free(struct json_object **object)
{
	json_object_put(*object);
}

struct reader {
	struct error *error;
};

static int wrong(const struct reader *reader, const char *field, const char *why)
{
	return error_set(reader->error, -EBADMSG,
		PROBE_FILE ": %s %s: it is not what slipway probe writes", field, why);
}

/* NULL for a member that is absent or null. */
static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (object && json_object_is_type(object, json_type_object))
		(void) json_object_object_get_ex(object, key, &value);
	return value;
}

/* A string that is known, or NULL. Control characters have no place in any of these. */
static int take_string(
	const struct reader *reader, struct json_object *object, const char *key, char **ret_text)
{
	struct json_object *value = member(object, key);
	const char *text;
	size_t length;

	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_string))
		return wrong(reader, key, "is no string");
	text = json_object_get_string(value);
	length = (size_t) json_object_get_string_len(value);
	if (length > STRING_MAX || strlen(text) != length)
		return wrong(reader, key, "is too long or holds a NUL");
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			return wrong(reader, key, "holds a control character");
	*ret_text = strdup(text);
	return *ret_text ? 0 : error_set_errno(reader->error, -ENOMEM, PROBE_FILE);
}

static int take_answer(const struct reader *reader, struct json_object *object, const char *key,
	enum probe_answer *ret_answer)
{
	struct json_object *value = member(object, key);

	*ret_answer = PROBE_UNKNOWN;
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_boolean))
		return wrong(reader, key, "is neither true nor false");
	*ret_answer = json_object_get_boolean(value) ? PROBE_YES : PROBE_NO;
	return 0;
}

/* How many items a list has; 0 for one that is not known. */
static int list_length(const struct reader *reader, struct json_object *object, const char *key,
	size_t *ret_length)
{
	struct json_object *value = member(object, key);

	*ret_length = 0;
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_array))
		return wrong(reader, key, "is no list");
	*ret_length = json_object_array_length(value);
	return *ret_length > ITEMS_MAX ? wrong(reader, key, "is too long") : 0;
}

static int take_names(const struct reader *reader, struct json_object *object, const char *key,
	const char *name_key, struct strv *names)
{
	size_t count;
	int r = list_length(reader, object, key, &count);

	for (size_t i = 0; i < count && r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(member(object, key), i);
		_cleanup_free_ char *name = NULL;

		r = take_string(reader, item, name_key, &name);
		if (r == 0 && !name)
			r = wrong(reader, key, "has an item without a name");
		if (r == 0 && strv_push(names, name) < 0)
			r = error_set_errno(reader->error, -ENOMEM, PROBE_FILE);
	}
	return r;
}

static int take_kernel(const struct reader *reader, struct json_object *object, struct probe *probe)
{
	struct json_object *kernel = member(object, "kernel");
	struct json_object *page_size = member(kernel, "page_size");
	int r = take_string(reader, kernel, "release", &probe->krel);

	if (r == 0 && !probe->krel)
		r = wrong(reader, "kernel.release", "is missing");
	if (r == 0 && !krel_is_valid(probe->krel))
		r = wrong(reader, "kernel.release", "is no kernel release");
	if (r == 0)
		r = take_string(reader, kernel, "machine", &probe->machine);
	if (r == 0)
		r = take_string(reader, kernel, "proc_version", &probe->proc_version);
	if (r == 0)
		r = take_answer(reader, kernel, "module_unload", &probe->module_unload);
	if (r < 0 || !page_size)
		return r;
	if (!json_object_is_type(page_size, json_type_int))
		return wrong(reader, "page_size", "is no number");
	probe->page_size = (long) json_object_get_int64(page_size);
	return 0;
}

static int take_os(const struct reader *reader, struct json_object *object, struct probe *probe)
{
	struct json_object *os = member(object, "os");
	int r = take_string(reader, os, "id", &probe->os);

	if (r == 0)
		r = take_string(reader, os, "version_id", &probe->os_version);
	if (r == 0)
		r = take_string(reader, os, "name", &probe->os_name);
	return r;
}

static int take_files(const struct reader *reader, struct json_object *object, struct probe *probe)
{
	static const char *const keys[] = { "config", "headers", "symvers" };
	bool *const answers[] = { &probe->has_config, &probe->has_headers, &probe->has_symvers };
	struct json_object *files = member(object, "files");

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		enum probe_answer answer;
		int r = take_answer(reader, member(files, keys[i]), "included", &answer);

		if (r < 0)
			return r;
		*answers[i] = answer == PROBE_YES;
	}
	return 0;
}

static int take_security(
	const struct reader *reader, struct json_object *object, struct probe *probe)
{
	struct json_object *security = member(object, "security");
	int r = take_answer(reader, security, "sig_enforce", &probe->sig_enforce);

	if (r == 0)
		r = take_string(reader, security, "lockdown", &probe->lockdown);
	if (r == 0)
		r = take_names(reader, security, "keyrings", "name", &probe->keyrings);
	if (r == 0)
		r = take_names(reader, security, "keys", "description", &probe->keys);
	return r;
}

static int take_modules(
	const struct reader *reader, struct json_object *object, struct probe *probe)
{
	size_t count;
	int r = list_length(reader, object, "modules", &count);

	if (r < 0)
		return r;
	probe->modules = calloc(count + 1, sizeof(*probe->modules));
	if (!probe->modules)
		return error_set_errno(reader->error, -ENOMEM, PROBE_FILE);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(member(object, "modules"), i);
		struct probe_module *module = &probe->modules[probe->module_count++];

		r = take_string(reader, item, "name", &module->name);
		if (r == 0 && !module->name)
			r = wrong(reader, "modules", "has one without a name");
		if (r == 0)
			r = take_string(reader, item, "srcversion", &module->srcversion);
		if (r == 0)
			r = take_string(reader, item, "version", &module->version);
		if (r == 0)
			r = take_string(reader, item, "build_id", &module->build_id);
	}
	return r;
}

static int take_devices(
	const struct reader *reader, struct json_object *object, struct probe *probe)
{
	size_t count;
	int r = list_length(reader, object, "devices", &count);

	if (r < 0)
		return r;
	probe->devices = calloc(count + 1, sizeof(*probe->devices));
	if (!probe->devices)
		return error_set_errno(reader->error, -ENOMEM, PROBE_FILE);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(member(object, "devices"), i);
		struct probe_device *device = &probe->devices[probe->device_count++];

		r = take_string(reader, item, "vendor", &device->vendor);
		if (r == 0)
			r = take_string(reader, item, "device", &device->device);
		if (r == 0 && (!device->vendor || !device->device))
			r = wrong(reader, "devices", "has one without an id");
		if (r == 0)
			r = take_string(reader, item, "class", &device->class);
		if (r == 0)
			r = take_string(reader, item, "driver", &device->driver);
	}
	return r;
}

static int take_schema(const struct reader *reader, struct json_object *object)
{
	_cleanup_free_ char *schema = NULL;
	int r = take_string(reader, object, "schema", &schema);

	if (r < 0)
		return r;
	if (!schema)
		return wrong(reader, "schema", "is missing");
	if (strcmp(schema, PROBE_SCHEMA) != 0)
		return error_set(reader->error, -EBADMSG,
			PROBE_FILE ": its schema is %.40s, and this program knows " PROBE_SCHEMA
				   ": collect it with the slipway that reads it",
			schema);
	return 0;
}

static int take_all(const struct reader *reader, struct json_object *object, struct probe *probe)
{
	static int (*const takers[])(
		const struct reader *, struct json_object *, struct probe *) = { take_kernel,
		take_os, take_files, take_security, take_modules, take_devices };
	int r = take_schema(reader, object);

	for (size_t i = 0; i < ARRAY_SIZE(takers) && r == 0; i++)
		r = takers[i](reader, object, probe);
	return r;
}

static struct json_object *parse(const char *text, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	struct json_object *object;

	if (!tokener)
		return NULL;
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
	_cleanup_(json_free) struct json_object *object = NULL;
	_cleanup_(probe_free) struct probe probe = { 0 };
	const struct reader reader = { .error = error };
	int r;

	if (size > PROBE_JSON_LIMIT)
		return error_set(error, -EFBIG,
			PROBE_FILE " has %zu bytes, more than the %zu that one can have", size,
			PROBE_JSON_LIMIT);
	object = parse(text, size);
	if (!object || !json_object_is_type(object, json_type_object))
		return wrong(&reader, "its text", "is no JSON object");
	r = take_all(&reader, object, &probe);
	if (r < 0)
		return r;
	*ret = probe;
	probe = (struct probe){ 0 };
	return 0;
}

static void free_lists(struct probe *probe)
{
	for (size_t i = 0; i < probe->module_count; i++) {
		free(probe->modules[i].name);
		free(probe->modules[i].srcversion);
		free(probe->modules[i].version);
		free(probe->modules[i].build_id);
	}
	for (size_t i = 0; i < probe->device_count; i++) {
		free(probe->devices[i].vendor);
		free(probe->devices[i].device);
		free(probe->devices[i].class);
		free(probe->devices[i].driver);
	}
	free(probe->modules);
	free(probe->devices);
}

void probe_free(struct probe *probe)
{
	free_lists(probe);
	free(probe->krel);
	free(probe->machine);
	free(probe->proc_version);
	free(probe->os);
	free(probe->os_version);
	free(probe->os_name);
	free(probe->lockdown);
	strv_free(&probe->keyrings);
	strv_free(&probe->keys);
	*probe = (struct probe){ 0 };
}

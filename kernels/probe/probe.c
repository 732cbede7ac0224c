/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/probe/probe.h"

#include <json-c/json.h>
#include <string.h>

#include "common/xalloc.h"
#include "kernels/krel.h"

#define ITEMS_MAX  8192 /* modules, devices, keys: far more than any node has */
#define STRING_MAX 4096
#define DEPTH_MAX  8

/* A text, or with @is_answer true, false or null. */
struct field {
	const char *object; /* of the manifest's members; NULL: of an item of a list */
	const char *key;
	size_t offset;
	bool is_answer;
};

#define PROBE(member)  offsetof(struct probe, member)
#define MODULE(member) #member, offsetof(struct probe_module, member)
#define DEVICE(member) #member, offsetof(struct probe_device, member)

static const struct field probe_fields[] = {
	{ "kernel", "release", PROBE(krel), false },
	{ "kernel", "machine", PROBE(machine), false },
	{ "kernel", "proc_version", PROBE(proc_version), false },
	{ "kernel", "module_unload", PROBE(module_unload), true },
	{ "os", "id", PROBE(os), false },
	{ "os", "version_id", PROBE(os_version), false },
	{ "os", "name", PROBE(os_name), false },
	{ "security", "sig_enforce", PROBE(sig_enforce), true },
	{ "security", "lockdown", PROBE(lockdown), false },
};

static const struct field module_fields[] = {
	{ NULL, MODULE(name), false },
	{ NULL, MODULE(srcversion), false },
	{ NULL, MODULE(version), false },
	{ NULL, MODULE(build_id), false },
};

static const struct field device_fields[] = {
	{ NULL, DEVICE(vendor), false },
	{ NULL, DEVICE(device), false },
	{ NULL, DEVICE(class), false },
	{ NULL, DEVICE(driver), false },
};

static int wrong(const char *field, const char *why, struct error *error)
{
	return error_set(error, -EBADMSG, PROBE_FILE ": %s %s: it is not what slipway probe writes",
		field, why);
}

/* NULL for a member that is absent or null. */
static struct json_object *member(struct json_object *object, const char *key)
{
	return json_object_is_type(object, json_type_object) ? json_object_object_get(object, key)
							     : NULL;
}

/* A string that is known, or NULL. Control characters have no place in any of these. */
static int take_string(
	struct json_object *object, const char *key, char **ret_text, struct error *error)
{
	struct json_object *value = member(object, key);
	const char *text;
	size_t length;

	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_string))
		return wrong(key, "is no string", error);
	text = json_object_get_string(value);
	length = (size_t) json_object_get_string_len(value);
	if (length > STRING_MAX || strlen(text) != length)
		return wrong(key, "is too long or holds a NUL", error);
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			return wrong(key, "holds a control character", error);
	*ret_text = xstrdup(text);
	return 0;
}

static int take_answer(struct json_object *object, const char *key, enum probe_answer *ret_answer,
	struct error *error)
{
	struct json_object *value = member(object, key);

	*ret_answer = PROBE_UNKNOWN;
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_boolean))
		return wrong(key, "is neither true nor false", error);
	*ret_answer = json_object_get_boolean(value) ? PROBE_YES : PROBE_NO;
	return 0;
}

/* The fields of @object, or of the members of it that they name. */
static int take_fields(struct json_object *object, const struct field *fields, size_t count,
	void *base, struct error *error)
{
	for (size_t i = 0; i < count; i++) {
		const struct field *field = &fields[i];
		struct json_object *of = field->object ? member(object, field->object) : object;
		void *slot = (char *) base + field->offset;
		int r = field->is_answer ? take_answer(of, field->key, slot, error)
					 : take_string(of, field->key, slot, error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A list with its length, which is 0 for one that is not known. */
static int take_list(struct json_object *object, const char *key, struct json_object **ret_list,
	size_t *ret_length, struct error *error)
{
	struct json_object *value = member(object, key);

	*ret_list = value;
	*ret_length = 0;
	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_array))
		return wrong(key, "is no list", error);
	*ret_length = json_object_array_length(value);
	return *ret_length > ITEMS_MAX ? wrong(key, "is too long", error) : 0;
}

static int take_names(struct json_object *object, const char *key, const char *name_key,
	struct strv *names, struct error *error)
{
	struct json_object *list;
	size_t count;
	int r = take_list(object, key, &list, &count, error);

	for (size_t i = 0; i < count && r == 0; i++) {
		_cleanup_free_ char *name = NULL;

		r = take_string(json_object_array_get_idx(list, i), name_key, &name, error);
		if (r == 0 && !name)
			r = wrong(key, "has an item without a name", error);
		if (r == 0)
			xstrv_push(names, name);
	}
	return r;
}

static int take_modules(struct json_object *object, struct probe *probe, struct error *error)
{
	struct json_object *list;
	size_t count;
	int r = take_list(object, "modules", &list, &count, error);

	if (r < 0)
		return r;
	probe->modules = xcalloc(count, sizeof(*probe->modules));
	for (size_t i = 0; i < count && r == 0; i++) {
		struct probe_module *module = &probe->modules[probe->module_count++];

		r = take_fields(json_object_array_get_idx(list, i), module_fields,
			ARRAY_SIZE(module_fields), module, error);
		if (r == 0 && !module->name)
			r = wrong("modules", "has one without a name", error);
	}
	return r;
}

static int take_devices(struct json_object *object, struct probe *probe, struct error *error)
{
	struct json_object *list;
	size_t count;
	int r = take_list(object, "devices", &list, &count, error);

	if (r < 0)
		return r;
	probe->devices = xcalloc(count, sizeof(*probe->devices));
	for (size_t i = 0; i < count && r == 0; i++) {
		struct probe_device *device = &probe->devices[probe->device_count++];

		r = take_fields(json_object_array_get_idx(list, i), device_fields,
			ARRAY_SIZE(device_fields), device, error);
		if (r == 0 && (!device->vendor || !device->device))
			r = wrong("devices", "has one without an id", error);
	}
	return r;
}

static int take_files(struct json_object *object, struct probe *probe, struct error *error)
{
	static const char *const keys[] = { "config", "headers", "symvers" };
	bool *const answers[] = { &probe->has_config, &probe->has_headers, &probe->has_symvers };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct json_object *file = member(member(object, "files"), keys[i]);
		enum probe_answer answer;
		int r = take_answer(file, "included", &answer, error);

		if (r < 0)
			return r;
		*answers[i] = answer == PROBE_YES;
	}
	return 0;
}

static int take_all(struct json_object *object, struct probe *probe, struct error *error)
{
	struct json_object *page_size = member(member(object, "kernel"), "page_size");
	struct json_object *security = member(object, "security");
	_cleanup_free_ char *schema = NULL;
	int r = take_string(object, "schema", &schema, error);

	if (r < 0)
		return r;
	if (!schema)
		return wrong("schema", "is missing", error);
	if (strcmp(schema, PROBE_SCHEMA) != 0)
		return error_set(error, -EBADMSG,
			PROBE_FILE ": its schema is %.40s, and this program knows " PROBE_SCHEMA
				   ": collect it with the slipway that reads it",
			schema);
	r = take_fields(object, probe_fields, ARRAY_SIZE(probe_fields), probe, error);
	if (r < 0)
		return r;
	if (!probe->krel)
		return wrong("kernel.release", "is missing", error);
	if (!krel_is_valid(probe->krel))
		return wrong("kernel.release", "is no kernel release", error);
	if (page_size && !json_object_is_type(page_size, json_type_int))
		return wrong("page_size", "is no number", error);
	probe->page_size = (long) json_object_get_int64(page_size);
	r = take_files(object, probe, error);
	if (r == 0)
		r = take_names(security, "keyrings", "name", &probe->keyrings, error);
	if (r == 0)
		r = take_names(security, "keys", "description", &probe->keys, error);
	if (r == 0)
		r = take_modules(object, probe, error);
	return r < 0 ? r : take_devices(object, probe, error);
}

static void json_free(struct json_object **object)
{
	json_object_put(*object);
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
	_cleanup_(json_free) struct json_object *object = NULL;
	_cleanup_(probe_free) struct probe probe = { 0 };
	int r;

	if (size > PROBE_JSON_LIMIT)
		return error_set(error, -EFBIG,
			PROBE_FILE " has %zu bytes, more than the %zu that one can have", size,
			PROBE_JSON_LIMIT);
	object = parse(text, size);
	if (!json_object_is_type(object, json_type_object))
		return wrong("its text", "is no JSON object", error);
	r = take_all(object, &probe, error);
	if (r < 0)
		return r;
	*ret = probe;
	probe = (struct probe){ 0 };
	return 0;
}

static void free_fields(const struct field *fields, size_t count, void *base)
{
	for (size_t i = 0; i < count; i++)
		if (!fields[i].is_answer)
			free(*(char **) (void *) ((char *) base + fields[i].offset));
}

void probe_free(struct probe *probe)
{
	for (size_t i = 0; i < probe->module_count; i++)
		free_fields(module_fields, ARRAY_SIZE(module_fields), &probe->modules[i]);
	for (size_t i = 0; i < probe->device_count; i++)
		free_fields(device_fields, ARRAY_SIZE(device_fields), &probe->devices[i]);
	free_fields(probe_fields, ARRAY_SIZE(probe_fields), probe);
	free(probe->modules);
	free(probe->devices);
	strv_free(&probe->keyrings);
	strv_free(&probe->keys);
	*probe = (struct probe){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "common/xalloc.h"

#define READ_LIMIT ((size_t) 1 << 30)

void json_add(json_object *object, const char *name, json_object *value)
{
	(void) json_object_object_add(object, name, value);
}

/* Paths and .modinfo are bytes of others: what is no UTF-8 would make no JSON. */
json_object *json_text(const char *text)
{
	_cleanup_free_ char *copy = text ? xstrdup(text) : NULL;
	size_t length;

	for (char *c = copy; c && *c; c += length) {
		length = json_text_utf8_length(c);
		if (length == 0) {
			*c = '?';
			length = 1;
		}
	}
	return copy ? json_object_new_string(copy) : NULL;
}

int json_parse(const char *text, size_t size, json_object **ret, struct error *error)
{
	json_tokener *parser = json_tokener_new();
	enum json_tokener_error problem;
	size_t end;

	if (!parser)
		out_of_memory();
	*ret = size > INT_MAX ? NULL : json_tokener_parse_ex(parser, text, (int) size);
	problem = json_tokener_get_error(parser);
	end = json_tokener_get_parse_end(parser);
	json_tokener_free(parser);
	if (!*ret && problem == json_tokener_continue)
		return error_set(error, -EBADMSG, size ? "the JSON is cut short" : "it is empty");
	if (!*ret)
		return error_set(error, -EBADMSG, "no JSON: %s",
			problem == json_tokener_success ? "null"
							: json_tokener_error_desc(problem));
	if (text[end + strspn(text + end, " \t\r\n")] == '\0')
		return 0;
	(void) json_object_put(*ret);
	*ret = NULL;
	return error_set(error, -EBADMSG, "more follows the first JSON value");
}

int json_read(const char *option, const char *path, json_object **ret, struct error *error)
{
	bool is_stdin = strcmp(path, "-") == 0;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = is_stdin ? fs_read_fd(STDIN_FILENO, READ_LIMIT, &text, &size)
			 : fs_read(AT_FDCWD, path, READ_LIMIT, &text, &size);

	*ret = NULL;
	if (r < 0)
		return error_set_errno(error, r, "%s %s", option, path);
	r = json_parse(text, size, ret, error);
	return r < 0 ? error_prefix(error, r, "%s %s", option, path) : 0;
}

json_object *json_list(const struct strv *list)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < list->count; i++)
		(void) json_object_array_add(array, json_text(list->items[i]));
	return array;
}

void json_add_pairs(json_object *object, const char *const *pairs)
{
	for (; *pairs; pairs += 2)
		json_add(object, pairs[0], json_text(pairs[1]));
}

char *json_pretty(json_object *root)
{
	return xasprintf("%s\n", json_object_to_json_string_ext(root,
					 JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

void json_print(json_object *root, FILE *file)
{
	_cleanup_free_ char *text = json_pretty(root);

	if (fputs(text, file) < 0 && file == stdout)
		message_lost();
	(void) json_object_put(root);
}

void json_print_line(json_object *root)
{
	if (puts(json_object_to_json_string_ext(
		    root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)) < 0)
		message_lost();
	(void) message_flush();
	(void) json_object_put(root);
}

void json_print_failed(const char *event, int exit_code, const char *reason, const char *message)
{
	struct json json = { .file = stdout };

	json_write_open(&json, NULL, '{');
	if (*event)
		json_write_text(&json, "event", event);
	json_write_number(&json, "exit_code", exit_code);
	if (reason)
		json_write_text(&json, "reason", reason);
	if (message)
		json_write_text(&json, "message", message);
	json_write_close(&json, '}');
	(void) puts("");
}

int json_fail(const char *verb, const char *event, int exit_code, const struct error *error)
{
	_cleanup_free_ char *who = xasprintf("slipway %s", verb);
	_cleanup_free_ char *message = message_text(error);

	(void) message_flush();
	message_error(stderr, who, error);
	if (event)
		json_print_failed(event, exit_code, NULL, message);
	return exit_code;
}

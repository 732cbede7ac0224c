/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/resolve_output.h"

#include <json-c/json.h>
#include <string.h>

#define SHORT_HASH 12

static void say_trace(const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];

		(void) printf("%-8s %s%s%s\n           %s\n", trace_outcome_text(entry->outcome),
			*entry->repository ? entry->repository : "all", *entry->url ? "  " : "",
			entry->url, entry->text);
	}
	if (trace->count)
		(void) putchar('\n');
}

static void say_size(uint64_t size_bytes, int width)
{
	if (size_bytes >= 1000000)
		(void) printf("%*.1f MB", width, (double) size_bytes / 1e6);
	else
		(void) printf("%*.1f kB", width, (double) size_bytes / 1e3);
}

static int longest(const struct lock *lock, bool version)
{
	size_t length = 0;

	for (size_t i = 0; i < lock->count; i++) {
		size_t own = strlen(version ? lock->packages[i].version : lock->packages[i].name);

		length = own > length ? own : length;
	}
	return (int) length;
}

static void say_packages(const struct lock *lock)
{
	int name_width = longest(lock, false);
	int version_width = longest(lock, true);
	uint64_t total_bytes = 0;

	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];

		(void) printf("%-16s  %-*s  %-*s ", package->purpose, name_width, package->name,
			version_width, package->version);
		say_size(package->size_bytes, 8);
		(void) printf("  sha256:%.*s  %s\n    %s\n", SHORT_HASH, package->sha256,
			package->repository, package->url);
		total_bytes += package->size_bytes;
	}
	(void) printf("%zu package%s, ", lock->count, lock->count == 1 ? "" : "s");
	say_size(total_bytes, 0);
	(void) putchar('\n');
}

static void say_lock(const struct resolve_result *result)
{
	const struct lock *lock = &result->answer.lock;

	(void) printf("kernel    %s\nfor       %s, %s\n", lock->krel, result->os, lock->arch);
	(void) printf("compiler  %s\n          %s\n", *lock->compiler ? lock->compiler : "not told",
		lock->compiler_evidence);
	for (size_t i = 0; i < lock->repository_count; i++) {
		const struct lock_repository *from = &lock->repositories[i];

		(void) printf("list      %s%s%s of %s, %s%s\n", from->name, *from->suite ? " " : "",
			from->suite, *from->date ? from->date : "no date",
			*from->signer ? "signed by " : "not signed", from->signer);
	}
	(void) putchar('\n');
	say_packages(lock);
}

void resolve_output_text(const struct resolve_result *result, const struct error *error)
{
	const struct strv *warnings = &result->answer.warnings;

	if (result->explain)
		say_trace(&result->answer.trace);
	for (size_t i = 0; i < result->releases.count; i++)
		(void) puts(result->releases.items[i]);
	if (!result->is_list && !result->is_written && result->exit_code == EXIT_CODE_OK)
		say_lock(result);
	(void) fflush(stdout);
	for (size_t i = 0; i < warnings->count; i++)
		(void) fprintf(stderr, "slipway resolve: warning: %s\n", warnings->items[i]);
	if (result->exit_code != EXIT_CODE_OK)
		(void) fprintf(stderr, "slipway resolve: %s\n", error->text);
}

static void add(json_object *object, const char *key, json_object *value)
{
	(void) json_object_object_add(object, key, value);
}

static json_object *trace_to_json(const struct trace *trace)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];
		json_object *object = json_object_new_object();

		add(object, "outcome", json_object_new_string(trace_outcome_text(entry->outcome)));
		add(object, "repository", json_object_new_string(entry->repository));
		add(object, "text", json_object_new_string(entry->text));
		add(object, "url", json_object_new_string(entry->url));
		(void) json_object_array_add(array, object);
	}
	return array;
}

static json_object *strv_to_json(const struct strv *list)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < list->count; i++)
		(void) json_object_array_add(array, json_object_new_string(list->items[i]));
	return array;
}

static void add_answer(json_object *root, const struct resolve_result *result)
{
	_cleanup_free_ char *text = lock_write(&result->answer.lock);

	if (result->is_list)
		add(root, "releases", strv_to_json(&result->releases));
	else if (text)
		add(root, "lock", json_tokener_parse(text));
}

void resolve_output_json(const struct resolve_result *result, const struct error *error)
{
	json_object *root = json_object_new_object();

	add(root, "exit_code", json_object_new_int((int) result->exit_code));
	if (result->exit_code == EXIT_CODE_OK) {
		add_answer(root, result);
	} else {
		add(root, "message", json_object_new_string(error->text));
		add(root, "reason",
			json_object_new_string(exit_code_text((int) result->exit_code)));
	}
	add(root, "trace", trace_to_json(&result->answer.trace));
	add(root, "warnings", strv_to_json(&result->answer.warnings));
	(void) puts(json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	(void) json_object_put(root);
	/* People and logs look at stderr, programs at stdout. */
	if (result->exit_code != EXIT_CODE_OK)
		(void) fprintf(stderr, "slipway resolve: %s\n", error->text);
}

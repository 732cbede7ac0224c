/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "cli/image/image_record.h"
#include "cli/cache/cache.h"
#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/message.h"
#include "common/text.h"
#include "common/xalloc.h"

#define DEFAULT_AGE_S ((time_t) 30 * 24 * 60 * 60)

struct verb {
	struct common_options options;
	const struct action *action;
	/* Entries that prune removes: all, by age, or the longest unused until the rest fits. */
	bool all;
	bool by_age;
	time_t age_s;
	bool by_size;
	uint64_t keep_bytes;
	bool dry_run;
	struct cache cache;
};

/* A number with one letter after it, of @letters, whose factors are @factors. */
static int parse_unit(
	const char *text, const char *letters, const uint64_t *factors, uint64_t *ret_value)
{
	char *end;
	unsigned long long number;
	const char *letter;

	errno = 0;
	number = strtoull(text, &end, 10);
	letter = *end ? strchr(letters, *end) : NULL;
	if (errno || end == text || *text == '-' || !letter || end[1] ||
		number > INT64_MAX / factors[letter - letters])
		return -EINVAL;
	*ret_value = number * factors[letter - letters];
	return 0;
}

static int take_age(void *target, const char *value, struct error *error)
{
	static const uint64_t seconds[] = { 1, 60, 3600, 86400, 604800 };
	struct verb *verb = target;
	uint64_t number;

	if (parse_unit(value, "smhdw", seconds, &number) < 0)
		return error_set(error, -EINVAL,
			"--older-than %s: not a number followed by s, m, h, d or w", value);
	verb->by_age = true;
	verb->age_s = (time_t) number;
	return 0;
}

static int take_size(void *target, const char *value, struct error *error)
{
	static const uint64_t bytes[] = { 1000, 1000000, 1000000000, 1000000000000 };
	struct verb *verb = target;

	if (parse_unit(value, "KMGT", bytes, &verb->keep_bytes) < 0)
		return error_set(error, -EINVAL,
			"--keep-size %s: not a number followed by K, M, G or T", value);
	verb->by_size = true;
	return 0;
}

/* An object for the entry, with @event where that is not NULL. */
static json_object *entry_to_json(const char *event, const struct cache_entry *entry)
{
	json_object *object = json_object_new_object();

	if (event)
		json_add_texts(object, "event", event);
	json_add_texts(object, "kind", entry->kind_text, "path", entry->path);
	if (entry->name)
		json_add_texts(object, "name", entry->name);
	json_add(object, "size_bytes", json_object_new_uint64(entry->size_bytes));
	json_add(object, "used", json_object_new_int64((int64_t) entry->used_s));
	return object;
}

static void print_entry(const struct cache_entry *entry)
{
	char used[32] = "";
	struct tm when;

	if (localtime_r(&entry->used_s, &when))
		(void) strftime(used, sizeof(used), "%F %R", &when);
	text_print(stdout, "%-9s %9.1f MB  %s  %s%s%s%s\n", entry->kind_text,
		(double) entry->size_bytes / 1e6, used, entry->path, entry->name ? "  " : "",
		entry->name && entry->kind == CACHE_OUTPUT ? "image " : "",
		entry->name ? entry->name : "");
}

static int list(const struct verb *verb, const struct cache_entries *entries, struct error *error)
{
	json_object *root, *items;
	uint64_t total_bytes = 0;

	(void) error;
	for (size_t i = 0; i < entries->count; i++)
		total_bytes += entries->items[i].size_bytes;
	if (!verb->options.json) {
		for (size_t i = 0; i < entries->count; i++)
			print_entry(&entries->items[i]);
		text_print(stdout, "%zu entries, %.1f MB in %s\n", entries->count,
			(double) total_bytes / 1e6, verb->cache.path);
		return 0;
	}
	root = json_object_new_object();
	items = json_object_new_array();
	for (size_t i = 0; i < entries->count; i++)
		(void) json_object_array_add(items, entry_to_json(NULL, &entries->items[i]));
	json_add(root, "entries", items);
	json_add_texts(root, "path", verb->cache.path);
	json_add(root, "size_bytes", json_object_new_uint64(total_bytes));
	json_print_line(root);
	return 0;
}

/* ---- prune */

static bool is_to_go(const struct verb *verb, const struct cache_entry *entry, uint64_t left_bytes)
{
	return verb->all || entry->kind == CACHE_DAMAGED ||
	       (verb->by_age && time(NULL) - entry->used_s > verb->age_s) ||
	       (verb->by_size && left_bytes > verb->keep_bytes);
}

static void print_removed(const struct verb *verb, const struct cache_entry *entry)
{
	if (verb->options.json) {
		json_print_line(entry_to_json(verb->dry_run ? "would-remove" : "removed", entry));
		return;
	}
	text_print(stdout, "%s ", verb->dry_run ? "would remove" : "removed");
	print_entry(entry);
}

static void remove_image(const struct verb *verb, const char *name)
{
	json_object *object;

	if (!verb->dry_run && buildah_remove_image(name) < 0)
		return;
	if (!verb->options.json) {
		text_print(
			stdout, "%s image %s\n", verb->dry_run ? "would remove" : "removed", name);
		return;
	}
	object = json_object_new_object();
	json_add_texts(object, "event", verb->dry_run ? "would-remove" : "removed", "kind", "image",
		"name", name);
	json_print_line(object);
}

/* Removing an output also removes the image in the local storage that it stands for. */
static int prune(const struct verb *verb, const struct cache_entries *entries, struct error *error)
{
	_cleanup_strv_ struct strv known_images = { 0 }; /* of outputs that stay, or were named */
	_cleanup_strv_ struct strv names = { 0 };
	uint64_t left_bytes = 0, removed_bytes = 0;
	json_object *object;
	size_t removed = 0, in_use = 0;

	for (size_t i = 0; i < entries->count; i++)
		left_bytes += entries->items[i].size_bytes;
	for (size_t i = 0; i < entries->count; i++) {
		const struct cache_entry *entry = &entries->items[i];
		bool to_go = is_to_go(verb, entry, left_bytes);
		int r = to_go && !entry->in_use;

		if (r && !verb->dry_run)
			r = cache_entry_remove(&verb->cache, entry);
		if (r < 0)
			return error_set_errno(error, r, "%s/%s", verb->cache.path, entry->path);
		if (r == 0) {
			in_use += to_go;
			if (entry->kind == CACHE_OUTPUT && entry->name)
				xstrv_push(&known_images, entry->name);
			continue;
		}
		removed++;
		removed_bytes += entry->size_bytes;
		left_bytes -= entry->size_bytes;
		print_removed(verb, entry);
		if (entry->kind == CACHE_OUTPUT && entry->name && !entry->has_driver &&
			strncmp(entry->name, IMAGE_LOCAL, strlen(IMAGE_LOCAL)) == 0) {
			remove_image(verb, entry->name);
			xstrv_push(&known_images, entry->name); /* --dry-run leaves it */
		}
	}
	/*
	 * Images of outputs that went without them: with the cache's folder, or by hand. Another
	 * cache's run may have made some a moment ago: only where all is to go.
	 */
	if (verb->all && !entries->is_shared)
		(void) !buildah_image_names(IMAGE_LOCAL, &names);
	for (size_t i = 0; i < names.count; i++)
		if (!strv_contains(&known_images, names.items[i]))
			remove_image(verb, names.items[i]);
	if (verb->options.json) {
		object = json_object_new_object();
		json_add_texts(object, "event", "result");
		json_add(object, "dry_run", json_object_new_boolean(verb->dry_run));
		json_add(object, "removed", json_object_new_uint64(removed));
		json_add(object, "removed_bytes", json_object_new_uint64(removed_bytes));
		json_add(object, "in_use", json_object_new_uint64(in_use));
		json_print_line(object);
	} else {
		text_print(stdout, "%s %zu entries, %.1f MB; %zu more are in use\n",
			verb->dry_run ? "Would remove" : "Removed", removed,
			(double) removed_bytes / 1e6, in_use);
	}
	return 0;
}

/* ---- verify */

static void print_damaged(
	const struct verb *verb, const struct cache_entry *entry, const char *what)
{
	json_object *object;

	if (!verb->options.json) {
		text_print(stdout, "%s%s%s%s\n", what, entry->name ? " (" : "",
			entry->name ? entry->name : "", entry->name ? ")" : "");
		return;
	}
	object = entry_to_json("damaged", entry);
	json_add_texts(object, "message", what);
	json_print_line(object);
}

static int verify(const struct verb *verb, const struct cache_entries *entries, struct error *error)
{
	size_t checked = 0, damaged = 0, unchecked = 0, in_use = 0;
	uint64_t checked_bytes = 0;
	json_object *object;

	for (size_t i = 0; i < entries->count; i++) {
		const struct cache_entry *entry = &entries->items[i];
		int r = cache_entry_check(&verb->cache, entry, error);

		if (r < 0 && r != -EUCLEAN && r != -EINVAL)
			return r;
		if (r == 0) {
			unchecked++;
			continue;
		}
		checked++;
		checked_bytes += entry->size_bytes;
		if (r > 0)
			continue;
		damaged++;
		print_damaged(verb, entry, error->text);
		if (r == -EINVAL)
			continue;
		if (entry->kind == CACHE_OUTPUT && entry->in_use) {
			in_use++;
			continue;
		}
		r = cache_entry_set_aside(&verb->cache, entry);
		if (r < 0 && r != -EINVAL && r != -EUCLEAN)
			return error_set_errno(error, r, "%s", entry->path);
	}
	if (verb->options.json) {
		object = json_object_new_object();
		json_add_texts(object, "event", "result");
		json_add(object, "checked", json_object_new_uint64(checked));
		json_add(object, "checked_bytes", json_object_new_uint64(checked_bytes));
		json_add(object, "damaged", json_object_new_uint64(damaged));
		json_add(object, "in_use", json_object_new_uint64(in_use));
		json_add(object, "unchecked", json_object_new_uint64(unchecked));
		json_print_line(object);
	} else {
		text_print(stdout, "Checked %zu entries, %.1f MB; %zu damaged\n", checked,
			(double) checked_bytes / 1e6, damaged);
		text_print(stdout,
			"%zu others were not checked: only downloads and image archives have "
			"digests\n",
			unchecked);
	}
	if (in_use) {
		(void) error_set(error, -EUCLEAN,
			"%zu damaged in %s: %zu of them were kept because a running slipway may be "
			"using them",
			damaged, verb->cache.path, in_use);
		return error_try(error, -EUCLEAN,
			"run slipway cache verify again when that run "
			"has ended");
	}
	if (damaged)
		return error_set(error, -EUCLEAN,
			"%zu damaged in %s: moved aside; the next run fetches or rebuilds those "
			"that it needs",
			damaged, verb->cache.path);
	return 0;
}

static const struct action {
	const char *name;
	int (*run)(
		const struct verb *verb, const struct cache_entries *entries, struct error *error);
} actions[] = { { "list", list }, { "prune", prune }, { "verify", verify } };

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	if (verb->action)
		return error_set(error, -EINVAL, "%s: unexpected argument", argument);
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(argument, actions[i].name) == 0)
			verb->action = &actions[i];
	return verb->action ? 0
			    : error_set(error, -EINVAL,
				      "%s: no such action; use list, prune or verify", argument);
}

static int run(struct verb *verb, struct error *error)
{
	_cleanup_(cache_entries_free) struct cache_entries entries = { 0 };
	int r = cache_open(verb->options.cache, &verb->cache, error);

	if (!verb->by_age && !verb->by_size && !verb->all) {
		verb->by_age = true;
		verb->age_s = DEFAULT_AGE_S;
	}
	if (r == 0 && verb->action->run != list)
		r = cache_start_run(&verb->cache, buildah_sweep, error);
	if (r < 0)
		return r;
	r = cache_entries_read(&verb->cache, &entries, error);
	if (r == 0)
		r = verb->action->run(verb, &entries, error);
	cache_end_run(&verb->cache);
	return r;
}

static int check(void *target, struct error *error)
{
	const struct verb *verb = target;
	const char *path = verb->options.cache;
	bool for_prune = verb->all || verb->by_age || verb->by_size || verb->dry_run;

	if (!verb->action)
		return error_set(error, -EINVAL, "the action is missing: list, prune or verify");
	if (for_prune && verb->action->run != prune)
		return error_set(error, -EINVAL,
			"--older-than, --keep-size, --all and --dry-run apply only to cache prune");
	/* One that is named is looked at, never made: a mistyped name would be an empty one. */
	return !path || cache_is_there(path)
		       ? 0
		       : error_set(error, -EINVAL, "--cache %s: there is no cache in this folder",
				 path);
}

#define CACHE_OPTION(name, letter, argument, kind, member, help)                                   \
	OPTION(name, letter, argument, kind, struct verb, member, help)

static const struct option_row rows[] = {
	OPTION_ARGUMENT("list", "list the entries with their size and last use"),
	OPTION_ARGUMENT("prune",
		"remove entries unused for 30 days, or as the options say; entries\n"
		"of a run in progress are never removed"),
	OPTION_ARGUMENT("verify", "hash every download and image archive; damaged ones are moved\n"
				  "aside, and the next run fetches or rebuilds them\n"),
	OPTION_CALL("older-than", 0, "AGE", take_age,
		"prune: remove entries unused for this long: 12h, 30d, 8w"),
	OPTION_CALL("keep-size", 0, "SIZE", take_size,
		"prune: remove the longest unused until this much is left: 500M, 20G"),
	CACHE_OPTION("all", 0, NULL, OPTION_FLAG, all,
		"prune: remove everything, and slipway's images in the local storage\n"
		"that no output refers to any more, including driver images"),
	CACHE_OPTION("dry-run", 'n', NULL, OPTION_FLAG, dry_run,
		"prune: only print what would be removed"),
	CACHE_OPTION("cache", 0, "DIR", OPTION_TEXT, options.cache,
		"the cache folder [~/.cache/slipway]"),
	CACHE_OPTION("json", 0, NULL, OPTION_FLAG, options.json, "print JSON to stdout"),
	CACHE_OPTION("help", 'h', NULL, OPTION_FLAG, options.help, "show this help"),
};

static const struct option_rule rules[] = {
	{ .given = "all", .refuses = "older-than keep-size", .why = "--all removes everything" },
};

const struct option_table cache_options = {
	.verb = "cache",
	.usage = "Usage: slipway cache list|prune|verify [options]\n"
		 "\n",
	OPTION_ROWS(rows),
	.column = 21,
	.only_common = "",
	OPTION_RULES(rules),
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

int cache_command(char **argv)
{
	struct verb verb = { .cache = { .fd = -1, .run_lock_fd = -1 } };
	struct error error = { 0 };
	int code;

	if (options_start(&cache_options, argv, &verb, &code)) {
		int r = run(&verb, &error);

		(void) message_flush();
		if (r < 0)
			message_error(stderr, "slipway cache", &error);
		code = r < 0 ? (int) exit_code_for(r, EXIT_CODE_INTERNAL) : EXIT_CODE_OK;
	}
	cache_close(&verb.cache);
	common_options_free(&verb.options);
	return code;
}

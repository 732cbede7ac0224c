/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/swap_plan.h"

#include <string.h>

#include "entrypoint/engine/statefile.h"

#define WORD "slipway-modules"

/* Stable: a later build of Slipway reads what an earlier one wrote. */
static const char *const parts[] = {
	[SWAP_OURS] = "ours",
	[SWAP_STORAGE] = "storage",
	[SWAP_THIRD_PARTY] = "third-party",
	[SWAP_AUXILIARY] = "auxiliary",
	[SWAP_PEERMEM] = "peermem",
	[SWAP_OTHER] = "other",
};

const char *swap_part_name(enum swap_part part)
{
	return parts[part];
}

void swap_plan_free(struct swap_plan *plan)
{
	strv_free(&plan->load);
	for (size_t i = 0; i < plan->go_count; i++)
		free(plan->go[i].options);
	free(plan->go);
	*plan = (struct swap_plan){ .same = false };
}

int swap_plan_add(struct swap_plan *plan, const struct swap_module *module)
{
	struct swap_module *go = reallocarray(plan->go, plan->go_count + 1, sizeof(*plan->go));

	if (!go)
		return -ENOMEM;
	plan->go = go;
	go[plan->go_count] = *module;
	go[plan->go_count].options = strdup(module->options ? module->options : "");
	if (!go[plan->go_count].options)
		return -ENOMEM;
	plan->go_count++;
	return 0;
}

bool swap_plan_goes(const struct swap_plan *plan, const char *module)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (strcmp(plan->go[i].name, module) == 0)
			return true;
	return false;
}

int swap_plan_going(const struct swap_plan *plan, struct strv *names)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		r = strv_push(names, plan->go[i].name);
	return r;
}

static int print_module(struct statefile *records, const struct swap_module *module)
{
	struct record *record = statefile_add(records, "go");
	int r = record ? record_set(record, "name", module->name) : -ENOMEM;

	if (r == 0)
		r = record_set(record, "part", swap_part_name(module->part));
	if (r == 0 && *module->build_id)
		r = record_set(record, "build-id", module->build_id);
	if (r == 0 && *module->options)
		r = record_set(record, "options", module->options);
	return r;
}

static int print_plan(struct statefile *records, const struct swap_plan *plan)
{
	struct record *record = statefile_add(records, "swap");
	int r = record ? record_set(record, "same", plan->same ? "1" : "0") : -ENOMEM;

	for (size_t i = 0; r == 0 && i < plan->load.count; i++) {
		record = statefile_add(records, "load");
		r = record ? record_set(record, "name", plan->load.items[i]) : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < plan->go_count; i++)
		r = print_module(records, &plan->go[i]);
	return r;
}

int swap_plan_write(
	int root_fd, const char *path, const struct swap_plan *plan, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = print_plan(&records, plan);

	return r < 0 ? error_set_errno(error, r, "/%s", path)
		     : statefile_write(root_fd, path, &records, error);
}

/* An unknown one is of a later Slipway: it goes and comes back as any other. */
static enum swap_part part_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(parts); i++)
		if (strcmp(parts[i], name) == 0)
			return (enum swap_part) i;
	return SWAP_OTHER;
}

static int take_module(const struct record *record, struct swap_plan *plan)
{
	const char *name = record_get(record, "name");
	const char *build_id = record_get(record, "build-id");
	const char *options = record_get(record, "options");
	struct swap_module module = { .part = part_of(record_get(record, "part")) };
	char none[] = "";
	_cleanup_free_ char *copy = strdup(options ? options : none);

	if (!copy)
		return -ENOMEM;
	if (!name || !*name || strchr(name, '/') || strlen(name) >= sizeof(module.name))
		return -EBADMSG;
	(void) snprintf(module.name, sizeof(module.name), "%s", name);
	(void) snprintf(
		module.build_id, sizeof(module.build_id), "%.64s", build_id ? build_id : "");
	module.options = copy;
	return swap_plan_add(plan, &module);
}

static int take_record(const struct record *record, struct swap_plan *plan)
{
	const char *value = record_get(record, "name");

	if (strcmp(record->kind, "go") == 0)
		return take_module(record, plan);
	if (strcmp(record->kind, "load") == 0)
		return value ? strv_push(&plan->load, value) : -EBADMSG;
	if (strcmp(record->kind, "swap") == 0) {
		value = record_get(record, "same");
		plan->same = value && strcmp(value, "1") == 0;
	}
	return 0;
}

int swap_plan_read(int root_fd, const char *path, struct swap_plan *plan, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = statefile_read(root_fd, path, &records, error);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < records.count; i++)
		r = take_record(&records.items[i], plan);
	if (r == 0)
		return 0;
	swap_plan_free(plan);
	return error_set_errno(error, r, "/%s", path);
}

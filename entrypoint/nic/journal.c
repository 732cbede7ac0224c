/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC role's journal: how far a swap of modules came, in one file of the boot (/run) that
 * outlives the process. Each phase is written, by an atomic replace of the file, before the action
 * that it announces; what a killed container left is recovered by the phase and by what is loaded
 * (recover.c), and by nothing else. The file is removed when it is empty.
 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/engine/statefile.h"
#include "entrypoint/nic/nic_internal.h"
#include "module/running.h"

#define WORD "slipway-swap"

/* Stable, as all words of the file: a later Slipway reads what an earlier one wrote. */
static const char *const part_words[] = {
	[SWAP_DRIVER] = "ours",
	[SWAP_STORAGE] = "storage",
	[SWAP_THIRD_PARTY] = "third-party",
	[SWAP_AUXILIARY] = "auxiliary",
	[SWAP_PEERMEM] = "peermem",
	[SWAP_OTHER] = "other",
};

static const char *const phase_words[PHASES] = {
	[PHASE_NONE] = "none",
	[PHASE_UNLOADING] = "unloading",
	[PHASE_LOADING] = "loading",
	[PHASE_DEPENDENTS] = "dependents",
	[PHASE_RESTORING] = "restoring",
	[PHASE_COMMITTED] = "committed",
	[PHASE_ROLLBACK] = "rollback",
};

/* The journal's records in the file: their kind, their field, and the member of struct journal. */
static const struct journal_field {
	const char *kind;
	const char *name;
	enum {
		FIELD_PHASE,
		FIELD_FLAG,    /* a bool: the record is there when it is true */
		FIELD_TEXT,    /* a string, or NULL */
		FIELD_LIST,    /* a strv: a record for each item */
		FIELD_MODULES, /* a swap_plan's go: a record for each, with fields of its own */
	} type;
	size_t offset;
} journal_fields[] = {
	{ "phase", "name", FIELD_PHASE, offsetof(struct journal, phase) },
	{ "plan", "same", FIELD_FLAG, offsetof(struct journal, plan.same) },
	{ "network", "path", FIELD_TEXT, offsetof(struct journal, network) },
	{ "network", "done", FIELD_TEXT, offsetof(struct journal, network_done) },
	{ "go", NULL, FIELD_MODULES, offsetof(struct journal, pending) },
	{ "own", NULL, FIELD_MODULES, offsetof(struct journal, own) },
	{ "plan-go", NULL, FIELD_MODULES, offsetof(struct journal, plan) },
	{ "load", "name", FIELD_LIST, offsetof(struct journal, pending.load) },
	{ "inserted", "name", FIELD_LIST, offsetof(struct journal, own.load) },
	{ "plan-load", "name", FIELD_LIST, offsetof(struct journal, plan.load) },
	{ "missing", "text", FIELD_LIST, offsetof(struct journal, lists[JOURNAL_MISSING]) },
	{ "unrestored", "text", FIELD_LIST, offsetof(struct journal, lists[JOURNAL_UNRESTORED]) },
	{ "outcome", "text", FIELD_LIST, offsetof(struct journal, lists[JOURNAL_OUTCOME]) },
};

void swap_plan_free(struct swap_plan *plan)
{
	strv_free(&plan->load);
	for (size_t i = 0; i < plan->go_count; i++)
		free(plan->go[i].options);
	free(plan->go);
	*plan = (struct swap_plan){ .same = false };
}

int swap_plan_insert(struct swap_plan *plan, size_t index, const struct swap_module *module)
{
	struct swap_module *go = reallocarray(plan->go, plan->go_count + 1, sizeof(*plan->go));
	char *options = strdup(module->options ? module->options : "");

	if (go)
		plan->go = go;
	if (!go || !options) {
		free(options);
		return -ENOMEM;
	}
	memmove(&go[index + 1], &go[index], (plan->go_count++ - index) * sizeof(*go));
	go[index] = *module;
	go[index].options = options;
	return 0;
}

int swap_plan_add(struct swap_plan *plan, const struct swap_module *module)
{
	return swap_plan_insert(plan, plan->go_count, module);
}

struct swap_module *swap_plan_find(const struct swap_plan *plan, const char *module)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (strcmp(plan->go[i].name, module) == 0)
			return &plan->go[i];
	return NULL;
}

int swap_plan_going(const struct swap_plan *plan, struct strv *names)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (strv_push_unique(names, plan->go[i].name) < 0)
			return -ENOMEM;
	return 0;
}

void journal_free(struct journal *journal)
{
	swap_plan_free(&journal->pending);
	swap_plan_free(&journal->own);
	swap_plan_free(&journal->plan);
	for (size_t i = 0; i < JOURNAL_LISTS; i++)
		strv_free(&journal->lists[i]);
	free(journal->network);
	free(journal->network_done);
	*journal = (struct journal){ .phase = PHASE_NONE };
}

static bool phase_is_pending(enum phase phase)
{
	return phase != PHASE_NONE && phase != PHASE_COMMITTED;
}

bool journal_knows_own(const struct journal *journal)
{
	return journal->own.go_count || journal->own.load.count;
}

/* ---- text */

static int print_text(struct statefile *file, const struct journal_field *field, const char *value)
{
	struct record *record = value ? statefile_add(file, field->kind) : NULL;

	if (!value)
		return 0;
	return record ? record_set(record, field->name, value) : -ENOMEM;
}

static int print_modules(struct statefile *file, const char *kind, const struct swap_plan *plan)
{
	for (size_t i = 0; i < plan->go_count; i++) {
		const struct swap_module *module = &plan->go[i];
		struct record *record = statefile_add(file, kind);

		if (!record || record_set(record, "name", module->name) < 0 ||
			record_set(record, "part", part_words[module->part]) < 0 ||
			(*module->build_id &&
				record_set(record, "build-id", module->build_id) < 0) ||
			(*module->options && record_set(record, "options", module->options) < 0))
			return -ENOMEM;
	}
	return 0;
}

static int print_field(
	struct statefile *file, const struct journal_field *field, const struct journal *journal)
{
	const void *at = (const char *) journal + field->offset;
	const struct strv *list = at;

	switch (field->type) {
	case FIELD_PHASE:
		return print_text(file, field, phase_words[*(const enum phase *) at]);
	case FIELD_FLAG:
		return print_text(file, field, *(const bool *) at ? "1" : NULL);
	case FIELD_TEXT:
		return print_text(file, field, *(char *const *) at);
	case FIELD_MODULES:
		return print_modules(file, field->kind, at);
	case FIELD_LIST:
		break;
	}
	for (size_t i = 0; i < list->count; i++)
		if (print_text(file, field, list->items[i]) < 0)
			return -ENOMEM;
	return 0;
}

int journal_write(int root_fd, const struct journal *journal, struct error *error)
{
	_cleanup_(statefile_free) struct statefile file = { .word = WORD };

	for (size_t i = 0; i < ARRAY_SIZE(journal_fields); i++)
		if (print_field(&file, &journal_fields[i], journal) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	/* The phase is always in it. */
	if (file.count > 1 || journal->phase != PHASE_NONE)
		return statefile_write(root_fd, JOURNAL_PATH, &file, error);
	return unlinkat(root_fd, JOURNAL_PATH, 0) < 0 && errno != ENOENT
		       ? error_set_errno(error, -errno, "/%s", JOURNAL_PATH)
		       : 0;
}

/* One of a later Slipway is as the first, from which recovery does all. */
static enum phase take_phase(const char *name)
{
	for (size_t i = 0; name && i < PHASES; i++)
		if (strcmp(phase_words[i], name) == 0)
			return (enum phase) i;
	return PHASE_UNLOADING;
}

static int take_text(const char *value, char **ret)
{
	if (!value)
		return 0;
	free(*ret);
	*ret = strdup(value);
	return *ret ? 0 : -ENOMEM;
}

static int take_module(const struct record *record, struct swap_plan *plan)
{
	const char *name = record_get(record, "name");
	const char *part = record_get(record, "part");
	const char *build_id = record_get(record, "build-id");
	/* An unknown part is of a later Slipway: it goes and comes back as any other. */
	struct swap_module module = { .part = SWAP_OTHER };
	_cleanup_free_ char *options = NULL;

	if (!name || !*name || strchr(name, '/') || strlen(name) >= sizeof(module.name))
		return -EBADMSG;
	for (size_t i = 0; part && i < ARRAY_SIZE(part_words); i++)
		if (strcmp(part_words[i], part) == 0)
			module.part = (enum swap_part) i;
	(void) snprintf(module.name, sizeof(module.name), "%s", name);
	(void) snprintf(
		module.build_id, sizeof(module.build_id), "%.64s", build_id ? build_id : "");
	if (take_text(record_get(record, "options"), &options) < 0)
		return -ENOMEM;
	module.options = options;
	return swap_plan_add(plan, &module);
}

static int take_field(
	const struct record *record, const struct journal_field *field, struct journal *journal)
{
	void *at = (char *) journal + field->offset;
	const char *value = field->name ? record_get(record, field->name) : NULL;

	switch (field->type) {
	case FIELD_PHASE:
		*(enum phase *) at = take_phase(value);
		return 0;
	case FIELD_FLAG:
		*(bool *) at = value != NULL;
		return 0;
	case FIELD_TEXT:
		return take_text(value, at);
	case FIELD_MODULES:
		return take_module(record, at);
	case FIELD_LIST:
		break;
	}
	return value ? strv_push(at, value) : -EBADMSG;
}

/* A kind that is not known is of a later Slipway. */
static int take_record(const struct record *record, struct journal *journal)
{
	for (size_t i = 0; i < ARRAY_SIZE(journal_fields); i++) {
		int r = 0;

		if (strcmp(record->kind, journal_fields[i].kind) == 0)
			r = take_field(record, &journal_fields[i], journal);
		if (r < 0)
			return r;
	}
	return 0;
}

int journal_read(int root_fd, struct journal *journal, struct error *error)
{
	_cleanup_(statefile_free) struct statefile file = { .word = WORD };
	int r;

	*journal = (struct journal){ .phase = PHASE_NONE };
	if (!fs_exists(root_fd, JOURNAL_PATH))
		return 0;
	r = statefile_read(root_fd, JOURNAL_PATH, &file, error);
	for (size_t i = 0; r == 0 && i < file.count; i++) {
		r = take_record(&file.items[i], journal);
		if (r < 0)
			(void) error_set_errno(error, r, "/%s", JOURNAL_PATH);
	}
	if (r < 0)
		journal_free(journal);
	return r;
}

/* ---- phases */

/* One that is damaged is as good as none: no action hangs on it. */
static int read_or_none(int root_fd, struct journal *journal, struct error *error)
{
	int r = journal_read(root_fd, journal, error);

	return r == -EBADMSG ? 0 : r;
}

enum phase journal_phase(int root_fd)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;

	return journal_read(root_fd, &journal, &ignored) < 0 ? PHASE_NONE : journal.phase;
}

bool journal_is_pending(int root_fd)
{
	return phase_is_pending(journal_phase(root_fd));
}

int journal_write_phase(int root_fd, struct journal *journal, enum phase phase, struct error *error)
{
	int r;

	journal->phase = phase;
	r = journal_write(root_fd, journal, error);
	kill_point("phase:%s", phase_words[phase]);
	return r;
}

int journal_enter(int root_fd, enum phase phase, const struct strv *coming, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct strv *pending = &journal.pending.load;
	struct strv *own = &journal.own.load;
	size_t known;
	int r = journal_read(root_fd, &journal, error);

	if (r < 0)
		return r;
	known = pending->count + own->count;
	if (coming && (nic_push_all(pending, coming) < 0 || nic_push_all(own, coming) < 0))
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	if (journal.phase == phase && pending->count + own->count == known)
		return 0;
	return journal_write_phase(root_fd, &journal, phase, error);
}

int journal_forget_absent(int root_fd, const struct strv *names, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct strv *const lists[] = { &journal.pending.load, &journal.own.load };
	bool is_changed = false;
	int r = journal_read(root_fd, &journal, error);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++)
		for (size_t k = lists[i]->count; k-- > 0;)
			if (strv_contains(names, lists[i]->items[k]) &&
				!sysmodule_exists(root_fd, lists[i]->items[k])) {
				strv_remove(lists[i], k);
				is_changed = true;
			}
	return r == 0 && is_changed ? journal_write(root_fd, &journal, error) : r;
}

/*
 * Modules of @plan that are new came after those already listed, and may depend on them: they are
 * put before them, to be unloaded first and loaded last. A module that the killed container
 * inserted is not added: the rollback does not bring it back.
 */
int journal_merge_pending(
	struct swap_plan *pending, const struct swap_plan *plan, const struct strv *coming)
{
	size_t added = 0;

	for (size_t i = 0; i < plan->go_count; i++)
		if (!swap_plan_find(pending, plan->go[i].name) &&
			!strv_contains(&pending->load, plan->go[i].name) &&
			swap_plan_insert(pending, added++, &plan->go[i]) < 0)
			return -ENOMEM;
	return coming ? nic_push_all(&pending->load, coming) : 0;
}

/*
 * A module whose file the host's tree has is the node's own, whatever was known; of one that
 * another container brought the old entry stays. When nothing was known all of @plan is.
 */
static int merge_own(
	struct journal *journal, const struct swap_plan *plan, struct module_lookup *lookup)
{
	struct swap_plan *own = &journal->own;
	bool known = journal_knows_own(journal);

	for (size_t i = 0; i < plan->go_count; i++) {
		const struct swap_module *module = &plan->go[i];
		struct swap_module *there;

		if (module->part == SWAP_PEERMEM ||
			(known && !module_is_on_host(lookup, module->name, module->build_id)))
			continue;
		if (swap_plan_add(own, module) < 0)
			return -ENOMEM;
		there = swap_plan_find(own, module->name);
		if (there != &own->go[own->go_count - 1]) {
			free(there->options);
			*there = own->go[--own->go_count];
		}
	}
	return 0;
}

int journal_begin(const struct swap_plan *plan, struct module_lookup *lookup, struct error *error)
{
	const struct role *role = lookup->action->role;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_strv_ struct strv coming = { 0 };
	bool is_continued;
	int r = read_or_none(role->root_fd, &journal, error);

	if (r < 0)
		return r;
	is_continued = phase_is_pending(journal.phase);
	if (!is_continued)
		swap_plan_free(&journal.pending);
	/* The modules that this start will insert itself: all that are not there, or go first. */
	for (size_t i = 0; i < plan->load.count; i++)
		if ((swap_plan_find(plan, plan->load.items[i]) ||
			    !sysmodule_exists(role->root_fd, plan->load.items[i])) &&
			strv_push(&coming, plan->load.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	/*
	 * If a killed container left what runs now, the node's own modules are those that it found.
	 */
	if (merge_own(&journal, is_continued ? &journal.pending : plan, lookup) < 0 ||
		nic_push_all(&journal.own.load, &coming) < 0 ||
		journal_merge_pending(&journal.pending, plan, &coming) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	return journal_write_phase(role->root_fd, &journal, PHASE_UNLOADING, error);
}

/*
 * A journal that cannot be read or written is removed: one that still says that a swap is pending
 * would make the next start unload the driver that serves.
 */
static void journal_finish(int root_fd, enum phase phase, bool own_is_back)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;
	bool was_pending;

	if (read_or_none(root_fd, &journal, &ignored) < 0) {
		(void) unlinkat(root_fd, JOURNAL_PATH, 0);
		return;
	}
	was_pending = phase_is_pending(journal.phase);
	if (phase == PHASE_COMMITTED && !was_pending)
		return;
	swap_plan_free(&journal.pending);
	if (own_is_back) {
		swap_plan_free(&journal.plan);
		swap_plan_free(&journal.own);
	}
	if (journal_write_phase(root_fd, &journal, phase, &ignored) < 0 && was_pending)
		(void) unlinkat(root_fd, JOURNAL_PATH, 0);
}

void journal_commit(int root_fd)
{
	journal_finish(root_fd, PHASE_COMMITTED, false);
}

void journal_end(int root_fd, bool own_is_back)
{
	journal_finish(root_fd, PHASE_NONE, own_is_back);
}

int journal_set_list(
	int root_fd, enum journal_list list, const struct strv *lines, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	int r = read_or_none(root_fd, &journal, error);

	if (r < 0 || ((!lines || !lines->count) && !journal.lists[list].count))
		return r;
	strv_free(&journal.lists[list]);
	if (lines && nic_push_all(&journal.lists[list], lines) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	return journal_write(root_fd, &journal, error);
}

int journal_set_network(int root_fd, const char *path, const char *done, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	int r = read_or_none(root_fd, &journal, error);

	if (r < 0)
		return r;
	free(TAKE_PTR(journal.network));
	free(TAKE_PTR(journal.network_done));
	if (take_text(path, &journal.network) < 0 || take_text(done, &journal.network_done) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	return journal_write(root_fd, &journal, error);
}

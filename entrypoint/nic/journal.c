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
static const char *const parts[] = {
	[SWAP_DRIVER] = "ours",
	[SWAP_STORAGE] = "storage",
	[SWAP_THIRD_PARTY] = "third-party",
	[SWAP_AUXILIARY] = "auxiliary",
	[SWAP_PEERMEM] = "peermem",
	[SWAP_OTHER] = "other",
};

static const char *const phases[PHASES] = {
	[PHASE_NONE] = "none",
	[PHASE_UNLOADING] = "unloading",
	[PHASE_LOADING] = "loading",
	[PHASE_DEPENDENTS] = "dependents",
	[PHASE_RESTORING] = "restoring",
	[PHASE_COMMITTED] = "committed",
	[PHASE_ROLLBACK] = "rollback",
};

/* Records of one field, each an item of a list. */
static const struct {
	const char *kind;
	const char *field;
	size_t offset;
} lists[] = {
	{ "load", "name", offsetof(struct journal, pending.load) },
	{ "inserted", "name", offsetof(struct journal, own.load) },
	{ "plan-load", "name", offsetof(struct journal, plan.load) },
	{ "missing", "text", offsetof(struct journal, lists[JOURNAL_MISSING]) },
	{ "unrestored", "text", offsetof(struct journal, lists[JOURNAL_UNRESTORED]) },
	{ "outcome", "text", offsetof(struct journal, lists[JOURNAL_OUTCOME]) },
};

/* Records of modules, each in a plan's go. */
static const struct {
	const char *kind;
	size_t offset;
} plans[] = {
	{ "go", offsetof(struct journal, pending) },
	{ "own", offsetof(struct journal, own) },
	{ "plan-go", offsetof(struct journal, plan) },
};

const char *swap_part_name(enum swap_part part)
{
	return parts[part];
}

const char *phase_name(enum phase phase)
{
	return phases[phase];
}

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

bool swap_plan_has_driver(const struct swap_plan *plan)
{
	for (size_t i = 0; i < plan->go_count; i++)
		if (plan->go[i].part == SWAP_DRIVER)
			return true;
	return false;
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

static bool is_pending(enum phase phase)
{
	return phase != PHASE_NONE && phase != PHASE_COMMITTED;
}

bool journal_knows_own(const struct journal *journal)
{
	return journal->own.go_count || journal->own.load.count;
}

/* ---- text */

static int print_text(
	struct statefile *file, const char *kind, const char *field, const char *value)
{
	struct record *record = statefile_add(file, kind);

	return record ? record_set(record, field, value) : -ENOMEM;
}

static int print_module(struct statefile *file, const char *kind, const struct swap_module *module)
{
	struct record *record = statefile_add(file, kind);

	if (!record || record_set(record, "name", module->name) < 0 ||
		record_set(record, "part", swap_part_name(module->part)) < 0 ||
		(*module->build_id && record_set(record, "build-id", module->build_id) < 0) ||
		(*module->options && record_set(record, "options", module->options) < 0))
		return -ENOMEM;
	return 0;
}

static int print_journal(struct statefile *file, const struct journal *journal)
{
	if (print_text(file, "phase", "name", phase_name(journal->phase)) < 0 ||
		(journal->plan.same && print_text(file, "plan", "same", "1") < 0))
		return -ENOMEM;
	if (journal->network || journal->network_done) {
		struct record *record = statefile_add(file, "network");

		if (!record ||
			(journal->network && record_set(record, "path", journal->network) < 0) ||
			(journal->network_done &&
				record_set(record, "done", journal->network_done) < 0))
			return -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		const void *at = (const char *) journal + plans[i].offset;
		const struct swap_plan *plan = at;

		for (size_t j = 0; j < plan->go_count; j++)
			if (print_module(file, plans[i].kind, &plan->go[j]) < 0)
				return -ENOMEM;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const void *at = (const char *) journal + lists[i].offset;
		const struct strv *list = at;

		for (size_t j = 0; j < list->count; j++)
			if (print_text(file, lists[i].kind, lists[i].field, list->items[j]) < 0)
				return -ENOMEM;
	}
	return 0;
}

int journal_write(int root_fd, const struct journal *journal, struct error *error)
{
	_cleanup_(statefile_free) struct statefile file = { .word = WORD };

	if (print_journal(&file, journal) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	if (file.count > 1 || journal->phase != PHASE_NONE)
		return statefile_write(root_fd, JOURNAL_PATH, &file, error);
	return unlinkat(root_fd, JOURNAL_PATH, 0) < 0 && errno != ENOENT
		       ? error_set_errno(error, -errno, "/%s", JOURNAL_PATH)
		       : 0;
}

static int take_module(const struct record *record, struct swap_plan *plan)
{
	const char *name = record_get(record, "name");
	const char *part = record_get(record, "part");
	const char *build_id = record_get(record, "build-id");
	const char *options = record_get(record, "options");
	/* An unknown part is of a later Slipway: it goes and comes back as any other. */
	struct swap_module module = { .part = SWAP_OTHER };
	_cleanup_free_ char *copy = strdup(options ? options : "");

	if (!copy)
		return -ENOMEM;
	if (!name || !*name || strchr(name, '/') || strlen(name) >= sizeof(module.name))
		return -EBADMSG;
	for (size_t i = 0; part && i < ARRAY_SIZE(parts); i++)
		if (strcmp(parts[i], part) == 0)
			module.part = (enum swap_part) i;
	(void) snprintf(module.name, sizeof(module.name), "%s", name);
	(void) snprintf(
		module.build_id, sizeof(module.build_id), "%.64s", build_id ? build_id : "");
	module.options = copy;
	return swap_plan_add(plan, &module);
}

static int take_copy(const char *value, char **ret)
{
	if (!value)
		return 0;
	free(*ret);
	*ret = strdup(value);
	return *ret ? 0 : -ENOMEM;
}

static int take_record(const struct record *record, struct journal *journal)
{
	const char *name = record_get(record, "name");

	if (strcmp(record->kind, "phase") == 0) {
		/* One of a later Slipway: as from the first, from which recovery does all. */
		journal->phase = PHASE_UNLOADING;
		for (size_t i = 0; name && i < PHASES; i++)
			if (strcmp(phases[i], name) == 0)
				journal->phase = (enum phase) i;
		return 0;
	}
	if (strcmp(record->kind, "plan") == 0) {
		journal->plan.same = record_get(record, "same") != NULL;
		return 0;
	}
	if (strcmp(record->kind, "network") == 0) {
		int r = take_copy(record_get(record, "path"), &journal->network);

		return r < 0 ? r : take_copy(record_get(record, "done"), &journal->network_done);
	}
	for (size_t i = 0; i < ARRAY_SIZE(plans); i++)
		if (strcmp(record->kind, plans[i].kind) == 0)
			return take_module(record, (void *) ((char *) journal + plans[i].offset));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (strcmp(record->kind, lists[i].kind) == 0) {
			const char *value = record_get(record, lists[i].field);

			return value ? strv_push(
					       (void *) ((char *) journal + lists[i].offset), value)
				     : -EBADMSG;
		}
	return 0; /* of a later version */
}

static int read_file(int root_fd, const char *path, const char *word, struct journal *journal,
	struct error *error)
{
	_cleanup_(statefile_free) struct statefile file = { .word = word };
	int r = statefile_read(root_fd, path, &file, error);

	for (size_t i = 0; r == 0 && i < file.count; i++) {
		r = take_record(&file.items[i], journal);
		if (r < 0)
			(void) error_set_errno(error, r, "/%s", path);
	}
	if (r < 0)
		journal_free(journal);
	return r;
}

int journal_read(int root_fd, struct journal *journal, struct error *error)
{
	*journal = (struct journal){ .phase = PHASE_NONE };
	return fs_exists(root_fd, JOURNAL_PATH)
		       ? read_file(root_fd, JOURNAL_PATH, WORD, journal, error)
		       : 0;
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
	return is_pending(journal_phase(root_fd));
}

int journal_write_phase(int root_fd, struct journal *journal, enum phase phase, struct error *error)
{
	int r;

	journal->phase = phase;
	r = journal_write(root_fd, journal, error);
	kill_point("phase:%s", phase_name(phase));
	return r;
}

int journal_enter(int root_fd, enum phase phase, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	int r = journal_read(root_fd, &journal, error);

	if (r < 0 || journal.phase == phase)
		return r;
	return journal_write_phase(root_fd, &journal, phase, error);
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
 * another container brought the old entry stays.
 */
int journal_merge_own(struct swap_plan *own, const struct swap_plan *plan, bool known,
	struct module_lookup *lookup)
{
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

int journal_begin(const struct role *role, const struct swap_plan *plan,
	struct module_lookup *lookup, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_strv_ struct strv coming = { 0 };
	bool is_continued;
	int r = read_or_none(role->root_fd, &journal, error);

	if (r < 0)
		return r;
	is_continued = is_pending(journal.phase);
	if (!is_continued)
		swap_plan_free(&journal.pending);
	/* What this start will insert itself: all that is not there, or goes first. */
	for (size_t i = 0; r == 0 && i < plan->load.count; i++)
		if (swap_plan_find(plan, plan->load.items[i]) ||
			!sysmodule_exists(role->root_fd, plan->load.items[i]))
			r = strv_push(&coming, plan->load.items[i]);
	/* What runs is what the killed container left: the node's own is what that one found. */
	if (r == 0)
		r = journal_merge_own(&journal.own, is_continued ? &journal.pending : plan,
			journal_knows_own(&journal), lookup);
	if (r == 0)
		r = nic_push_all(&journal.own.load, &coming);
	if (r == 0)
		r = journal_merge_pending(&journal.pending, plan, &coming);
	if (r < 0)
		return error_set_errno(error, r, "/%s", JOURNAL_PATH);
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
	was_pending = is_pending(journal.phase);
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
	if (take_copy(path, &journal.network) < 0 || take_copy(done, &journal.network_done) < 0)
		return error_set_errno(error, -ENOMEM, "/%s", JOURNAL_PATH);
	return journal_write(root_fd, &journal, error);
}

/* ---- what an older Slipway left */

#define OLD(name) NIC_STATE_FOLDER "/nic." name

/* In the order in which they are removed: what makes a swap pending goes last. */
static const char *const old_files[] = { OLD("plan"), OLD("way-back"), OLD("missing"),
	OLD("unrestored"), OLD("journal"), OLD("journal-done"), OLD("settled"), OLD("inbox"),
	OLD("swap") };

/* Empty where it is absent or damaged. -ENOMEM. */
static int read_old_plan(int root_fd, const char *path, struct journal *old)
{
	struct error ignored;

	return read_file(root_fd, path, "slipway-modules", old, &ignored) == -ENOMEM ? -ENOMEM : 0;
}

static int read_old_list(int root_fd, const char *path, struct strv *list)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, path, (size_t) 1 << 20, &text, NULL);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	strv_free(list);
	return strv_split(list, text, "\n");
}

static int read_old_line(int root_fd, const char *path, char **ret)
{
	_cleanup_free_ char *line = NULL;
	int r = fs_read_line(root_fd, path, &line);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	free(*ret);
	*ret = *line ? TAKE_PTR(line) : NULL;
	return 0;
}

/* Adding what is there already changes nothing: this may have been killed half-way. */
static int merge_old(int root_fd, struct journal *journal)
{
	_cleanup_journal_ struct journal old_swap = { 0 };
	_cleanup_journal_ struct journal old_inbox = { 0 };
	const struct swap_plan *swap = &old_swap.pending;
	const struct swap_plan *inbox = &old_inbox.pending;
	bool knew_own = journal_knows_own(journal);
	int r = read_old_plan(root_fd, OLD("swap"), &old_swap);

	if (r == 0)
		r = read_old_plan(root_fd, OLD("inbox"), &old_inbox);
	if (r == 0)
		r = journal_merge_pending(&journal->pending, swap, &swap->load);
	/* A list that knew more than the older image did stays as it is. */
	for (size_t i = 0; r == 0 && !knew_own && i < inbox->go_count; i++)
		r = swap_plan_add(&journal->own, &inbox->go[i]);
	if (r == 0)
		r = nic_push_all(&journal->own.load, &inbox->load);
	if (r == 0)
		r = read_old_list(root_fd, OLD("missing"), &journal->lists[JOURNAL_MISSING]);
	if (r == 0)
		r = read_old_list(root_fd, OLD("unrestored"), &journal->lists[JOURNAL_UNRESTORED]);
	if (r == 0)
		r = read_old_line(root_fd, OLD("journal"), &journal->network);
	if (r == 0)
		r = read_old_line(root_fd, OLD("journal-done"), &journal->network_done);
	if (r < 0)
		return r;
	/* Which step it was killed in was not recorded: recovery does all from the first on. */
	if (swap->load.count || swap->go_count)
		journal->phase = PHASE_UNLOADING;
	else if (journal->phase == PHASE_NONE && fs_exists(root_fd, OLD("settled")))
		journal->phase = PHASE_COMMITTED;
	return 0;
}

int journal_adopt_old(int root_fd, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	bool is_there = false;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(old_files); i++)
		is_there |= fs_exists(root_fd, old_files[i]);
	if (!is_there)
		return 0;
	r = read_or_none(root_fd, &journal, error);
	if (r < 0)
		return r;
	r = merge_old(root_fd, &journal);
	if (r < 0)
		return error_set_errno(error, r, "/%s", JOURNAL_PATH);
	r = journal_write(root_fd, &journal, error);
	kill_point("adopt:written");
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(old_files); i++)
		(void) unlinkat(root_fd, old_files[i], 0);
	return 0;
}

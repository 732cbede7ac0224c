/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the modules that run while it serves still those that it loaded? Another process on the node
 * may unload them, or put the host's own in their place. That is reported (DRIVER_REPLACED), and
 * nothing is done about it: what did it may be at work still, and the operator's liveness probe
 * ends a container without mlx5_core.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/parameters.h"
#include "module/running.h"

/* The kernel reports a module's end before its folder is gone. */
#define SETTLE_MS 250

/* In the status, which is for people; the rest is in the report. */
#define DETAIL_NAMED 4

/* Another one each time that a module is loaded: the serial number of its folder in sysfs. */
static unsigned long long load_number(int root_fd, const char *module)
{
	struct stat status;
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%.100s", module);
	return fstatat(root_fd, path, &status, 0) < 0 ? 0 : (unsigned long long) status.st_ino;
}

/* Adds to @changed what became of it, if anything. */
static int check_module(int root_fd, const struct nic_watched *module, struct strv *changed)
{
	char build_id[BUILD_ID_HEX_SIZE];

	if (!sysmodule_is_live(root_fd, module->name))
		return strv_pushf(changed, "%s: no longer loaded", module->name);
	/* This happens at every module that comes or goes on the node, whosesoever it is. */
	if (load_number(root_fd, module->name) == module->load)
		return 0;
	sysmodule_build_id(root_fd, module->name, build_id);
	return strv_pushf(changed, "%s: %s", module->name,
		strcmp(build_id, module->build_id) == 0 ? "reloaded, in the same build"
							: "another build is loaded now");
}

static int fill_report(const struct nic *nic, struct nic_report *report)
{
	const struct swap_plan *swap = &nic->swap;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_strv_ struct strv loaded = { 0 };
	struct strv *lists = report->lists;
	struct error ignored;

	(void) snprintf(report->mode, sizeof(report->mode), "%s", nic_mode_name(nic->inputs.mode));
	(void) snprintf(report->swap, sizeof(report->swap), "%s",
		swap->same       ? "same"
		: swap->go_count ? "swapped"
				 : "loaded");
	if (journal_read(nic->role.root_fd, &journal, &ignored) == -ENOMEM ||
		role_list_read(&nic->role, ROLE_PARAMETERS_LIST, &loaded) == -ENOMEM ||
		swap_plan_going(swap, &lists[NIC_REPORT_UNLOADED]) < 0 ||
		nic_push_all(&lists[NIC_REPORT_MISSING], &nic->watch.missing) < 0 ||
		nic_push_all(&lists[NIC_REPORT_UNRESTORED], &journal.lists[JOURNAL_UNRESTORED]) <
			0 ||
		nic_push_all(&lists[NIC_REPORT_REPLACED], &nic->watch.changed) < 0)
		return -ENOMEM;
	/* List the modules that were loaded with parameters. */
	for (size_t i = 0; i < loaded.count; i++) {
		const char *options = strchr(loaded.items[i], ' ');

		if (options && options[1] &&
			strv_push(&lists[NIC_REPORT_PARAMETERS], loaded.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* "of 7: a; b; c; d …" */
static void describe_lines(const char *what, const struct strv *lines, char *text, size_t size)
{
	size_t used = (size_t) snprintf(text, size, "%s", what);

	for (size_t i = 0; i < lines->count && i < DETAIL_NAMED && used < size; i++)
		used += (size_t) snprintf(
			text + used, size - used, "%s%s", i ? "; " : ": ", lines->items[i]);
	if (lines->count > DETAIL_NAMED && used < size)
		(void) snprintf(
			text + used, size - used, "; and %zu more", lines->count - DETAIL_NAMED);
}

#define CHANGED "another process changed what this container loaded"

/* For the status, the worst of it as a sentence; and for metrics. */
static void publish_report(struct nic *nic)
{
	static const struct {
		enum nic_report_list list;
		enum reason reason;
		const char *what;
	} kinds[] = {
		{ NIC_REPORT_REPLACED, REASON_DRIVER_REPLACED, CHANGED },
		{ NIC_REPORT_UNRESTORED, REASON_NETWORK_INCOMPLETE,
			"part of the network's state could not be restored" },
		{ NIC_REPORT_MISSING, REASON_NONE, "modules that could not be reloaded" },
	};
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	enum reason reason = REASON_NONE;
	char text[ERROR_TEXT_SIZE] = "";

	if (fill_report(nic, &report) < 0)
		return;
	(void) nic_report_write(nic->role.root_fd, &report); /* no step waits for it */
	for (size_t i = 0; !*text && i < ARRAY_SIZE(kinds); i++)
		if (report.lists[kinds[i].list].count) {
			describe_lines(
				kinds[i].what, &report.lists[kinds[i].list], text, sizeof(text));
			reason = kinds[i].reason;
		}
	log_detail(&nic->role.log, reason, text);
}

/* Takes out what is there by now, as a person has loaded it. Returns whether anything was. */
static bool drop_missing(struct nic *nic)
{
	struct strv *missing = &nic->watch.missing;
	size_t before = missing->count;

	for (size_t i = before; i-- > 0;) {
		char name[64];

		/* "ib_iser: why" */
		(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(missing->items[i], ":"),
			missing->items[i]);
		if (sysmodule_is_live(nic->role.root_fd, name))
			strv_remove(missing, i);
	}
	return missing->count < before;
}

static void read_missing(struct nic *nic)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;

	strv_free(&nic->watch.missing);
	if (journal_read(nic->role.root_fd, &journal, &ignored) == 0)
		(void) !nic_push_all(&nic->watch.missing, &journal.lists[JOURNAL_MISSING]);
	(void) drop_missing(nic);
}

static void check_watched(struct nic *nic)
{
	_cleanup_strv_ struct strv changed = { 0 };
	struct strv *known = &nic->watch.changed;
	struct log *log = &nic->role.log;
	char text[ERROR_TEXT_SIZE];
	bool is_same;

	if (drop_missing(nic))
		publish_report(nic);
	for (size_t i = 0; i < nic->watch.count; i++)
		if (check_module(nic->role.root_fd, &nic->watch.modules[i], &changed) < 0)
			return;
	is_same = changed.count == known->count;
	for (size_t i = 0; is_same && i < changed.count; i++)
		is_same = strcmp(changed.items[i], known->items[i]) == 0;
	if (is_same)
		return;
	strv_free(known);
	*known = changed;
	changed = (struct strv){ 0 };
	if (known->count) {
		describe_lines(CHANGED, known, text, sizeof(text));
		log_event(log, "replaced", "watch", 0, REASON_DRIVER_REPLACED, text);
	} else {
		log_event(log, "note", "watch", 0, REASON_NONE,
			"the loaded modules are again those that this container loaded");
	}
	publish_report(nic);
}

/* Not what they need of the kernel's. */
static void watch_modules(struct nic *nic)
{
	const struct strv *set = &nic->role.driver_modules;
	struct nic_watch *watch = &nic->watch;
	int root_fd = nic->role.root_fd;

	free(watch->modules);
	watch->count = 0;
	watch->modules = calloc(set->count + 1, sizeof(*watch->modules));
	for (size_t i = 0; watch->modules && i < set->count; i++) {
		struct nic_watched *module = &watch->modules[watch->count];

		if (!strv_contains(&nic->swap.load, set->items[i]) ||
			!sysmodule_is_live(root_fd, set->items[i]))
			continue;
		(void) snprintf(module->name, sizeof(module->name), "%s", set->items[i]);
		sysmodule_build_id(root_fd, module->name, module->build_id);
		module->load = load_number(root_fd, module->name);
		watch->count++;
	}
}

void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct nic *nic = nic_of(role);
	uint64_t now_ms = clock_monotonic_ms();

	if (!happened) {
		watch_modules(nic);
		read_missing(nic);
		publish_report(nic);
		return;
	}
	if (happened & EVENT_KERNEL)
		nic->watch.settled_ms = now_ms + SETTLE_MS;
	if (!nic->watch.settled_ms)
		return;
	check_watched(nic);
	if (now_ms >= nic->watch.settled_ms)
		nic->watch.settled_ms = 0;
	else if (nic->watch.settled_ms < *wake_ms)
		*wake_ms = nic->watch.settled_ms;
}

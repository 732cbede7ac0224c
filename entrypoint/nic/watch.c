/* SPDX-License-Identifier: Apache-2.0 */
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

#define REPORT_LIMIT ((size_t) 1024 * 1024)

/* The kernel reports a module's end before its folder is gone. */
#define SETTLE_MS 250

/* In the status, which is for people; the rest is in the report. */
#define DETAIL_NAMED 4

/* ---- the report, for status and metrics */

static const char *const keys[] = {
	[NIC_REPORT_WENT] = "went",
	[NIC_REPORT_MISSING] = "missing",
	[NIC_REPORT_UNRESTORED] = "unrestored",
	[NIC_REPORT_PARAMETERS] = "parameters",
	[NIC_REPORT_REPLACED] = "replaced",
};

const char *nic_report_key(enum nic_report_list list)
{
	return keys[list];
}

void nic_report_free(struct nic_report *report)
{
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		strv_free(&report->lists[i]);
	*report = (struct nic_report){ .mode = "" };
}

/* The value behind "key=", or NULL. */
static const char *value_of(const char *line, const char *key)
{
	size_t length = strlen(key);

	return strncmp(line, key, length) == 0 && line[length] == '=' ? line + length + 1 : NULL;
}

int nic_report_read(int root_fd, struct nic_report *report)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, NIC_REPORT_PATH, REPORT_LIMIT, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; r == 0 && i < lines.count; i++) {
		const char *value = value_of(lines.items[i], "mode");

		if (value)
			(void) snprintf(report->mode, sizeof(report->mode), "%s", value);
		else if ((value = value_of(lines.items[i], "swap")))
			(void) snprintf(report->swap, sizeof(report->swap), "%s", value);
		for (size_t j = 0; r == 0 && j < NIC_REPORT_LISTS; j++)
			if ((value = value_of(lines.items[i], keys[j])))
				r = strv_push(&report->lists[j], value);
	}
	return r;
}

/* A message of the kernel's may have more than one line. */
static void print_value(FILE *file, const char *key, const char *value)
{
	(void) fprintf(file, "%s=", key);
	for (; *value; value++)
		(void) fputc(*value == '\n' ? ' ' : *value, file);
	(void) fputc('\n', file);
}

int nic_report_write(int root_fd, const struct nic_report *report)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return -ENOMEM;
	print_value(file, "mode", report->mode);
	print_value(file, "swap", report->swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		for (size_t j = 0; j < report->lists[i].count; j++)
			print_value(file, keys[i], report->lists[i].items[j]);
	if (fclose(file) != 0)
		return -ENOMEM;
	return fs_write_atomic(root_fd, NIC_REPORT_PATH, text, size, 0644);
}

void nic_report_remove(int root_fd)
{
	(void) unlinkat(root_fd, NIC_REPORT_PATH, 0);
}

/* ---- the watch */

/* Another one each time that a module is loaded: the serial number of its folder in sysfs. */
static unsigned long long load_number(int root_fd, const char *module)
{
	struct stat status;
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%.100s", module);
	return fstatat(root_fd, path, &status, 0) < 0 ? 0 : (unsigned long long) status.st_ino;
}

static int push_module(int root_fd, const char *module, struct strv *lines)
{
	char build_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(root_fd, module, build_id);
	return strv_pushf(lines, "%s %s %llu", module, *build_id ? build_id : "-",
		load_number(root_fd, module));
}

/* Adds to @changed what became of the module of such a line, if anything. */
static int compare_line(int root_fd, const char *line, struct strv *changed)
{
	_cleanup_strv_ struct strv now = { 0 };
	size_t name_length = strcspn(line, " ");
	size_t build_length = name_length + 1 + strcspn(line + name_length + 1, " ");
	const char *number = strrchr(line, ' ');
	char name[64];
	int r;

	(void) snprintf(name, sizeof(name), "%.*s", (int) name_length, line);
	if (!sysmodule_is_live(root_fd, name))
		return strv_pushf(changed, "%s: it is not loaded any more", name);
	/* This happens at every module that comes or goes on the node, whosesoever it is. */
	if (number && strtoull(number, NULL, 10) == load_number(root_fd, name))
		return 0;
	r = push_module(root_fd, name, &now);
	if (r < 0 || strcmp(now.items[0], line) == 0)
		return r;
	if (strncmp(now.items[0], line, build_length + 1) == 0)
		return strv_pushf(changed, "%s: it was loaded anew, the same build", name);
	return strv_pushf(changed, "%s: it is another build now", name);
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
		swap_plan_going(swap, &lists[NIC_REPORT_WENT]) < 0 ||
		nic_push_all(&lists[NIC_REPORT_MISSING], &journal.lists[JOURNAL_MISSING]) < 0 ||
		nic_push_all(&lists[NIC_REPORT_UNRESTORED], &journal.lists[JOURNAL_UNRESTORED]) <
			0 ||
		nic_push_all(&lists[NIC_REPORT_REPLACED], &nic->watch.changed) < 0)
		return -ENOMEM;
	/* Of those that were loaded with parameters. */
	for (size_t i = 0; i < loaded.count; i++) {
		const char *options = strchr(loaded.items[i], ' ');

		if (options && options[1] &&
			strv_push(&lists[NIC_REPORT_PARAMETERS], loaded.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* "of 7: a; b; c; d …" */
static void describe(const char *what, const struct strv *lines, char *text, size_t size)
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
static void publish(struct nic *nic)
{
	static const struct {
		enum nic_report_list list;
		enum reason reason;
		const char *what;
	} kinds[] = {
		{ NIC_REPORT_REPLACED, REASON_DRIVER_REPLACED, CHANGED },
		{ NIC_REPORT_UNRESTORED, REASON_NETWORK_INCOMPLETE,
			"part of the network's state did not come back" },
		{ NIC_REPORT_MISSING, REASON_NONE, "modules that did not come back" },
	};
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	enum reason reason = REASON_NONE;
	char text[ERROR_TEXT_SIZE] = "";

	if (fill_report(nic, &report) < 0)
		return;
	(void) nic_report_write(nic->role.root_fd, &report); /* no step waits for it */
	for (size_t i = 0; !*text && i < ARRAY_SIZE(kinds); i++)
		if (report.lists[kinds[i].list].count) {
			describe(kinds[i].what, &report.lists[kinds[i].list], text, sizeof(text));
			reason = kinds[i].reason;
		}
	log_detail(&nic->role.log, reason, text);
}

static void look_again(struct nic *nic)
{
	_cleanup_strv_ struct strv changed = { 0 };
	struct strv *known = &nic->watch.changed;
	struct log *log = &nic->role.log;
	char text[ERROR_TEXT_SIZE];
	bool is_same;

	for (size_t i = 0; i < nic->watch.modules.count; i++)
		if (compare_line(nic->role.root_fd, nic->watch.modules.items[i], &changed) < 0)
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
		describe(CHANGED, known, text, sizeof(text));
		log_event(log, "replaced", "watch", 0, REASON_DRIVER_REPLACED, text);
	} else {
		log_event(log, "note", "watch", 0, REASON_NONE,
			"what runs is again what this container loaded");
	}
	publish(nic);
}

void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct nic *nic = nic_of(role);
	const struct strv *set = &role->driver_modules;
	uint64_t now_ms = clock_monotonic_ms();

	if (!happened) {
		strv_free(&nic->watch.modules);
		/* Not what they need of the kernel's. */
		for (size_t i = 0; i < set->count; i++)
			if (strv_contains(&nic->swap.load, set->items[i]) &&
				sysmodule_is_live(role->root_fd, set->items[i]) &&
				push_module(role->root_fd, set->items[i], &nic->watch.modules) < 0)
				return;
		publish(nic);
		return;
	}
	if (happened & EVENT_KERNEL)
		nic->watch.settled_ms = now_ms + SETTLE_MS;
	if (!nic->watch.settled_ms)
		return;
	look_again(nic);
	if (now_ms >= nic->watch.settled_ms)
		nic->watch.settled_ms = 0;
	else if (nic->watch.settled_ms < *wake_ms)
		*wake_ms = nic->watch.settled_ms;
}

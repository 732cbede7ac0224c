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
#include "module/sysmodule.h"

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

static int take_line(const char *line, struct nic_report *report)
{
	const char *value;

	if ((value = value_of(line, "mode")))
		(void) snprintf(report->mode, sizeof(report->mode), "%s", value);
	else if ((value = value_of(line, "swap")))
		(void) snprintf(report->swap, sizeof(report->swap), "%s", value);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		if ((value = value_of(line, keys[i])))
			return strv_push(&report->lists[i], value);
	return 0;
}

int nic_report_read(int root_fd, struct nic_report *report)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, NIC_REPORT_PATH, REPORT_LIMIT, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; r == 0 && i < lines.count; i++)
		r = take_line(lines.items[i], report);
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

void nic_watch_free(struct nic_watch *watch)
{
	strv_free(&watch->modules);
	strv_free(&watch->changed);
}

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

/* Of the image's own: what they need of the kernel's is the kernel's. */
static int list_modules(const struct nic *nic, struct strv *lines)
{
	int root_fd = nic->role.root_fd;
	int r = 0;

	for (size_t i = 0; r == 0 && i < nic->role.driver_modules.count; i++) {
		const char *name = nic->role.driver_modules.items[i];

		if (strv_contains(&nic->swap.load, name) && sysmodule_is_live(root_fd, name))
			r = push_module(root_fd, name, lines);
	}
	return r;
}

/* Says what became of the module of such a line; "" when it is as it was. */
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

static int copy_list(const struct strv *from, struct strv *to)
{
	for (size_t i = 0; i < from->count; i++)
		if (strv_push(to, from->items[i]) < 0)
			return -ENOMEM;
	return 0;
}

/* Lines with something behind the module's name. */
static int copy_parameters(const struct role *role, struct strv *to)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = role_list_read(role, ROLE_PARAMETERS_LIST, &lines);

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; r == 0 && i < lines.count; i++) {
		const char *options = strchr(lines.items[i], ' ');

		if (options && options[1])
			r = strv_push(to, lines.items[i]);
	}
	return r;
}

static int fill_report(const struct nic *nic, struct nic_report *report)
{
	const struct swap_plan *swap = &nic->swap;
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;
	int r = swap_plan_going(swap, &report->lists[NIC_REPORT_WENT]);

	(void) snprintf(report->mode, sizeof(report->mode), "%s", nic_mode_name(nic->inputs.mode));
	(void) snprintf(report->swap, sizeof(report->swap), "%s",
		swap->same       ? "same"
		: swap->go_count ? "swapped"
				 : "loaded");
	if (r == 0 && journal_read(nic->role.root_fd, &journal, &ignored) == -ENOMEM)
		r = -ENOMEM;
	if (r == 0)
		r = copy_list(&journal.lists[JOURNAL_MISSING], &report->lists[NIC_REPORT_MISSING]);
	if (r == 0)
		r = copy_list(
			&journal.lists[JOURNAL_UNRESTORED], &report->lists[NIC_REPORT_UNRESTORED]);
	if (r == 0)
		r = copy_parameters(&nic->role, &report->lists[NIC_REPORT_PARAMETERS]);
	return r < 0 ? r : copy_list(&nic->watch.changed, &report->lists[NIC_REPORT_REPLACED]);
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

/* The worst comes first; each is a sentence for the status. */
static enum reason judge(const struct nic_report *report, char *text, size_t size)
{
	static const struct {
		enum nic_report_list list;
		enum reason reason;
		const char *what;
	} kinds[] = {
		{ NIC_REPORT_REPLACED, REASON_DRIVER_REPLACED,
			"somebody changed what this container loaded" },
		{ NIC_REPORT_UNRESTORED, REASON_NETWORK_INCOMPLETE,
			"part of the network's state did not come back" },
		{ NIC_REPORT_MISSING, REASON_NONE, "modules that did not come back" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (report->lists[kinds[i].list].count) {
			describe(kinds[i].what, &report->lists[kinds[i].list], text, size);
			return kinds[i].reason;
		}
	*text = '\0';
	return REASON_NONE;
}

static void publish(struct nic *nic)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	struct log *log = &nic->role.log;
	char text[ERROR_TEXT_SIZE];
	enum reason reason;

	if (fill_report(nic, &report) < 0)
		return;
	(void) nic_report_write(nic->role.root_fd, &report); /* nobody waits for it */
	reason = judge(&report, text, sizeof(text));
	log_detail(log, reason, text);
}

static bool is_same_list(const struct strv *one, const struct strv *other)
{
	if (one->count != other->count)
		return false;
	for (size_t i = 0; i < one->count; i++)
		if (strcmp(one->items[i], other->items[i]) != 0)
			return false;
	return true;
}

static void log_changed(struct nic *nic)
{
	struct log *log = &nic->role.log;
	char text[ERROR_TEXT_SIZE];

	if (nic->watch.changed.count) {
		describe("somebody changed what this container loaded", &nic->watch.changed, text,
			sizeof(text));
		log_event(log, "replaced", "watch", 0, REASON_DRIVER_REPLACED, text);
	} else {
		log_event(log, "note", "watch", 0, REASON_NONE,
			"what runs is again what this container loaded");
	}
}

static void look_again(struct nic *nic)
{
	_cleanup_strv_ struct strv changed = { 0 };

	for (size_t i = 0; i < nic->watch.modules.count; i++)
		if (compare_line(nic->role.root_fd, nic->watch.modules.items[i], &changed) < 0)
			return;
	if (is_same_list(&changed, &nic->watch.changed))
		return;
	strv_free(&nic->watch.changed);
	nic->watch.changed = changed;
	changed = (struct strv){ 0 };
	log_changed(nic);
	publish(nic);
}

void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct nic *nic = nic_of(role);
	uint64_t now_ms = clock_monotonic_ms();

	if (!happened) {
		strv_free(&nic->watch.modules);
		if (list_modules(nic, &nic->watch.modules) == 0)
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

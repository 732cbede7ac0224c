/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what the NIC role says of itself while it serves: report, status and metrics. */
#include "tests/unit/nic_parameters.h"
#include "tests/unit/node_folder.h"

#include <sys/file.h>

#include "common/clock.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/status/status.h"
#include "entrypoint/status/status_internal.h"

static void load(const struct folder *folder, const char *name, unsigned char build)
{
	folder_module(folder, name, "0\n", NULL);
	write_note(folder, name, build);
}

/* As the kernel does it: a folder of its own each time. */
static void unload(const struct folder *folder, const char *name)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%s", name);
	assert_int_equal(fs_remove_tree(folder->fd, path), 0);
}

static void serve(struct nic *nic, const struct folder *folder)
{
	static const char *const set[] = { "ib_core", "mlx5_core", "mlx5_vdpa" };
	struct role *role = &nic->role;
	uint64_t wake_ms = EVENTS_NEVER;
	struct error error;

	*nic = (struct nic){ .role = { .name = "nic", .state_folder = NIC_STATE_FOLDER } };
	role->root_fd = folder->fd;
	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		assert_int_equal(strv_push(&role->driver_modules, set[i]), 0);
	assert_int_equal(strv_push(&nic->swap.load, "psample"), 0); /* the kernel's own */
	assert_int_equal(strv_push(&nic->swap.load, "ib_core"), 0);
	assert_int_equal(strv_push(&nic->swap.load, "mlx5_core"), 0);
	assert_int_equal(nic_inputs_read(&nic->inputs, folder->fd, NULL, &error), 0);
	log_prepare(&role->log, folder->fd, "nic", NIC_STATE_FOLDER);
	log_open(&role->log);
	role->log.changed = metrics_changed;
	load(folder, "psample", 1);
	load(folder, "ib_core", 2);
	load(folder, "mlx5_core", 3);
	load(folder, "mlx5_vdpa", 4);
	log_state(&role->log, "ready", "");
	nic_watch(role, 0, &wake_ms);
	assert_int_equal(wake_ms, EVENTS_NEVER);
}

static void leave(struct nic *nic)
{
	log_close(&nic->role.log);
	nic_free(nic);
	strv_free(&nic->role.driver_modules);
}

#define _cleanup_nic_ _cleanup_(leave)

static void kernel_reports(struct nic *nic)
{
	uint64_t wake_ms = EVENTS_NEVER;

	nic_watch(&nic->role, EVENT_KERNEL, &wake_ms);
	/* It looks again when the kernel has finished. */
	assert_true(wake_ms > clock_monotonic_ms() - 1000 && wake_ms != EVENTS_NEVER);
}

static void assert_replaced(const struct folder *folder, const char *expected)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	_cleanup_free_ char *text = NULL;

	assert_int_equal(nic_report_read(folder->fd, &report), 0);
	text = report.lists[NIC_REPORT_REPLACED].count
		       ? strv_join(&report.lists[NIC_REPORT_REPLACED], "; ")
		       : strdup("");
	assert_string_equal(text, expected);
}

static void an_undisturbed_driver_is_no_news(void **state)
{
	_cleanup_nic_ struct nic nic;
	_cleanup_free_ char *events = NULL;

	serve(&nic, *state);
	kernel_reports(&nic);
	/* Not what we answer for: the kernel's own, and one that we did not load. */
	unload(*state, "psample");
	unload(*state, "mlx5_vdpa");
	kernel_reports(&nic);
	assert_replaced(*state, "");
	events = folder_read_text(*state, NIC_STATE_FOLDER "/nic.events.jsonl");
	assert_null(strstr(events, "replaced"));
	assert_int_equal(nic.role.log.reason, REASON_NONE);
}

static void what_another_process_does_is_reported_and_taken_back(void **state)
{
	const struct folder *folder = *state;
	_cleanup_nic_ struct nic nic;
	_cleanup_free_ char *events = NULL;
	_cleanup_free_ char *metrics = NULL;

	serve(&nic, folder);
	assert_int_equal(renameat(folder->fd, "sys/module/ib_core", folder->fd, "kept"), 0);
	kernel_reports(&nic);
	assert_replaced(folder, "ib_core: no longer loaded");
	assert_int_equal(nic.role.log.reason, REASON_DRIVER_REPLACED);
	assert_contains(nic.role.log.detail,
		"another process changed what this container loaded: ib_core: no longer loaded");
	load(folder, "ib_core", 9);
	kernel_reports(&nic);
	assert_replaced(folder, "ib_core: another build is loaded now");
	metrics = folder_read_text(folder, NIC_STATE_FOLDER "/metrics/nic.prom");
	assert_contains(metrics, "slipway_nic_modules_replaced 1\n");
	assert_contains(metrics, "reason=\"DRIVER_REPLACED\"");
	unload(folder, "ib_core");
	/* Kept, so that the number of the folder is the same: in the kernel no new load has it. */
	assert_int_equal(renameat(folder->fd, "kept", folder->fd, "sys/module/ib_core"), 0);
	kernel_reports(&nic);
	assert_replaced(folder, "");
	assert_int_equal(nic.role.log.reason, REASON_NONE);
	events = folder_read_text(folder, NIC_STATE_FOLDER "/nic.events.jsonl");
	assert_contains(events, "\"event\":\"replaced\"");
	assert_contains(events, "the loaded modules are again those that this container loaded");
}

static void the_same_build_loaded_anew_is_reported_too(void **state)
{
	const struct folder *folder = *state;
	_cleanup_nic_ struct nic nic;

	serve(&nic, folder);
	/* The old folder stays somewhere: its number is not given to the new one. */
	assert_int_equal(renameat(folder->fd, "sys/module/mlx5_core", folder->fd, "kept"), 0);
	load(folder, "mlx5_core", 3);
	kernel_reports(&nic);
	assert_replaced(folder, "mlx5_core: reloaded, in the same build");
}

/* The list of what is to be there is replaced, not appended to. */
static void a_second_beginning_counts_nothing_twice(void **state)
{
	const struct folder *folder = *state;
	_cleanup_nic_ struct nic nic;
	uint64_t wake_ms = EVENTS_NEVER;

	serve(&nic, folder);
	nic_watch(&nic.role, 0, &wake_ms);
	assert_int_equal(nic.watch.count, 2);
	unload(folder, "ib_core");
	kernel_reports(&nic);
	assert_replaced(folder, "ib_core: no longer loaded");
}

/* The kernel's word comes a moment before its folder is as it will be. */
static void the_second_look_finds_what_the_first_could_not(void **state)
{
	const struct timespec pause = { .tv_nsec = 300L * 1000 * 1000 };
	_cleanup_nic_ struct nic nic;
	uint64_t wake_ms = EVENTS_NEVER;

	serve(&nic, *state);
	kernel_reports(&nic);
	unload(*state, "mlx5_core");
	(void) nanosleep(&pause, NULL);
	nic_watch(&nic.role, EVENT_TIME, &wake_ms);
	assert_int_equal(wake_ms, EVENTS_NEVER); /* and rests */
	assert_replaced(*state, "mlx5_core: no longer loaded");
	load(*state, "mlx5_core", 8);
	nic_watch(&nic.role, EVENT_FILE, &wake_ms); /* no word of a module: no look */
	assert_replaced(*state, "mlx5_core: no longer loaded");
}

static void what_is_missing_is_in_the_report(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_nic_ struct nic nic;
	_cleanup_free_ char *metrics = NULL;
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	struct error error;

	assert_int_equal(strv_push(&journal.lists[JOURNAL_MISSING], "ib_iser: no file"), 0);
	assert_int_equal(strv_push(&journal.lists[JOURNAL_UNRESTORED], "ens1: mtu"), 0);
	assert_int_equal(strv_push(&journal.lists[JOURNAL_UNRESTORED], "ens2: gone"), 0);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	write_nic_parameters(
		folder, (const char *const[]){ "ib_core ", "mlx5_core prof_sel=2 x=1", NULL });
	serve(&nic, folder);
	assert_int_equal(nic.role.log.reason, REASON_NETWORK_INCOMPLETE);
	assert_string_equal(nic.role.log.detail,
		"part of the network's state could not be restored: ens1: mtu; ens2: gone");
	assert_int_equal(nic_report_read(folder->fd, &report), 0);
	assert_string_equal(report.mode, "precompiled");
	assert_string_equal(report.swap, "loaded");
	assert_int_equal(report.lists[NIC_REPORT_UNRESTORED].count, 2);
	assert_string_equal(report.lists[NIC_REPORT_MISSING].items[0], "ib_iser: no file");
	assert_int_equal(report.lists[NIC_REPORT_PARAMETERS].count, 1);
	assert_string_equal(
		report.lists[NIC_REPORT_PARAMETERS].items[0], "mlx5_core prof_sel=2 x=1");
	metrics = folder_read_text(folder, NIC_STATE_FOLDER "/metrics/nic.prom");
	assert_contains(metrics, "slipway_nic_info{mode=\"precompiled\",swap=\"loaded\"} 1\n");
	assert_contains(metrics, "slipway_nic_modules_missing 1\n");
	assert_contains(metrics, "slipway_nic_network_unrestored 2\n");
}

/* By modprobe on the node: while it serves, and before a start that changes nothing. */
static void what_was_missing_and_is_loaded_is_missing_no_more(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_nic_ struct nic nic;
	_cleanup_free_ char *metrics = NULL;
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	struct error error;

	assert_int_equal(strv_push(&journal.lists[JOURNAL_MISSING], "rpcrdma: no file"), 0);
	assert_int_equal(strv_push(&journal.lists[JOURNAL_MISSING], "ib_iser: no: file"), 0);
	assert_int_equal(strv_push(&journal.lists[JOURNAL_MISSING], "ib_srp: no file"), 0);
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	load(folder, "rpcrdma", 7);
	serve(&nic, folder);
	assert_string_equal(nic.role.log.detail,
		"modules that could not be reloaded: ib_iser: no: file; ib_srp: no file");
	load(folder, "ib_iser", 5);
	kernel_reports(&nic);
	assert_int_equal(nic_report_read(folder->fd, &report), 0);
	assert_int_equal(report.lists[NIC_REPORT_MISSING].count, 1);
	assert_string_equal(report.lists[NIC_REPORT_MISSING].items[0], "ib_srp: no file");
	load(folder, "ib_srp", 6);
	kernel_reports(&nic);
	assert_string_equal(nic.role.log.detail, "");
	metrics = folder_read_text(folder, NIC_STATE_FOLDER "/metrics/nic.prom");
	assert_contains(metrics, "slipway_nic_modules_missing 0\n");
}

static void a_report_is_read_as_it_was_written(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "sources", .swap = "same" };
	_cleanup_(nic_report_free) struct nic_report again = { .mode = "" };

	folder_subfolder(folder, NIC_STATE_FOLDER);
	assert_int_equal(nic_report_read(folder->fd, &again), -ENOENT);
	assert_int_equal(strv_push(&report.lists[NIC_REPORT_MISSING], "a=b: two\nlines"), 0);
	assert_int_equal(nic_report_write(folder->fd, &report), 0);
	assert_int_equal(nic_report_read(folder->fd, &again), 0);
	assert_string_equal(again.mode, "sources");
	assert_string_equal(again.swap, "same");
	assert_int_equal(again.lists[NIC_REPORT_MISSING].count, 1);
	assert_string_equal(again.lists[NIC_REPORT_MISSING].items[0], "a=b: two lines");
	(void) unlinkat(folder->fd, NIC_REPORT_PATH, 0);
	assert_int_equal(nic_report_read(folder->fd, &again), -ENOENT);
}

static char *status_json(const struct folder *folder)
{
	char *text = NULL;
	size_t size;
	struct json json = { .file = open_memstream(&text, &size) };
	struct findings findings = { .incomplete = false };

	json_write_open(&json, NULL, '{');
	status_nic(folder->fd, &json, &findings);
	json_write_close(&json, '}');
	assert_int_equal(fclose(json.file), 0);
	strv_free(&findings.lines);
	return text;
}

static void status_has_it_while_the_container_runs(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *dead = NULL;
	_cleanup_free_ char *alive = NULL;
	_cleanup_close_ int lock = -1;
	_cleanup_nic_ struct nic nic;

	serve(&nic, folder);
	dead = status_json(folder);
	assert_string_equal(dead, "{\"nic\":null}");
	folder_write_text(folder, CONTRACT_OFED_LOCK, "1\n");
	lock = openat(folder->fd, CONTRACT_OFED_LOCK, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	alive = status_json(folder);
	assert_string_equal(alive, "{\"nic\":{\"mode\":\"precompiled\",\"swap\":\"loaded\","
				   "\"unloaded\":[],\"missing\":[],\"unrestored\":[],"
				   "\"parameters\":[],\"replaced\":[],\"in_pods\":null}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_undisturbed_driver_is_no_news),
		folder_test(what_another_process_does_is_reported_and_taken_back),
		folder_test(the_same_build_loaded_anew_is_reported_too),
		folder_test(a_second_beginning_counts_nothing_twice),
		folder_test(the_second_look_finds_what_the_first_could_not),
		folder_test(what_is_missing_is_in_the_report),
		folder_test(what_was_missing_and_is_loaded_is_missing_no_more),
		folder_test(a_report_is_read_as_it_was_written),
		folder_test(status_has_it_while_the_container_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

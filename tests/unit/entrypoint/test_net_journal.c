/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what becomes of the journal of the network's state. /sys and /proc are in a folder, and
 * their devices never come. The kernel's own interfaces are only looked at.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/engine/statefile.h"
#include "tests/unit/support.h"

#define JOURNAL "state/network.journal"
#define BOOT_ID "proc/sys/kernel/random/boot_id"
#define MACHINE "sys/class/dmi/id/product_uuid"

struct bench {
	struct netstate netstate;
	struct strv modules;
	struct netstate_result result;
	char reported[4096];
	struct error error;
};

static void receive(void *context, const char *text)
{
	struct bench *bench = context;
	size_t length = strlen(bench->reported);

	(void) snprintf(bench->reported + length, sizeof(bench->reported) - length, "%s\n", text);
}

static void begin(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ 0 };
	assert_int_equal(strv_push(&bench->modules, "mlx5_core"), 0);
	bench->netstate = (struct netstate){ .root_fd = folder->fd,
		.path = JOURNAL,
		.modules = &bench->modules,
		.bind_ms = 20,
		.report = receive,
		.context = bench };
	folder_write_text(folder, BOOT_ID, "this-boot\n");
	folder_write_text(folder, MACHINE, "this-machine\n");
	folder_subfolder(folder, "sys/class/net");
}

static void journal_of(
	const struct folder *folder, const char *boot, const char *machine, const char *device)
{
	char text[512];

	(void) snprintf(text, sizeof(text), "slipway-network 1\n%s%s%sboot id=%s machine=%s\nend\n",
		device ? "device device=" : "", device ? device : "", device ? " vfs=8\n" : "",
		boot, machine);
	folder_write_text(folder, JOURNAL, text);
}

static void restore(struct bench *bench)
{
	bench->reported[0] = '\0';
	if (netstate_restore(&bench->netstate, &bench->result, &bench->error) < 0)
		fail_msg("%s", bench->error.text);
}

static bool is_there(const struct folder *folder, const char *path)
{
	return fs_exists(folder->fd, path);
}

static void a_journal_stays_until_it_is_forgotten(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "this-boot", "this-machine", NULL);
	restore(&bench);
	assert_int_equal(bench.result.failures, 0);
	assert_true(is_there(folder, JOURNAL));
	netstate_forget(&bench.netstate, &bench.result);
	assert_false(is_there(folder, JOURNAL));
	strv_free(&bench.modules);
}

static void what_does_not_come_is_tried_once_more(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "this-boot", "this-machine", "pci/0000:af:00.0");
	assert_false(netstate_is_pending(folder->fd, JOURNAL));
	restore(&bench);
	assert_true(bench.result.is_pending);
	assert_int_equal(bench.result.failures, 1);
	netstate_forget(&bench.netstate, &bench.result);
	assert_true(netstate_is_pending(folder->fd, JOURNAL));
	restore(&bench);
	assert_true(bench.result.is_given_up);
	assert_false(bench.result.is_pending);
	assert_contains(bench.reported, "retrying what an earlier start could not restore");
	netstate_forget(&bench.netstate, &bench.result);
	assert_false(is_there(folder, JOURNAL));
	assert_true(is_there(folder, JOURNAL ".unrestored"));
	strv_free(&bench.modules);
}

static void what_this_version_does_not_restore_is_named(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	folder_write_text(folder, JOURNAL,
		"slipway-network 1\nboot id=this-boot machine=this-machine\n"
		"rate device=pci/0000:3b:00.0 node=all share=1 max=2\n"
		"rate device=pci/0000:3b:00.0 vf=1 share=0 max=2\n"
		"ethtool link=eth0 life=0 private_flags=+rx_cqe_moder\n"
		"of-tomorrow name=x\n"
		"unsaved name=eth1 what=its%20IPv6%20token%20(ip%20token)\nend\n");
	restore(&bench);
	assert_int_equal(bench.result.failures, 4);
	assert_contains(bench.reported, "ethtool's private flags: 1 saved by another version");
	assert_contains(bench.reported, "2 record(s) of the kind rate, saved by another version");
	assert_contains(bench.reported, "1 record(s) of the kind of-tomorrow, saved by another");
	assert_contains(bench.reported, "eth1: its IPv6 token (ip token): not saved: set it again");
	assert_false(bench.result.is_pending);
	strv_free(&bench.modules);
}

static void what_a_record_had_beside_is_reported_once(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	folder_write_text(folder, JOURNAL,
		"slipway-network 1\nboot id=this-boot machine=this-machine\n"
		"link device=pci/0000:af:00.0 port=p0 name=nic0 token=::1\n"
		"link device=pci/0000:af:00.1 port=p1 name=nic1 token=::2\n"
		"link device=pci/0000:af:00.2 port=p2 name=nic2\nend\n");
	restore(&bench);
	assert_int_equal(bench.result.failures, 1 + 3); /* no interface came */
	assert_contains(bench.reported, "IPv6 tokens (ip token): 2 saved by another version");
	strv_free(&bench.modules);
}

static void what_does_not_come_after_a_boot_is_not_pending(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "another-boot", "this-machine", "pci/0000:af:00.0");
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_false(bench.result.is_pending);
	strv_free(&bench.modules);
}

/* A device of a driver, whose interface the kernel does not know: its restore is cut short. */
static void cut_short(const struct folder *folder)
{
	folder_subfolder(folder, "sys/bus/pci/drivers/mlx5_core");
	folder_write_text(folder, "sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs", "1\n");
	folder_write_text(
		folder, "sys/bus/pci/devices/0000:3b:00.0/net/nic0/ifindex", "2147483647\n");
	assert_int_equal(symlinkat("../../drivers/mlx5_core", folder->fd,
				 "sys/bus/pci/devices/0000:3b:00.0/driver"),
		0);
}

static void what_is_cut_short_after_a_boot_keeps_all_that_is_absent(void **state)
{
	static const char journal[] =
		"slipway-network 1\nboot id=another-boot machine=this-machine\n"
		"device device=pci/0000:3b:00.0 vfs=1\ndevice device=pci/0000:af:00.0 vfs=8\n"
		"link life=0 index=7 name=nic1 device=pci/0000:af:00.0\n"
		"sysctls link=nic1 ipv4.conf.rp_filter=2\nend\n";
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	struct bench bench;

	begin(&bench, folder);
	cut_short(folder);
	folder_write_text(folder, JOURNAL, journal);
	restore(&bench);
	assert_contains(bench.reported, "pci/0000:3b:00.0 cannot be read");
	assert_true(bench.result.is_pending);
	assert_int_equal(fs_read(folder->fd, JOURNAL, 0, &text, NULL), 0);
	assert_contains(text, "device device=pci/0000:3b:00.0");
	assert_contains(text, "device device=pci/0000:af:00.0");
	assert_contains(text, "name=nic1");
	assert_contains(text, "ipv4.conf.rp_filter=2");
	strv_free(&bench.modules);
}

static void a_journal_of_another_machine_is_put_aside(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "another-boot", "another-machine", "pci/0000:af:00.0");
	assert_int_equal(netstate_restore(&bench.netstate, &bench.result, &bench.error), -ENOENT);
	assert_contains(bench.reported, "is of another machine");
	assert_false(is_there(folder, JOURNAL));
	assert_true(is_there(folder, JOURNAL ".foreign"));
	strv_free(&bench.modules);
}

static void a_saved_journal_names_the_machine(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "another-boot", "another-machine", "pci/0000:af:00.0");
	if (netstate_save(&bench.netstate, &bench.error) < 0)
		fail_msg("%s", bench.error.text);
	assert_int_equal(fs_read(folder->fd, JOURNAL, 0, &text, NULL), 0);
	assert_contains(text, "machine=this-machine");
	assert_null(strstr(text, "0000:af:00.0"));
	strv_free(&bench.modules);
}

/* A folder of that name in its place cannot be unlinked, as a file on a read-only disk. */
static void a_journal_that_cannot_be_removed_is_reported(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	folder_subfolder(folder, JOURNAL);
	netstate_forget(&bench.netstate, &bench.result);
	assert_contains(bench.reported, JOURNAL " cannot be removed");
	strv_free(&bench.modules);
}

static void without_a_driver_nothing_can_be_given_back(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	journal_of(folder, "another-boot", "this-machine", "pci/0000:af:00.0");
	folder_subfolder(folder, "sys/bus/pci/devices/0000:af:00.0");
	assert_false(netstate_can_restore(folder->fd, JOURNAL));
	folder_subfolder(folder, "sys/bus/pci/drivers/mlx5_core");
	assert_int_equal(symlinkat("../../drivers/mlx5_core", folder->fd,
				 "sys/bus/pci/devices/0000:af:00.0/driver"),
		0);
	assert_true(netstate_can_restore(folder->fd, JOURNAL));
	journal_of(folder, "this-boot", "this-machine", NULL);
	assert_true(netstate_can_restore(folder->fd, JOURNAL));
	folder_write_text(folder, JOURNAL, "damaged");
	assert_true(netstate_can_restore(folder->fd, JOURNAL));
	strv_free(&bench.modules);
}

static void more_than_would_be_read_is_not_written(void **state)
{
	const struct folder *folder = *state;
	struct statefile records = { 0 };
	size_t size = (size_t) 90 << 20;
	struct error error = { 0 };
	char *value = malloc(size + 1);

	assert_non_null(value);
	memset(value, ' ', size); /* three characters each in the file */
	value[size] = '\0';
	assert_int_equal(record_set(statefile_add(&records, "link"), "alias", value), 0);
	assert_int_equal(statefile_write(folder->fd, JOURNAL, &records, &error), -EFBIG);
	assert_contains(error.text, "more than 256 MiB");
	assert_false(is_there(folder, JOURNAL));
	statefile_free(&records);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_journal_stays_until_it_is_forgotten),
		folder_test(what_does_not_come_is_tried_once_more),
		folder_test(what_this_version_does_not_restore_is_named),
		folder_test(what_a_record_had_beside_is_reported_once),
		folder_test(what_does_not_come_after_a_boot_is_not_pending),
		folder_test(what_is_cut_short_after_a_boot_keeps_all_that_is_absent),
		folder_test(a_journal_of_another_machine_is_put_aside),
		folder_test(a_saved_journal_names_the_machine),
		folder_test(a_journal_that_cannot_be_removed_is_reported),
		folder_test(without_a_driver_nothing_can_be_given_back),
		folder_test(more_than_would_be_read_is_not_written),
	};

	return cmocka_run_group_tests_name("net_journal", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of RDMA devices of a /sys in a folder; that the kernel takes them is 90-nic-away.bats'. */
#include <string.h>
#include <unistd.h>

#include "entrypoint/netstate/netstate_internal.h"
#include "tests/unit/support.h"

#define CLASS "sys/class/infiniband/"

struct bench {
	struct netstate netstate;
	struct strv modules;
	struct statefile records;
	struct netstate_result result;
	struct run run;
	char reported[2048];
};

static void receive(void *context, const char *text)
{
	struct bench *bench = context;
	size_t length = strlen(bench->reported);

	(void) snprintf(bench->reported + length, sizeof(bench->reported) - length, "%s\n", text);
}

static void put_link(const struct folder *folder, const char *target, const char *path)
{
	assert_int_equal(symlinkat(target, folder->fd, path), 0);
}

static void make_device(const struct folder *folder, const char *address, const char *module)
{
	char path[256];
	char target[256];

	(void) snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s", module);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/module", module);
	(void) snprintf(target, sizeof(target), "../../../../module/%s", module);
	(void) !symlinkat(target, folder->fd, path); /* of two devices it is there */
	(void) snprintf(path, sizeof(path), "sys/devices/%s", address);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), "sys/devices/%s/driver", address);
	(void) snprintf(target, sizeof(target), "../../bus/pci/drivers/%s", module);
	put_link(folder, target, path);
	(void) snprintf(path, sizeof(path), "sys/devices/%s/subsystem", address);
	put_link(folder, "../../bus/pci", path);
	folder_subfolder(folder, "sys/bus/pci/devices");
	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", address);
	(void) snprintf(target, sizeof(target), "../../../devices/%s", address);
	put_link(folder, target, path);
}

static void make_rdma(const struct folder *folder, const char *name, const char *address)
{
	char path[256];
	char target[256];

	(void) snprintf(path, sizeof(path), CLASS "%s", name);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), CLASS "%s/device", name);
	(void) snprintf(target, sizeof(target), "../../../devices/%s", address);
	if (*address)
		put_link(folder, target, path);
}

static void begin(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ 0 };
	assert_int_equal(strv_push(&bench->modules, "mlx5_core"), 0);
	bench->netstate = (struct netstate){ .root_fd = folder->fd,
		.modules = &bench->modules,
		.bind_ms = 20,
		.report = receive,
		.context = bench };
	bench->run = (struct run){ &bench->netstate, &bench->records, &bench->result };
	make_device(folder, "0000:3b:00.0", "mlx5_core");
	make_device(folder, "0000:3b:00.1", "mlx5_core");
	make_device(folder, "0000:5e:00.0", "bnxt_en");
}

static void end(struct bench *bench)
{
	strv_free(&bench->modules);
	statefile_free(&bench->records);
}

#define _cleanup_bench_ _cleanup_(end)

static void names_are_those_of_the_devices_that_go(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	make_rdma(*state, "mlx5_0", "0000:3b:00.0");
	make_rdma(*state, "storage0", "0000:3b:00.1");
	make_rdma(*state, "bnxt_re0", "0000:5e:00.0");
	make_rdma(*state, "rxe0", "");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 2);
	assert_string_equal(record_get(&bench.records.items[0], "device"), "pci/0000:3b:00.0");
	assert_string_equal(record_get(&bench.records.items[0], "name"), "mlx5_0");
	assert_string_equal(record_get(&bench.records.items[1], "name"), "storage0");
	/* The record of a device from an earlier run is kept. */
	assert_int_equal(record_set(&bench.records.items[0], "name", "before"), 0);
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 2);
	assert_string_equal(record_get(&bench.records.items[0], "name"), "before");
}

static void of_two_on_one_device_it_is_unknown_which_is_which(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	make_rdma(*state, "mlx5_0", "0000:3b:00.0");
	make_rdma(*state, "mlx5_1", "0000:3b:00.0");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
}

static void one_that_does_not_come_is_reported(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(unlinkat(folder->fd, CLASS "mlx5_0/device", 0), 0);
	assert_int_equal(unlinkat(folder->fd, CLASS "mlx5_0", AT_REMOVEDIR), 0);
	rdma_restore(&bench.run);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported,
		"the RDMA device mlx5_0 (of pci/0000:3b:00.0) did not appear "
		"within");
	assert_int_equal(bench.records.count, 0);
}

static void one_that_has_its_name_is_left_alone(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	make_rdma(*state, "mlx5_0", "0000:3b:00.0");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
	rdma_restore(&bench.run);
	/* A kernel without RDMA cannot even be asked. */
	for (const char *line = bench.reported; *line; line += strcspn(line, "\n") + 1)
		assert_contains(line, "names of RDMA devices: ");
	assert_int_equal(bench.records.count, 0);
}

#define TOS  "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
#define MODE "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode"
#define TC   CLASS "mlx5_0/tc/1/traffic_class"

static void what_is_set_of_a_port_comes_back(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *tos = NULL;
	_cleanup_free_ char *tc = NULL;
	_cleanup_bench_ struct bench bench;
	const struct record *record;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	folder_subfolder(folder, CLASS "mlx5_0/ports/1");
	folder_write_text(folder, TOS, "106\n");
	folder_write_text(folder, MODE, "IB/RoCE v1\n");
	folder_write_text(folder, TC, "Global tclass=106\nsrc_addr=10.0.0.1 tclass=5\n");
	assert_int_equal(rdma_save(&bench.run), 0);
	record = &bench.records.items[0];
	assert_string_equal(record_get(record, "1.default_roce_tos"), "106");
	assert_string_equal(record_get(record, "1.default_roce_mode"), "IB/RoCE v1");
	assert_string_equal(record_get(record, "1.traffic_class"), "106");
	folder_write_text(folder, TOS, "0  \n");
	folder_write_text(folder, TC, "   \n");
	rdma_restore(&bench.run);
	assert_int_equal(strstr(bench.reported, "port 1") != NULL, 0);
	tos = folder_read_text(folder, TOS);
	assert_string_equal(tos, "106\n");
	tc = folder_read_text(folder, TC);
	assert_string_equal(tc, "106\n");
}

static void what_a_port_has_by_itself_is_not_saved(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	folder_subfolder(folder, CLASS "mlx5_0/ports/1");
	folder_write_text(folder, TOS, "0\n");
	folder_write_text(folder, MODE, "RoCE v2\n");
	folder_write_text(folder, TC, "src_addr=10.0.0.1 tclass=5\n");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.items[0].count, 2); /* device, name */
}

static void what_is_loaded_has_no_such_setting(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;
	struct record *record;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	assert_int_equal(rdma_save(&bench.run), 0);
	record = &bench.records.items[0];
	assert_int_equal(record_set(record, "1.default_roce_tos", "106"), 0);
	assert_int_equal(record_set(record, "1.traffic_class", "106"), 0);
	rdma_restore(&bench.run);
	assert_contains(bench.reported,
		"the RDMA device mlx5_0: the loaded driver has no 1.default_roce_tos=106 "
		"1.traffic_class=106\n");
	assert_null(strstr(bench.reported, "could not be restored: the RDMA device"));
}

/* The settings are the kernel's, and stay; the folder would hold rdma_cm. */
static void a_folder_in_configfs_goes_when_it_was_read(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0"); /* save makes it */
	make_rdma(folder, "mlx5_1", "0000:3b:00.1"); /* a run that was killed made it */
	folder_subfolder(folder, "sys/kernel/config/rdma_cm/mlx5_1");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 2);
	assert_int_equal(faccessat(folder->fd, "sys/kernel/config/rdma_cm/mlx5_0", F_OK, 0), -1);
	assert_int_equal(faccessat(folder->fd, "sys/kernel/config/rdma_cm/mlx5_1", F_OK, 0), -1);
	assert_int_equal(record_set(&bench.records.items[0], "1.traffic_class", "106"), 0);
	rdma_restore(&bench.run);
	assert_int_equal(faccessat(folder->fd, "sys/kernel/config/rdma_cm/mlx5_0", F_OK, 0), -1);
}

static void a_record_writes_no_other_file(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *other = NULL;
	_cleanup_bench_ struct bench bench;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	folder_write_text(folder, TOS, "0\n");
	folder_write_text(folder, "sys/kernel/config/other", "1\n");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(record_set(&bench.records.items[0], "1.../../../../other", "2"), 0);
	rdma_restore(&bench.run);
	other = folder_read_text(folder, "sys/kernel/config/other");
	assert_string_equal(other, "1\n");
}

/* rdma_cm forgets also what was set of devices whose driver stays. */
static void where_rdma_cm_goes_all_devices_are_saved(void **state)
{
	_cleanup_bench_ struct bench bench;

	begin(&bench, *state);
	make_rdma(*state, "mlx5_0", "0000:3b:00.0");
	strv_free(&bench.modules);
	assert_int_equal(strv_push(&bench.modules, "ib_umad"), 0);
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
	assert_int_equal(strv_push(&bench.modules, "rdma_cm"), 0);
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
}

/* rdma_cm and mlx5_ib go first: a start may be killed when no interface has gone yet. */
static void what_went_before_the_interfaces_is_kept(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	begin(&bench, folder);
	make_rdma(folder, "mlx5_0", "0000:3b:00.0");
	make_rdma(folder, "storage0", "0000:3b:00.1");
	folder_subfolder(folder, CLASS "mlx5_0/ports/1");
	folder_subfolder(folder, "sys/module/rdma_cm");
	folder_write_text(folder, TOS, "106\n");
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_non_null(statefile_add(&bench.records, "link"));
	assert_int_equal(bench.records.count, 3);
	assert_int_equal(unlinkat(folder->fd, "sys/module/rdma_cm", AT_REMOVEDIR), 0);
	assert_int_equal(rdma_keep_lost(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
	assert_string_equal(record_get(&bench.records.items[0], "name"), "mlx5_0");
	folder_subfolder(folder, "sys/module/rdma_cm");
	assert_int_equal(rdma_keep_lost(&bench.run), 0);
	assert_int_equal(bench.records.count, 0);
	assert_int_equal(rdma_save(&bench.run), 0);
	assert_int_equal(unlinkat(folder->fd, CLASS "storage0/device", 0), 0);
	assert_int_equal(unlinkat(folder->fd, CLASS "storage0", AT_REMOVEDIR), 0);
	assert_int_equal(rdma_keep_lost(&bench.run), 0);
	assert_int_equal(bench.records.count, 1);
	assert_string_equal(record_get(&bench.records.items[0], "name"), "storage0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(names_are_those_of_the_devices_that_go),
		folder_test(of_two_on_one_device_it_is_unknown_which_is_which),
		folder_test(one_that_does_not_come_is_reported),
		folder_test(one_that_has_its_name_is_left_alone),
		folder_test(what_is_set_of_a_port_comes_back),
		folder_test(what_a_port_has_by_itself_is_not_saved),
		folder_test(what_is_loaded_has_no_such_setting),
		folder_test(a_folder_in_configfs_goes_when_it_was_read),
		folder_test(a_record_writes_no_other_file),
		folder_test(where_rdma_cm_goes_all_devices_are_saved),
		folder_test(what_went_before_the_interfaces_is_kept),
	};

	return cmocka_run_group_tests_name("net_rdma", tests, NULL, NULL);
}

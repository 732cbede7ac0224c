/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of a /sys in a folder: which they are, how the journal has them, and what is written to
 * bring them back. Nothing acts on what is written there: a VF's link is there before the VF is.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/netstate_internal.h"
#include "tests/unit/saved_states.h"
#include "tests/unit/support.h"

#define PF  "pci/0000:3b:00.0"
#define PCI "sys/bus/pci/"

struct reported {
	char text[4096];
	char first[256]; /* failure */
	unsigned done;   /* jobs that say so */
};

#define FAILURE "could not be restored: "

static void receive(void *context, const char *text)
{
	struct reported *reported = context;
	size_t length = strlen(reported->text);

	if (!*reported->first && strncmp(text, FAILURE, strlen(FAILURE)) == 0)
		(void) snprintf(
			reported->first, sizeof(reported->first), "%s", text + strlen(FAILURE));
	if (strcmp(text, "done") == 0)
		reported->done++;
	else
		(void) snprintf(
			reported->text + length, sizeof(reported->text) - length, "%s\n", text);
}

static void unlink_path(const struct folder *folder, const char *path)
{
	assert_int_equal(unlinkat(folder->fd, path, 0), 0);
}

static void driver(
	const struct folder *folder, const char *bus, const char *name, const char *module)
{
	char path[256];
	char target[256];

	(void) snprintf(path, sizeof(path), "sys/bus/%s/drivers/%s/bind", bus, name);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "sys/bus/%s/drivers/%s/unbind", bus, name);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "sys/module/%s/drivers", module);
	folder_subfolder(folder, path);
	(void) snprintf(path, sizeof(path), "sys/bus/%s/drivers/%s/module", bus, name);
	(void) snprintf(target, sizeof(target), "../../../../module/%s", module);
	folder_link(folder, path, target);
	(void) snprintf(path, sizeof(path), "sys/module/%s/drivers/%s:%s", module, bus, name);
	(void) snprintf(target, sizeof(target), "../../../bus/%s/drivers/%s", bus, name);
	folder_link(folder, path, target);
}

static void device(const struct folder *folder, const char *bus, const char *name)
{
	char path[256];

	(void) snprintf(path, sizeof(path), "sys/bus/%s/devices/%s/uevent", bus, name);
	folder_write_text(folder, path, "");
}

static void driven_by(
	const struct folder *folder, const char *bus, const char *name, const char *by)
{
	char path[256];
	char target[256];

	(void) snprintf(path, sizeof(path), "sys/bus/%s/devices/%s/driver", bus, name);
	(void) snprintf(target, sizeof(target), "../../drivers/%s", by);
	folder_link(folder, path, target);
	(void) snprintf(path, sizeof(path), "sys/bus/%s/drivers/%s/%s", bus, by, name);
	(void) snprintf(target, sizeof(target), "../../devices/%s", name);
	folder_link(folder, path, target);
}

static void vf(const struct folder *folder, unsigned index, const char *function)
{
	char path[256];
	char target[256];

	device(folder, "pci", function);
	(void) snprintf(path, sizeof(path), PCI "devices/%s/driver_override", function);
	folder_write_text(folder, path, "(null)\n");
	(void) snprintf(path, sizeof(path), PCI "devices/%s/physfn", function);
	folder_link(folder, path, "../0000:3b:00.0");
	(void) snprintf(path, sizeof(path), PCI "devices/0000:3b:00.0/virtfn%u", index);
	(void) snprintf(target, sizeof(target), "../%s", function);
	folder_link(folder, path, target);
}

static void pf(const struct folder *folder, const char *vfs)
{
	driver(folder, "pci", "mlx5_core", "mlx5_core");
	device(folder, "pci", "0000:3b:00.0");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", vfs);
	folder_write_text(folder, PCI "devices/0000:3b:00.0/sriov_drivers_autoprobe", "1\n");
	driven_by(folder, "pci", "0000:3b:00.0", "mlx5_core");
}

struct bench {
	struct netstate netstate;
	struct strv modules;
	struct statefile records;
	struct netstate_result result;
	struct run run;
	struct reported reported;
	struct error error;
};

static void begin(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ 0 };
	assert_int_equal(strv_push(&bench->modules, "mlx5_core"), 0);
	bench->netstate = (struct netstate){ .root_fd = folder->fd,
		.modules = &bench->modules,
		.bind_ms = 50,
		.report = receive,
		.context = &bench->reported };
	bench->run = (struct run){ &bench->netstate, &bench->records, &bench->result };
}

static void end(struct bench *bench)
{
	strv_free(&bench->modules);
	statefile_free(&bench->records);
}

static void save(struct bench *bench)
{
	if (devices_save(&bench->run, &bench->error) < 0)
		fail_msg("%s", bench->error.text);
}

static void restore(struct bench *bench)
{
	if (devices_restore(&bench->run, &bench->error) < 0)
		fail_msg("%s", bench->error.text);
}

static struct record *vf_record(struct bench *bench, const char *index, const char *function,
	const char *by, const char *override)
{
	struct record *record = statefile_add(&bench->records, "vf");

	assert_int_equal(record_set(record, "device", PF), 0);
	assert_int_equal(record_set(record, "index", index), 0);
	assert_int_equal(record_set(record, "function", function), 0);
	if (by)
		assert_int_equal(record_set(record, "driver", by), 0);
	if (override)
		assert_int_equal(record_set(record, "override", override), 0);
	return record;
}

static void pf_record(struct bench *bench, const char *vfs, const char *autoprobe)
{
	struct record *record = statefile_add(&bench->records, "device");

	assert_int_equal(record_set(record, "device", PF), 0);
	assert_int_equal(record_set(record, "driver", "mlx5_core"), 0);
	assert_int_equal(record_set(record, "vfs", vfs), 0);
	assert_int_equal(record_set(record, "autoprobe", autoprobe), 0);
}

static void expect_text(const struct folder *folder, const char *path, const char *expected)
{
	_cleanup_free_ char *text = folder_read_text(folder, path);

	assert_string_equal(text, expected);
}

/* ---- which devices */

static void devices_of_any_bus_but_no_vfs_and_no_parts(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv modules = { 0 };

	pf(folder, "1\n");
	vf(folder, 0, "0000:3b:00.1");
	driven_by(folder, "pci", "0000:3b:00.1", "mlx5_core");
	driver(folder, "auxiliary", "mlx5_core.eth", "mlx5_core_eth");
	device(folder, "auxiliary", "mlx5_core.eth.0");
	driven_by(folder, "auxiliary", "mlx5_core.eth.0", "mlx5_core.eth");
	driver(folder, "netdevsim", "netdevsim", "netdevsim");
	device(folder, "netdevsim", "netdevsim0");
	driven_by(folder, "netdevsim", "netdevsim0", "netdevsim");
	driver(folder, "pci", "igb", "igb");
	device(folder, "pci", "0000:01:00.0");
	driven_by(folder, "pci", "0000:01:00.0", "igb");
	assert_int_equal(strv_push(&modules, "netdevsim"), 0);
	assert_int_equal(strv_push(&modules, "mlx5_core"), 0);
	assert_int_equal(strv_push(&modules, "mlx5_core_eth"), 0);
	assert_int_equal(strv_push(&modules, "not_loaded"), 0);
	assert_int_equal(device_names(folder->fd, &modules, &names), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[0], "netdevsim/netdevsim0");
	assert_string_equal(names.items[1], PF);
}

static void what_sys_says_is_read(void **state)
{
	const struct folder *folder = *state;
	struct device now;

	pf(folder, "2\n");
	driver(folder, "pci", "vfio-pci", "vfio_pci");
	vf(folder, 0, "0000:3b:00.1");
	vf(folder, 1, "0000:3b:00.2");
	driven_by(folder, "pci", "0000:3b:00.2", "vfio-pci");
	folder_write_text(folder, PCI "devices/0000:3b:00.2/driver_override", "vfio-pci\n");
	/* A representor came first; an interface above the PF's came last. */
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/eth9/phys_port_name", "pf0vf1\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/eth9/ifindex", "3\n");
	folder_write_text(
		folder, PCI "devices/0000:3b:00.0/net/eth8/phys_port_name", "c1pf0sf88\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/eth8/ifindex", "4\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/eth0/phys_port_name", "p0\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/eth0/ifindex", "5\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/net/ib0/ifindex", "6\n");
	assert_int_equal(device_read_sysfs(folder->fd, PF, &now), 0);
	assert_string_equal(now.driver, "mlx5_core");
	assert_int_equal(now.known, DEVICE_VFS | DEVICE_AUTOPROBE);
	assert_true(now.autoprobe);
	assert_int_equal(now.vf_number, 2);
	assert_int_equal(now.ifindex, 5);
	assert_string_equal(now.vfs[0].function, "0000:3b:00.1");
	assert_string_equal(now.vfs[0].driver, "");
	assert_string_equal(now.vfs[0].override, "");
	assert_string_equal(now.vfs[1].driver, "vfio-pci");
	assert_string_equal(now.vfs[1].override, "vfio-pci");
	device_free(&now);
}

static void a_subfunctions_auxiliary_device_is_found_by_its_number(void **state)
{
	const struct folder *folder = *state;
	struct device_sf sf = { .number = 88 };

	pf(folder, "0\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/mlx5_core.sf.2/sfnum", "8\n");
	folder_write_text(folder, PCI "devices/0000:3b:00.0/mlx5_core.sf.3/sfnum", "88\n");
	folder_link(folder, PCI "devices/0000:3b:00.0/mlx5_core.sf.3/driver",
		"../../../drivers/mlx5_core.sf");
	device_read_subfunction(folder->fd, PF, &sf);
	assert_string_equal(sf.auxiliary, "mlx5_core.sf.3");
	assert_string_equal(sf.driver, "mlx5_core.sf");
	sf.controller = 1; /* on another host */
	device_read_subfunction(folder->fd, PF, &sf);
	assert_string_equal(sf.auxiliary, "");
}

/* ---- the journal */

static int load_all(const struct statefile *records, struct device_list *list, struct error *error)
{
	for (size_t i = 0; i < records->count; i++) {
		int r = device_load_one(records, i, list, error);

		if (r < 0)
			return r;
	}
	return 0;
}

static void fill(struct device *full)
{
	static const struct device_param param = { "flow_steering_mode", 5, 0, "smfs" };
	static const struct device_sf sf = { .known = SF_STATE,
		.controller = 1,
		.pf = 2,
		.number = 88,
		.address = { 2, 0, 0, 0, 0, 0x88 },
		.address_size = 6,
		.is_active = true };
	struct device_param *added_param;
	struct device_sf *added_sf;

	*full = (struct device){ .name = PF,
		.driver = "mlx5_core",
		.known = DEVICE_VFS | DEVICE_AUTOPROBE | DEVICE_MODE | DEVICE_INLINE | DEVICE_ENCAP,
		.mode = 1,
		.inline_mode = 3,
		.vf_number = 1,
		.vf_count = 1 };
	full->vfs = calloc(1, sizeof(*full->vfs));
	assert_non_null(full->vfs);
	full->vfs[0] = (struct device_vf){ .function = "0000:3b:00.1",
		.driver = "vfio-pci",
		.override = "vfio-pci",
		.known = (1u << VF_ATTRIBUTES) - 1,
		.mac.mac = { 2, 1, 2, 3, 4, 5 },
		.node_guid.guid = UINT64_MAX,
		.port_guid.guid = 1,
		.vlan = { .vlan = 7, .qos = 1, .vlan_proto = 0x0081 },
		.rate = { .min_tx_rate = 1, .max_tx_rate = UINT32_MAX },
		.trust.setting = true,
		.link_state.link_state = 2 };
	added_param = array_add(&full->params, &full->param_count, sizeof(param));
	assert_non_null(added_param);
	*added_param = param;
	added_sf = array_add(&full->sfs, &full->sf_count, sizeof(sf));
	assert_non_null(added_sf);
	*added_sf = sf;
}

static void expect_full(const struct device_list *list, const struct device *full)
{
	const struct device *back = &list->items[0];

	assert_int_equal(list->count, 1);
	assert_string_equal(back->name, PF);
	assert_int_equal(back->known, full->known);
	assert_int_equal(back->mode, full->mode);
	assert_int_equal(back->inline_mode, full->inline_mode);
	assert_int_equal(back->encap_mode, full->encap_mode);
	assert_false(back->autoprobe);
	assert_int_equal(back->vf_number, 1);
	assert_int_equal(back->vf_count, 1);
	assert_memory_equal(back->vfs, full->vfs, sizeof(*full->vfs));
	assert_int_equal(back->sf_count, 1);
	assert_memory_equal(back->sfs, full->sfs, sizeof(*full->sfs));
	assert_int_equal(back->param_count, 1);
	assert_memory_equal(back->params, full->params, sizeof(*full->params));
}

static void the_state_has_all_of_it(void **state)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	_cleanup_(statefile_free) struct statefile records = { 0 };
	_cleanup_(device_free) struct device full;
	struct error error = { 0 };

	(void) state;
	fill(&full);
	assert_int_equal(device_store(&full, &records), 0);
	assert_int_equal(load_all(&records, &list, &error), 0);
	expect_full(&list, &full);
}

/* The saved state has rates, which devices no longer have. */
static void what_an_earlier_version_saved_is_all_read(void **state)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	_cleanup_(statefile_free) struct statefile records = { 0 };
	_cleanup_(device_free) struct device full;
	struct error error = { 0 };

	(void) state;
	fill(&full);
	assert_int_equal(
		statefile_parse(SAVED_DEVICES, strlen(SAVED_DEVICES), "saved", &records, &error),
		0);
	assert_int_equal(records.count, 6);
	assert_int_equal(load_all(&records, &list, &error), 0);
	expect_full(&list, &full);
}

static void what_a_driver_did_not_know_stays_unknown(void **state)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	_cleanup_(device_free) struct device bare = { .name = PF };
	struct statefile records = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(device_store(&bare, &records), 0);
	assert_int_equal(load_all(&records, &list, &error), 0);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.items[0].known, 0);
	statefile_free(&records);
}

static void a_record_without_its_number_is_refused(void **state)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	struct statefile records = { 0 };
	struct error error = { 0 };
	struct record *record = statefile_add(&records, "sf");

	(void) state;
	assert_int_equal(record_set(record, "device", PF), 0);
	assert_int_equal(load_all(&records, &list, &error), -EBADMSG);
	assert_contains(error.text, "damaged record of the kind sf (record 1)");
	statefile_free(&records);
}

/* Does the journal with a record of @kind that says so hold? */
static bool holds(const char *kind, const char *device, const char *field, const char *value)
{
	_cleanup_(device_list_free) struct device_list list = { 0 };
	struct statefile records = { 0 };
	struct error error = { 0 };
	struct record *record = statefile_add(&records, kind);
	int r;

	assert_int_equal(record_set(record, "device", device), 0);
	assert_int_equal(record_set(record, "index", "0"), 0);
	assert_int_equal(record_set(record, "number", "0"), 0);
	assert_int_equal(record_set(record, field, value), 0);
	r = load_all(&records, &list, &error);
	assert_true(r == 0 || r == -EBADMSG);
	statefile_free(&records);
	return r == 0;
}

static void a_name_that_leads_elsewhere_is_refused(void **state)
{
	(void) state;
	assert_true(holds("vf", PF, "driver", "vfio-pci"));
	assert_false(holds("vf", PF, "driver", "../../devices"));
	assert_false(holds("vf", PF, "driver", ".."));
	assert_false(holds("vf", PF, "function", "../0000:00:00.0"));
	assert_false(holds("device", PF, "driver", "a/b"));
	assert_false(holds("sf", PF, "driver", ".."));
	assert_false(holds("sf", PF, "auxiliary", "a/b"));
	assert_false(holds("device", "../pci", "vfs", "1"));
	assert_false(holds("device", "pci/..", "vfs", "1"));
	assert_false(holds("device", "pci/0000:3b:00.0/..", "vfs", "1"));
	assert_false(holds("device", "pci", "vfs", "1"));
}

static void what_an_earlier_run_saved_stays(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "0\n");
	pf_record(&bench, "8", "1");
	save(&bench);
	assert_int_equal(bench.records.count, 1);
	end(&bench);
}

/* ---- restoring */

static void vfs_are_made_without_drivers_and_then_get_theirs(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "0\n");
	driver(folder, "pci", "vfio-pci", "vfio_pci");
	vf(folder, 0, "0000:3b:00.1");
	vf(folder, 1, "0000:3b:00.2");
	pf_record(&bench, "2", "0");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "mlx5_core", NULL);
	(void) vf_record(&bench, "1", "0000:3b:00.2", "vfio-pci", "vfio-pci");
	restore(&bench);
	assert_string_equal(bench.reported.text, "");
	assert_int_equal(bench.result.failures, 0);
	assert_int_equal(bench.result.devices, 1);
	assert_int_equal(bench.result.vfs, 2);
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "2\n");
	expect_text(folder, PCI "drivers/mlx5_core/bind", "0000:3b:00.1");
	expect_text(folder, PCI "drivers/vfio-pci/bind", "0000:3b:00.2");
	expect_text(folder, PCI "devices/0000:3b:00.1/driver_override", "(null)\n");
	expect_text(folder, PCI "devices/0000:3b:00.2/driver_override", "vfio-pci");
	expect_text(folder, PCI "drivers/mlx5_core/unbind", "");
	/* Off for the making, on for the drivers, and off as it was. */
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_drivers_autoprobe", "0\n");
	end(&bench);
}

/* Off for the making, and on as it was, though no VF had a driver. */
static void autoprobe_comes_back_also_without_drivers(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "0\n");
	vf(folder, 0, "0000:3b:00.1");
	pf_record(&bench, "1", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", NULL, NULL);
	restore(&bench);
	assert_int_equal(bench.result.failures, 0);
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "1\n");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_drivers_autoprobe", "1\n");
	end(&bench);
}

static void what_is_right_is_not_touched(void **state)
{
	const struct folder *folder = *state;
	struct stat before;
	struct stat after;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "1\n");
	vf(folder, 0, "0000:3b:00.1");
	driven_by(folder, "pci", "0000:3b:00.1", "mlx5_core");
	save(&bench);
	assert_int_equal(
		fstatat(folder->fd, PCI "devices/0000:3b:00.0/sriov_numvfs", &before, 0), 0);
	restore(&bench);
	assert_int_equal(
		fstatat(folder->fd, PCI "devices/0000:3b:00.0/sriov_numvfs", &after, 0), 0);
	assert_int_equal(bench.result.failures, 0);
	assert_int_equal(bench.result.vfs, 1);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	expect_text(folder, PCI "drivers/mlx5_core/bind", "");
	expect_text(folder, PCI "drivers/mlx5_core/unbind", "");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_drivers_autoprobe", "1\n");
	end(&bench);
}

static void a_vf_that_autoprobe_gave_away_comes_back(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "1\n");
	unlink_path(folder, PCI "devices/0000:3b:00.0/sriov_drivers_autoprobe");
	driver(folder, "pci", "vfio-pci", "vfio_pci");
	vf(folder, 0, "0000:3b:00.1");
	driven_by(folder, "pci", "0000:3b:00.1", "mlx5_core");
	pf_record(&bench, "1", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "vfio-pci", "vfio-pci");
	restore(&bench);
	assert_int_equal(bench.result.failures, 0);
	expect_text(folder, PCI "drivers/mlx5_core/unbind", "0000:3b:00.1");
	expect_text(folder, PCI "drivers/vfio-pci/bind", "0000:3b:00.1");
	end(&bench);
}

static void a_vf_that_was_given_away_is_left(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "1\n");
	driver(folder, "pci", "vfio-pci", "vfio_pci");
	vf(folder, 0, "0000:3b:00.1");
	driven_by(folder, "pci", "0000:3b:00.1", "vfio-pci");
	pf_record(&bench, "1", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "mlx5_core", NULL);
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported.first,
		"VF 0 of " PF " (0000:3b:00.1) is bound to vfio-pci now (before: mlx5_core)");
	expect_text(folder, PCI "drivers/vfio-pci/unbind", "");
	expect_text(folder, PCI "drivers/mlx5_core/bind", "");
	end(&bench);
}

static void other_numbers_of_vfs_are_left(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "4\n");
	pf_record(&bench, "8", "1");
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported.text,
		PF " has 4 VFs, which were created since then, and had 8: they are left as they "
		   "are");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "4\n");
	end(&bench);
}

static void a_missing_driver_is_named_and_the_rest_goes_on(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "2\n");
	vf(folder, 0, "0000:3b:00.1");
	vf(folder, 1, "0000:3b:00.2");
	pf_record(&bench, "2", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "vfio-pci", "vfio-pci");
	(void) vf_record(&bench, "1", "0000:3b:00.2", "mlx5_core", NULL);
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported.first,
		"VF 0 of " PF " (0000:3b:00.1) could not be bound to vfio-pci: that driver is not "
		"loaded");
	expect_text(folder, PCI "drivers/mlx5_core/bind", "0000:3b:00.2");
	end(&bench);
}

static void a_device_that_does_not_come_is_reported_and_the_others_come(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;
	struct record *record;

	begin(&bench, folder);
	record = statefile_add(&bench.records, "device");
	assert_int_equal(record_set(record, "device", "pci/0000:af:00.0"), 0);
	pf(folder, "0\n");
	vf(folder, 0, "0000:3b:00.1");
	pf_record(&bench, "1", "1");
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_int_equal(bench.result.devices, 1);
	assert_contains(bench.reported.first,
		"pci/0000:af:00.0 is not ready after 50 ms: no driver is bound to it");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "1\n");
	end(&bench);
}

/* Its interface is in another network namespace, say. */
static void a_pf_without_its_interface_gets_the_rest(void **state)
{
	const struct folder *folder = *state;
	struct record *record;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "0\n");
	vf(folder, 0, "0000:3b:00.1");
	pf_record(&bench, "1", "1");
	record = vf_record(&bench, "0", "0000:3b:00.1", "mlx5_core", NULL);
	assert_int_equal(record_set(record, "vlan", "7"), 0);
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(
		bench.reported.first, PF " is not ready after 50 ms: it has no network interface");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "1\n");
	expect_text(folder, PCI "drivers/mlx5_core/bind", "0000:3b:00.1");
	end(&bench);
}

/* ---- work side by side */

static enum job_status work(const struct run *run, void *context, size_t index)
{
	const int *dies = context;

	if ((int) index == *dies)
		(void) raise(SIGKILL);
	if (index % 2)
		run_failure(run, "job %zu\nfails", index);
	run_note(run, "done");
	return index == 1 ? JOB_ABSENT : JOB_DONE;
}

static enum job_status share_work(const struct run *run, void *context, size_t index)
{
	struct error error = { 0 };

	(void) index;
	return pool_run(run, 4, 3, work, context, NULL, &error) == 0 ? JOB_DONE : JOB_LOST;
}

static void every_job_is_done_and_reported(void **state)
{
	struct bench bench;
	int dies = -1;

	begin(&bench, *state);
	assert_int_equal(pool_run(&bench.run, 100, 7, work, &dies, NULL, &bench.error), 0);
	assert_int_equal(bench.reported.done, 100);
	assert_int_equal(bench.result.failures, 50);
	assert_contains(bench.reported.text, "job 99 fails\n");
	bench.result = (struct netstate_result){ 0 };
	bench.reported.done = 0;
	assert_int_equal(pool_run(&bench.run, 5, 5, share_work, &dies, NULL, &bench.error), 0);
	assert_int_equal(bench.reported.done, 20);
	assert_int_equal(bench.result.failures, 10);
	end(&bench);
}

static void a_job_that_dies_is_a_failure(void **state)
{
	struct bench bench;
	int dies = 2;

	begin(&bench, *state);
	assert_int_equal(pool_run(&bench.run, 4, 4, work, &dies, NULL, &bench.error), 0);
	assert_int_equal(bench.reported.done, 3);
	assert_int_equal(bench.result.failures, 3);
	assert_contains(bench.reported.text, "was ended by signal 9");
	end(&bench);
}

/* ---- what is pending after a restore */

static void what_no_process_got_to_is_lost(void **state)
{
	enum job_status statuses[4] = { JOB_LOST, JOB_LOST, JOB_LOST, JOB_LOST };
	struct bench bench;
	int dies = 2;

	begin(&bench, *state);
	assert_int_equal(pool_run(&bench.run, 4, 4, work, &dies, statuses, &bench.error), 0);
	assert_int_equal(statuses[0], JOB_DONE);
	assert_int_equal(statuses[1], JOB_ABSENT);
	assert_int_equal(statuses[2], JOB_LOST);
	assert_int_equal(statuses[3], JOB_DONE);
	end(&bench);
}

static void only_an_absent_device_is_left_of_the_records(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;
	struct record *record;

	begin(&bench, folder);
	folder_write_text(folder, "proc/sys/kernel/random/boot_id", "this-boot\n");
	record = statefile_add(&bench.records, "boot");
	assert_int_equal(record_set(record, "id", "this-boot"), 0);
	record = statefile_add(&bench.records, "device");
	assert_int_equal(record_set(record, "device", "pci/0000:af:00.0"), 0);
	pf(folder, "0\n");
	vf(folder, 0, "0000:3b:00.1");
	pf_record(&bench, "1", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "mlx5_core", NULL);
	restore(&bench);
	assert_int_equal(bench.records.count, 2);
	assert_string_equal(record_get(&bench.records.items[0], "id"), "this-boot");
	assert_string_equal(record_get(&bench.records.items[1], "device"), "pci/0000:af:00.0");
	end(&bench);
}

static void a_damaged_record_does_not_cost_the_others(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;
	struct record *record;

	begin(&bench, folder);
	record = statefile_add(&bench.records, "sf");
	assert_int_equal(record_set(record, "device", "no device's name"), 0);
	pf(folder, "0\n");
	vf(folder, 0, "0000:3b:00.1");
	pf_record(&bench, "1", "1");
	restore(&bench);
	assert_int_equal(bench.result.failures, 1);
	assert_contains(bench.reported.first, "damaged record of the kind sf (record 1)");
	expect_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "1\n");
	assert_int_equal(bench.records.count, 0);
	end(&bench);
}

static void what_the_host_has_set_up_since_is_newer(void **state)
{
	const struct folder *folder = *state;
	struct bench bench;

	begin(&bench, folder);
	pf(folder, "0\n");
	pf_record(&bench, "8", "1");
	(void) vf_record(&bench, "0", "0000:3b:00.1", "mlx5_core", NULL);
	devices_forget_set_up(&bench.run);
	assert_int_equal(bench.records.count, 2);
	folder_write_text(folder, PCI "devices/0000:3b:00.0/sriov_numvfs", "4\n");
	devices_forget_set_up(&bench.run);
	assert_int_equal(bench.records.count, 0);
	assert_contains(bench.reported.text, PF " was configured after");
	end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(devices_of_any_bus_but_no_vfs_and_no_parts),
		folder_test(what_sys_says_is_read),
		folder_test(a_subfunctions_auxiliary_device_is_found_by_its_number),
		folder_test(the_state_has_all_of_it),
		folder_test(what_an_earlier_version_saved_is_all_read),
		folder_test(what_a_driver_did_not_know_stays_unknown),
		folder_test(a_record_without_its_number_is_refused),
		folder_test(a_name_that_leads_elsewhere_is_refused),
		folder_test(what_an_earlier_run_saved_stays),
		folder_test(vfs_are_made_without_drivers_and_then_get_theirs),
		folder_test(autoprobe_comes_back_also_without_drivers),
		folder_test(what_is_right_is_not_touched),
		folder_test(a_vf_that_autoprobe_gave_away_comes_back),
		folder_test(a_vf_that_was_given_away_is_left),
		folder_test(other_numbers_of_vfs_are_left),
		folder_test(a_missing_driver_is_named_and_the_rest_goes_on),
		folder_test(a_device_that_does_not_come_is_reported_and_the_others_come),
		folder_test(a_pf_without_its_interface_gets_the_rest),
		folder_test(every_job_is_done_and_reported),
		folder_test(a_job_that_dies_is_a_failure),
		folder_test(what_no_process_got_to_is_lost),
		folder_test(only_an_absent_device_is_left_of_the_records),
		folder_test(a_damaged_record_does_not_cost_the_others),
		folder_test(what_the_host_has_set_up_since_is_newer),
	};

	return cmocka_run_group_tests_name("net_devices", tests, NULL, NULL);
}

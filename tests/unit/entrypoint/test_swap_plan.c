/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a swap from a folder that shows modules as /sys/module does. */
#include "tests/unit/mutant.h"
#include "tests/unit/nic_parameters.h"
#include "tests/unit/node_folder.h"

#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"

#define TREE "lib/modules/" KREL
#define SET  TREE "/updates/ofed/"

#define OURS   0x67 /* the last byte of the fixtures' own build id */
#define OTHERS 0x11

/* A node, and an image whose set is a few fixtures under OFED's names. */
struct bench {
	const struct folder *folder;
	struct nic nic;
	struct loader *loader;
	struct swap_plan plan;
	struct action action;
};

/* mlx5_core needs a symbol of ib_uverbs, mlx5_fwctl one of fwctl; the others need nothing. */
static void make_image(const struct folder *folder)
{
	static const char *const fwctl_offers[] = { "link_n", "link_x", "link_s", "link_n", NULL };
	_cleanup_mutant_ struct mutant fwctl = { 0 };

	mutant_make(&fwctl, "link", fwctl_offers, NULL, 0);
	folder_write(folder, SET "fwctl.ko", fwctl.data, fwctl.size);
	copy_fixture(folder, "link", SET "mlx5_fwctl.ko");
	copy_fixture(folder, "exporter", SET "ib_uverbs.ko");
	copy_fixture(folder, "peer", SET "mlx5_core.ko");
	copy_fixture(folder, "parameters", SET "ib_umad.ko");
	copy_fixture(folder, "parameters", SET "rpcrdma.ko");
	copy_fixture(folder, "parameters", SET "mlx5_vdpa.ko");
	copy_fixture(folder, "parameters", SET "nvme_core.ko");
	run_depmod(folder, "");
}

static void open_bench(struct bench *bench, const struct folder *folder)
{
	static const char *const set[] = { "ib_uverbs", "mlx5_core", "ib_umad", "rpcrdma",
		"mlx5_vdpa", "nvme_core", "mlx5_fwctl", "fwctl" };
	struct role *role = &bench->nic.role;

	*bench = (struct bench){ .folder = folder };
	role->name = "nic";
	role->state_folder = NIC_STATE_FOLDER;
	role->root_fd = folder->fd;
	(void) snprintf(role->krel, sizeof(role->krel), "%s", KREL);
	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		assert_int_equal(strv_push(&role->driver_modules, set[i]), 0);
	assert_int_equal(
		nic_inputs_read(&bench->nic.inputs, folder->fd, NULL, &bench->action.error), 0);
	bench->action.role = role;
	make_image(folder);
	assert_int_equal(
		loader_open(folder->fd, folder->path, KREL, &bench->loader, &bench->action.error),
		0);
}

static void close_bench(struct bench *bench)
{
	swap_plan_free(&bench->plan);
	loader_close(&bench->loader);
	nic_inputs_free(&bench->nic.inputs);
	strv_free(&bench->nic.role.driver_modules);
}

#define _cleanup_bench_ _cleanup_(close_bench)

/* A loaded module of that build, held by the words of @holders. */
static void load(const struct folder *folder, const char *name, unsigned char build, int references,
	const char *holders)
{
	_cleanup_strv_ struct strv list = { 0 };
	char count[16];

	assert_int_equal(strv_split(&list, holders, " "), 0);
	(void) snprintf(count, sizeof(count), "%d\n", references);
	folder_module(folder, name, count, list.count ? (const char *const *) list.items : NULL);
	if (build)
		write_note(folder, name, build);
}

static void load_ours(const struct folder *folder)
{
	load(folder, "ib_uverbs", OURS, 1, "mlx5_core");
	load(folder, "mlx5_core", OURS, 0, "");
	load(folder, "ib_umad", OURS, 0, "");
}

static int make(struct bench *bench)
{
	swap_plan_free(&bench->plan);
	bench->action.error = (struct error){ 0 };
	bench->action.reason = REASON_NONE;
	return swap_plan_make(&bench->action, bench->loader, &bench->plan);
}

static void assert_going(const struct swap_plan *plan, const char *expected)
{
	static const char *const parts[] = { "ours", "storage", "third-party", "auxiliary",
		"peermem", "other" };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < plan->go_count; i++)
		assert_int_equal(
			strv_pushf(&words, "%s:%s", plan->go[i].name, parts[plan->go[i].part]), 0);
	text = words.count ? strv_join(&words, " ") : strdup("");
	assert_string_equal(text, expected);
}

static void an_equal_set_leaves_nothing_to_do(void **state)
{
	_cleanup_bench_ struct bench bench;
	_cleanup_free_ char *loading = NULL;

	open_bench(&bench, *state);
	load_ours(*state);
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
	assert_int_equal(bench.plan.go_count, 0);
	loading = strv_join(&bench.plan.load, " ");
	assert_string_equal(loading, "ib_uverbs ib_umad mlx5_core");
}

/* Storage, third-party drivers and users count only where something has to go. */
static void an_equal_set_refuses_nothing(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "ib_uverbs", OURS, 9, "mlx5_core ib_iser siw");
	load(*state, "ib_iser", OTHERS, 2, "");
	load(*state, "siw", OTHERS, 2, "");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
}

static void a_srcversion_stands_in_for_a_build_id(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load_ours(folder);
	assert_int_equal(
		unlinkat(folder->fd, "sys/module/ib_uverbs/notes/.note.gnu.build-id", 0), 0);
	folder_write_text(folder, "sys/module/ib_uverbs/srcversion", "0123456789ABCDEF0123456\n");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
	folder_write_text(folder, "sys/module/ib_uverbs/srcversion", "1123456789ABCDEF0123456\n");
	assert_int_equal(make(&bench), 0);
	assert_false(bench.plan.same);
	assert_going(&bench.plan, "mlx5_core:ours ib_uverbs:ours");
}

static void on_an_empty_node_nothing_goes(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	folder_subfolder(*state, "sys/module");
	assert_int_equal(make(&bench), 0);
	assert_false(bench.plan.same);
	assert_int_equal(bench.plan.go_count, 0);
	assert_int_equal(bench.plan.load.count, 3);
}

/* A killed start left half of our modules. */
static void what_is_missing_is_loaded_and_nothing_goes(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load(*state, "ib_uverbs", OURS, 0, "");
	assert_int_equal(make(&bench), 0);
	assert_false(bench.plan.same);
	assert_int_equal(bench.plan.go_count, 0);
}

static void holders_go_first_and_peermem_before_all(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load(*state, "ib_uverbs", OTHERS, 4, "mlx5_core nvidia_peermem rds_rdma mlx5_dpll");
	load(*state, "mlx5_core", OTHERS, 1, "mlx5_dpll");
	load(*state, "mlx5_dpll", OTHERS, 0, "");
	load(*state, "rds_rdma", OTHERS, 0, "");
	load(*state, "nvidia_peermem", OTHERS, 3, "");
	folder_write_text(*state, "sys/module/mlx5_core/parameters/prof_sel", "2\n");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "nvidia_peermem:peermem mlx5_dpll:auxiliary mlx5_core:ours "
				  "rds_rdma:other ib_uverbs:ours");
	assert_string_equal(bench.plan.go[2].options, "prof_sel=2");
	assert_string_equal(bench.plan.go[0].options, "");
	assert_int_equal(strlen(bench.plan.go[2].build_id), 40);
}

/* Only what differs goes, with what holds it. */
static void third_party_stays_where_its_core_does(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "mlx5_core", OTHERS, 0, "");
	load(*state, "ib_uverbs", OURS, 2, "mlx5_core siw");
	load(*state, "siw", OTHERS, 5, "");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_core:ours");
}

static void one_that_was_not_asked_for_stays_when_it_may_not_go(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "ib_uverbs", OURS, 2, "mlx5_core rpcrdma");
	load(*state, "rpcrdma", OTHERS, 1, "");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
	bench.nic.inputs.unload_storage = true;
	assert_int_equal(make(&bench), -EBUSY); /* it is in use */
	load(*state, "rpcrdma", OTHERS, 0, "");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "rpcrdma:storage");
}

static void auxiliary_modules_of_the_set_are_compared_too(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "mlx5_core", OURS, 1, "mlx5_vdpa");
	load(*state, "mlx5_vdpa", OTHERS, 0, "");
	assert_int_equal(make(&bench), 0);
	assert_false(bench.plan.same);
	assert_going(&bench.plan, "mlx5_vdpa:auxiliary");
}

/* As by modprobe -r: what only an auxiliary module that goes has needed. */
static void what_auxiliary_modules_need_goes_with_them_unless_it_is_in_use(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "mlx5_core", OTHERS, 1, "mlx5_fwctl");
	load(*state, "mlx5_fwctl", OTHERS, 0, "");
	load(*state, "fwctl", OTHERS, 1, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:auxiliary mlx5_core:ours fwctl:auxiliary");
	assert_false(strv_contains(&bench.plan.load, "fwctl"));
	/* Another module uses it, or a process does. */
	load(*state, "fwctl", OTHERS, 2, "mlx5_fwctl pds_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:auxiliary mlx5_core:ours");
	load(*state, "fwctl", OTHERS, 2, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:auxiliary mlx5_core:ours");
	/* The image's own stays. */
	load(*state, "fwctl", OURS, 1, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:auxiliary mlx5_core:ours");
	/* Another build of it is no reason to replace a driver. */
	load_ours(*state);
	load(*state, "mlx5_fwctl", OURS, 0, "");
	load(*state, "fwctl", OTHERS, 1, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
}

/* The node's root disk may be one. */
static void nvme_of_the_set_is_left_alone(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	load(*state, "nvme_core", OTHERS, 4, "");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
	load(*state, "ib_umad", OTHERS, 0, "");
	bench.nic.inputs.nfsrdma = true;
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "ib_umad:ours");
	assert_false(strv_contains(&bench.plan.load, "nvme_core"));
}

static void nfsrdma_brings_its_transport(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	bench.nic.inputs.nfsrdma = true;
	assert_int_equal(make(&bench), 0);
	assert_false(bench.plan.same);
	assert_true(strv_contains(&bench.plan.load, "rpcrdma"));
	/* Our own container loaded it: a restart finds nothing to do. */
	load(*state, "rpcrdma", OURS, 1, "");
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
	/* An upgrade replaces it, without a word about storage. */
	load(*state, "rpcrdma", OTHERS, 0, "");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "rpcrdma:ours");
}

static void other_parameters_are_another_driver(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load_ours(*state);
	write_nic_parameters(
		*state, (const char *const[]){ "ib_uverbs ", "mlx5_core prof_sel=2", NULL });
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_core:ours");
	write_nic_parameters(*state, (const char *const[]){ "ib_uverbs ", "mlx5_core ", NULL });
	assert_int_equal(make(&bench), 0);
	assert_true(bench.plan.same);
}

static void every_refusal_is_in_one_message(void **state)
{
	_cleanup_bench_ struct bench bench;
	const char *text;

	open_bench(&bench, *state);
	load(*state, "ib_uverbs", OTHERS, 6, "ib_iser nvme_rdma siw irdma");
	load(*state, "ib_iser", OTHERS, 0, "");
	load(*state, "nvme_rdma", OTHERS, 3, "");
	load(*state, "siw", OTHERS, 0, "");
	load(*state, "irdma", OTHERS, 0, "");
	assert_int_equal(make(&bench), -EBUSY);
	assert_int_equal(bench.action.reason, REASON_MODULE_IN_USE);
	text = bench.action.error.text;
	assert_contains(text, "nothing was touched: ");
	assert_contains(text, "ib_iser, nvme_rdma (storage over RDMA) must be unloaded: set "
			      "UNLOAD_STORAGE_MODULES=true");
	assert_contains(text, "irdma, siw (third-party RDMA) must be unloaded: set "
			      "UNLOAD_THIRD_PARTY_RDMA_MODULES=true");
	assert_contains(text, "nvme_rdma is in use: 3 reference(s)");
	assert_contains(text, "ib_uverbs is in use: 2 reference(s)");
}

static void a_flag_lets_its_modules_go(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	load(*state, "ib_uverbs", OTHERS, 2, "ib_iser siw");
	load(*state, "ib_iser", OTHERS, 0, "");
	load(*state, "siw", OTHERS, 0, "");
	bench.nic.inputs.unload_storage = true;
	assert_int_equal(make(&bench), -EBUSY);
	assert_null(strstr(bench.action.error.text, "ib_iser"));
	bench.nic.inputs.unload_third_party = true;
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "ib_iser:storage siw:third-party ib_uverbs:ours");
}

static void who_has_a_device_open_is_named(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load(folder, "ib_uverbs", OTHERS, 1, "");
	folder_write_text(folder, "proc/4711/comm", "ib_write_bw\n");
	folder_subfolder(folder, "proc/4711/fd");
	assert_int_equal(symlinkat("/dev/infiniband/uverbs0", folder->fd, "proc/4711/fd/5"), 0);
	assert_int_equal(make(&bench), -EBUSY);
	assert_contains(bench.action.error.text,
		"ib_uverbs is in use by process 4711 (ib_write_bw, /dev/infiniband/uverbs0)");
}

static void devices_are_not_taken_from_under_their_users(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load_ours(folder);
	load(folder, "mlx5_core", OTHERS, 0, "");
	load(folder, "ib_uverbs", OURS, 3, "mlx5_core");
	load(folder, "ib_core", OTHERS, 2, "mlx5_core ib_uverbs");
	assert_int_equal(make(&bench), 0); /* no driver of RDMA devices: its users do not care */
	folder_subfolder(folder, "sys/module/mlx5_core/drivers/auxiliary:mlx5_ib.rdma");
	assert_int_equal(make(&bench), -EBUSY);
	assert_contains(bench.action.error.text,
		"mlx5_core must be unloaded, but RDMA devices are open: ib_uverbs has 2 "
		"reference(s)");
}

/* NVMe over RDMA and the core of NVMe, say: the image's would not load on another build of that. */
static void what_storage_of_the_image_depends_on_goes_if_nothing_else_uses_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	strv_free(&bench.nic.inputs.auxiliary);
	assert_int_equal(strv_push(&bench.nic.inputs.storage, "mlx5_fwctl"), 0);
	bench.nic.inputs.unload_storage = true;
	load(folder, "ib_uverbs", OTHERS, 1, "mlx5_fwctl");
	load(folder, "mlx5_fwctl", OTHERS, 0, "");
	load(folder, "fwctl", OTHERS, 1, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:storage ib_uverbs:ours fwctl:auxiliary");
	/* A disk of the node uses it. */
	load(folder, "fwctl", OTHERS, 2, "mlx5_fwctl");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "mlx5_fwctl:storage ib_uverbs:ours");
}

static void a_driver_that_the_image_lacks_does_not_go(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load(folder, "ib_uverbs", OTHERS, 1, "mlx4_ib");
	load(folder, "mlx4_ib", OTHERS, 0, "");
	assert_int_equal(make(&bench), 0);
	folder_subfolder(folder, "sys/module/mlx4_ib/drivers/pci:mlx4_ib");
	assert_int_equal(make(&bench), -EBUSY);
	assert_contains(bench.action.error.text, "mlx4_ib drives devices and must be unloaded");
}

static void a_function_in_a_virtual_machine_keeps_its_driver(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load(folder, "mlx5_core", OTHERS, 0, "");
	load(folder, "vfio_pci", OTHERS, 0, "");
	folder_subfolder(folder, "sys/module/mlx5_core/drivers/pci:mlx5_core/0000:3b:00.0");
	folder_subfolder(folder, "sys/devices/0000:3b:00.2/driver");
	assert_int_equal(symlinkat("/sys/module/vfio_pci", folder->fd,
				 "sys/devices/0000:3b:00.2/driver/module"),
		0);
	assert_int_equal(symlinkat("../../../../../devices/0000:3b:00.2", folder->fd,
				 "sys/module/mlx5_core/drivers/pci:mlx5_core/0000:3b:00.0/virtfn0"),
		0);
	assert_int_equal(make(&bench), 0); /* no process has it open */
	load(folder, "vfio_pci", OTHERS, 1, "");
	assert_int_equal(make(&bench), -EBUSY);
	assert_contains(bench.action.error.text,
		"a virtual function of 0000:3b:00.0 is passed through by vfio_pci, which is in "
		"use");
}

static void a_module_of_the_kernel_itself_cannot_go(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	folder_subfolder(*state, "sys/module/ib_uverbs/parameters");
	assert_int_equal(make(&bench), -EBUSY);
	assert_contains(bench.action.error.text, "ib_uverbs cannot be unloaded: it is built in");
}

/* Between the comparison and the unloading: the GPU pod stops, say. */
static void a_module_that_is_gone_by_now_keeps_nothing_from_going(void **state)
{
	const struct folder *folder = *state;
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, folder);
	load(folder, "ib_uverbs", OTHERS, 1, "nvidia_peermem");
	load(folder, "nvidia_peermem", OTHERS, 0, "");
	assert_int_equal(make(&bench), 0);
	assert_going(&bench.plan, "nvidia_peermem:peermem ib_uverbs:ours");
	assert_int_equal(fs_remove_tree(folder->fd, "sys/module/nvidia_peermem"), 0);
	assert_int_equal(
		fs_remove_tree(folder->fd, "sys/module/ib_uverbs/holders/nvidia_peermem"), 0);
	folder_write_text(folder, "sys/module/ib_uverbs/refcnt", "0\n");
	assert_int_equal(nic_refuse(&bench.action, &bench.plan), 0);
	/* One that is there, and shows no count, is still no module. */
	assert_int_equal(unlinkat(folder->fd, "sys/module/ib_uverbs/refcnt", 0), 0);
	assert_int_equal(nic_refuse(&bench.action, &bench.plan), -EBUSY);
	assert_contains(bench.action.error.text, "ib_uverbs cannot be unloaded: it is built in");
}

static void an_image_without_its_first_module_is_refused(void **state)
{
	_cleanup_bench_ struct bench bench;

	open_bench(&bench, *state);
	(void) snprintf(bench.nic.role.image.modules, sizeof(bench.nic.role.image.modules),
		"netdevsim ib_umad");
	assert_int_equal(make(&bench), -ENOENT);
	assert_int_equal(bench.action.reason, REASON_WILL_NOT_LOAD);
	assert_contains(bench.action.error.text, "the image has no module netdevsim");
	(void) snprintf(bench.nic.role.image.modules, sizeof(bench.nic.role.image.modules),
		"ib_umad netdevsim");
	assert_int_equal(make(&bench), 0);
	assert_int_equal(bench.plan.load.count, 1);
}

static void a_plan_is_read_as_it_was_written(void **state)
{
	const struct folder *folder = *state;
	_cleanup_journal_ struct journal journal = { 0 };
	_cleanup_journal_ struct journal read = { 0 };
	const struct swap_plan *again = &read.plan;
	_cleanup_bench_ struct bench bench;
	struct error error;

	open_bench(&bench, folder);
	load(folder, "ib_uverbs", OTHERS, 1, "mlx5_core");
	load(folder, "mlx5_core", 0, 0, "");
	folder_write_text(folder, "sys/module/mlx5_core/parameters/text", "a b=c %25\n");
	assert_int_equal(make(&bench), 0);
	journal.plan = bench.plan;
	assert_int_equal(journal_write(folder->fd, &journal, &error), 0);
	journal.plan = (struct swap_plan){ .same = false };
	assert_int_equal(journal_read(folder->fd, &read, &error), 0);
	assert_false(again->same);
	assert_going(again, "mlx5_core:ours ib_uverbs:ours");
	assert_string_equal(again->go[0].options, "text=\"a b=c %25\"");
	assert_string_equal(again->go[0].build_id, "");
	assert_string_equal(again->go[1].build_id, bench.plan.go[1].build_id);
	assert_int_equal(again->load.count, bench.plan.load.count);
	assert_string_equal(again->load.items[0], "ib_uverbs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_equal_set_leaves_nothing_to_do),
		folder_test(an_equal_set_refuses_nothing),
		folder_test(a_srcversion_stands_in_for_a_build_id),
		folder_test(on_an_empty_node_nothing_goes),
		folder_test(what_is_missing_is_loaded_and_nothing_goes),
		folder_test(holders_go_first_and_peermem_before_all),
		folder_test(third_party_stays_where_its_core_does),
		folder_test(one_that_was_not_asked_for_stays_when_it_may_not_go),
		folder_test(auxiliary_modules_of_the_set_are_compared_too),
		folder_test(what_auxiliary_modules_need_goes_with_them_unless_it_is_in_use),
		folder_test(nvme_of_the_set_is_left_alone),
		folder_test(nfsrdma_brings_its_transport),
		folder_test(other_parameters_are_another_driver),
		folder_test(every_refusal_is_in_one_message),
		folder_test(a_flag_lets_its_modules_go),
		folder_test(who_has_a_device_open_is_named),
		folder_test(devices_are_not_taken_from_under_their_users),
		folder_test(what_storage_of_the_image_depends_on_goes_if_nothing_else_uses_it),
		folder_test(a_driver_that_the_image_lacks_does_not_go),
		folder_test(a_function_in_a_virtual_machine_keeps_its_driver),
		folder_test(a_module_of_the_kernel_itself_cannot_go),
		folder_test(a_module_that_is_gone_by_now_keeps_nothing_from_going),
		folder_test(an_image_without_its_first_module_is_refused),
		folder_test(a_plan_is_read_as_it_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which fabric a node has, and the configuration of its service, with a folder as the node.
 */
#include "tests/unit/support.h"

#include "common/fs.h"
#include "entrypoint/gpu/gpu_internal.h"

static void put_device(const struct folder *node, const char *address, const char *vendor,
	const char *class, const char *device)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/vendor", address);
	folder_write_text(node, path, vendor);
	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", address);
	folder_write_text(node, path, class);
	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/device", address);
	folder_write_text(node, path, device);
}

/*
 * Vital product data as PCI 3.0 lays it out: an identifier (0x82), read-only data (0x90) with
 * keywords of two letters and a length each, the end (0x78).
 */
static void put_vpd(const struct folder *node, const char *address, const char *model)
{
	unsigned char data[160] = { 0x82, 8, 0, 'C', 'o', 'n', 'n', 'e', 'c', 't', 'X' };
	size_t used = 11;
	size_t length = strlen(model);
	char path[128];

	data[used++] = 0x90;
	data[used++] = (unsigned char) (length + 3 + 4);
	data[used++] = 0;
	memcpy(data + used, "SN\001\0", 4);
	used += 4;
	memcpy(data + used, "VA", 2);
	data[used + 2] = (unsigned char) length;
	memcpy(data + used + 3, model, length);
	used += 3 + length;
	data[used++] = 0x78;
	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/vpd", address);
	folder_write(node, path, data, used);
}

static void put_bridge(const struct folder *node, const char *address)
{
	put_device(node, address, "0x15b3\n", "0x020700\n", "0x1021\n");
	put_vpd(node, address, "SMDL=SW_MNG");
}

static struct fabric find(const struct folder *node)
{
	struct fabric fabric;

	fabric_find(node->fd, false, &fabric);
	return fabric;
}

static void no_pci_and_plain_gpus_have_no_fabric(void **state)
{
	const struct folder *node = *state;

	assert_int_equal(find(node).kind, FABRIC_NONE);
	put_device(node, "0000:3b:00.0", "0x10de\n", "0x030200\n", "0x2330\n");
	put_device(node, "0000:5e:00.0", "0x8086\n", "0x068000\n", "0x1af1\n");
	assert_int_equal(find(node).kind, FABRIC_NONE);
}

static void nvswitches_are_bridges_of_nvidias(void **state)
{
	const struct folder *node = *state;

	put_device(node, "0000:3b:00.0", "0x10de\n", "0x030200\n", "0x20b2\n");
	put_device(node, "0000:54:00.0", "0x10de\n", "0x068000\n", "0x1af1\n");
	put_device(node, "0000:55:00.0", "0x10de\n", "0x068000\n", "0x22a3\n");
	assert_int_equal(find(node).kind, FABRIC_NVSWITCH);
	assert_int_equal(find(node).switches, 2);
}

static void a_switch_that_a_virtual_machine_has_is_not_ours(void **state)
{
	const struct folder *node = *state;
	struct fabric fabric;

	put_device(node, "0000:54:00.0", "0x10de\n", "0x068000\n", "0x22a3\n");
	assert_int_equal(symlinkat("../../../drivers/vfio-pci", node->fd,
				 "sys/bus/pci/devices/0000:54:00.0/driver"),
		0);
	assert_int_equal(find(node).kind, FABRIC_NONE);
	/* A start takes it from vfio-pci as it does a GPU, and then it needs its daemon. */
	fabric_find(node->fd, true, &fabric);
	assert_int_equal(fabric.kind, FABRIC_NVSWITCH);
	assert_int_equal(fabric.switches, 1);
}

static void the_bridge_of_nvlink5_shows_by_its_vpd(void **state)
{
	const struct folder *node = *state;
	struct fabric fabric;

	/* A plain ConnectX-7, and one without VPD: the same ids. */
	put_device(node, "0000:1a:00.0", "0x15b3\n", "0x020700\n", "0x1021\n");
	put_vpd(node, "0000:1a:00.0", "MODEL=ConnectX-7 NDR");
	put_device(node, "0000:1b:00.0", "0x15b3\n", "0x020700\n", "0x1021\n");
	assert_int_equal(find(node).kind, FABRIC_NONE);
	put_bridge(node, "0000:ab:00.0");
	put_bridge(node, "0000:ab:00.1");
	fabric = find(node);
	assert_int_equal(fabric.kind, FABRIC_NVLINK5);
	assert_int_equal(fabric.switches, 2);
	assert_string_equal(fabric.bridge, "0000:ab:00.0");
}

static void the_mark_counts_on_infiniband_functions_of_mellanox_only(void **state)
{
	const struct folder *node = *state;

	put_bridge(node, "0000:ab:00.0");
	put_device(node, "0000:ab:00.0", "0x10de\n", "0x020700\n", "0x1021\n");
	put_bridge(node, "0000:ab:00.1");
	put_device(node, "0000:ab:00.1", "0x15b3\n", "0x020000\n", "0x1021\n");
	assert_int_equal(find(node).kind, FABRIC_NONE);
}

static void a_rack_manages_its_own_fabric(void **state)
{
	const struct folder *node = *state;

	put_device(node, "0008:06:00.0", "0x10de\n", "0x030200\n", "0x2941\n");
	put_device(node, "0009:06:00.0", "0x10de\n", "0x068000\n", "0x22a3\n");
	assert_int_equal(find(node).kind, FABRIC_ELSEWHERE);
}

static void put_port(const struct folder *node, const char *address, const char *port,
	const char *mask, const char *gid)
{
	char path[192];

	(void) snprintf(path, sizeof(path),
		"sys/bus/pci/devices/%s/infiniband/mlx5_0/ports/%s/cap_mask", address, port);
	folder_write_text(node, path, mask);
	(void) snprintf(path, sizeof(path),
		"sys/bus/pci/devices/%s/infiniband/mlx5_0/ports/%s/gids/0", address, port);
	folder_write_text(node, path, gid);
}

static void the_port_is_the_first_that_lets_a_subnet_manager_run(void **state)
{
	const struct folder *node = *state;
	struct error error = { 0 };
	struct fabric fabric;

	put_bridge(node, "0000:ab:00.0");
	put_bridge(node, "0000:ab:00.1");
	fabric = find(node);
	assert_int_equal(fabric_find_guid(node->fd, &fabric, &error), -EAGAIN);
	assert_contains(error.text, "0000:ab:00.0");
	put_port(node, "0000:ab:00.0", "1", "0xa751ec48\n",
		"fe80:0000:0000:0000:e09d:7303:003f:3bf8\n");
	assert_int_equal(fabric_find_guid(node->fd, &fabric, &error), -EAGAIN);
	put_port(node, "0000:ab:00.1", "1", "0xa751e848\n",
		"fe80:0000:0000:0000:0000:0000:0000:0000\n");
	assert_int_equal(fabric_find_guid(node->fd, &fabric, &error), -EAGAIN);
	put_port(node, "0000:ab:00.1", "1", "0xa751e848\n",
		"fe80:0000:0000:0000:7425:5403:0035:3de9\n");
	assert_int_equal(fabric_find_guid(node->fd, &fabric, &error), 0);
	assert_string_equal(fabric.guid, "0x7425540300353de9");
}

static void nodes_are_made_of_what_sysfs_has(void **state)
{
	const struct folder *node = *state;
	struct error error = { 0 };
	struct stat status;

	assert_int_equal(fabric_make_nodes(node->fd, &error), -ENOENT);
	folder_write_text(node, "sys/class/infiniband_mad/umad0/dev", "1:3\n");
	folder_write_text(node, "sys/class/infiniband_mad/abi_version", "5\n");
	assert_int_equal(fabric_make_nodes(node->fd, &error), 0);
	assert_int_equal(fabric_make_nodes(node->fd, &error), 0);
	assert_int_equal(fstatat(node->fd, "dev/infiniband/umad0", &status, 0), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_false(fs_exists(node->fd, "dev/infiniband/abi_version"));
}

static void settings_replace_add_and_leave_the_rest(void **state)
{
	char *environment[] = { "PATH=/bin", "NVFM_CONFIG_FABRIC_MODE=1",
		"NVFM_CONFIG_NEW_FIELD=a=b&c|d\\e", "NVFM_CONFIG_=x", "NVFM_CONFIG_A B=x",
		"NVFM_CONFIG_LINES=a\nFABRIC_MODE=2", "NVFM_CONFIG_EMPTY=", NULL };
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	struct error error;
	unsigned ignored;
	unsigned set;

	folder_write_text(node, FM_CONFIG,
		"# FABRIC_MODE=7 is a comment\n\nFABRIC_MODE=0\nFABRIC_MODE_RESTART=0\nLAST=1");
	assert_int_equal(fm_config_apply(node->fd, environment, &set, &ignored, &error), 0);
	text = folder_read_text(node, FM_CONFIG);
	assert_string_equal(text,
		"# FABRIC_MODE=7 is a comment\n\nFABRIC_MODE=1\nFABRIC_MODE_RESTART=0\nLAST=1\n"
		"NEW_FIELD=a=b&c|d\\e\nEMPTY=\n");
	assert_int_equal(set, 3);
	assert_int_equal(ignored, 3);
}

static void settings_go_to_the_file_or_are_an_error_without_one(void **state)
{
	const struct folder *node = *state;
	char *some[] = { "NVFM_CONFIG_FABRIC_MODE=1", NULL };
	char *none[] = { "NVFM=1", NULL };
	struct error error = { 0 };
	unsigned ignored;
	unsigned set;
	_cleanup_free_ char *text = NULL;

	assert_int_equal(fm_config_apply(node->fd, none, &set, &ignored, &error), 0);
	assert_int_equal(fm_config_apply(node->fd, some, &set, &ignored, &error), -ENOENT);
	assert_contains(error.text, FM_CONFIG);
	folder_write_text(node, FM_CONFIG, "DAEMONIZE=1\n");
	assert_int_equal(fm_config_apply(node->fd, some, &set, &ignored, &error), 0);
	text = folder_read_text(node, FM_CONFIG);
	assert_string_equal(text, "DAEMONIZE=1\nFABRIC_MODE=1\n");
}

static void licence_files_go_where_gridd_looks(void **state)
{
	const struct folder *node = *state;
	struct error error = { 0 };
	unsigned tokens;
	bool conf;

	assert_int_equal(vgpu_licence_place(node->fd, true, &conf, &tokens, &error), 0);
	assert_false(conf);
	assert_int_equal(tokens, 0);
	folder_write_text(node, "drivers/gridd.conf", "FeatureType=1\n");
	folder_write_text(
		node, "drivers/ClientConfigToken/client_configuration_token.tok", "secret");
	folder_write_text(node, "drivers/ClientConfigToken/..data/x", "the kubelet's own");
	assert_int_equal(vgpu_licence_place(node->fd, false, &conf, &tokens, &error), 0);
	assert_true(conf);
	assert_int_equal(tokens, 0);
	assert_int_equal(vgpu_licence_place(node->fd, true, &conf, &tokens, &error), 0);
	assert_int_equal(tokens, 1);
	assert_true(fs_exists(node->fd, "etc/nvidia/gridd.conf"));
	assert_true(
		fs_exists(node->fd, "etc/nvidia/ClientConfigToken/client_configuration_token.tok"));
}

static void put_program(const struct folder *node, const char *path)
{
	folder_write_text(node, path, "#!/bin/sh\n");
	assert_int_equal(fchmodat(node->fd, path, 0755, 0), 0);
}

static void what_a_node_cannot_do_without_is_named_before_anything_happens(void **state)
{
	const struct folder *node = *state;
	const struct fabric nvlink5 = { .kind = FABRIC_NVLINK5 };
	const struct fabric nvswitch = { .kind = FABRIC_NVSWITCH };
	const struct fabric none = { .kind = FABRIC_NONE };
	struct error error = { 0 };

	assert_int_equal(daemons_check(node->fd, &none, VGPU_NO, &error), 0);
	assert_int_equal(daemons_check(node->fd, &none, VGPU_PASSED_THROUGH, &error), 0);
	assert_int_equal(daemons_check(node->fd, &none, VGPU_GUEST, &error), -ENOENT);
	assert_contains(error.text, "nvidia-gridd");
	assert_int_equal(daemons_check(node->fd, &nvswitch, VGPU_NO, &error), -ENOENT);
	assert_contains(error.text, "nv-fabricmanager");
	put_program(node, "usr/bin/nv-fabricmanager");
	assert_int_equal(daemons_check(node->fd, &nvswitch, VGPU_NO, &error), 0);
	assert_int_equal(daemons_check(node->fd, &nvlink5, VGPU_NO, &error), -ENOENT);
	assert_contains(error.text, "nvlsm");
	put_program(node, "opt/nvidia/nvlsm/sbin/nvlsm");
	assert_int_equal(daemons_check(node->fd, &nvlink5, VGPU_NO, &error), 0);
}

/* Configuration space with one capability of @id at 0x60, and @text behind its length. */
static void put_config(const struct folder *node, const char *address, unsigned char id,
	const char *text, size_t size)
{
	size_t length = strlen(text);
	unsigned char config[256] = { 0xde, 0x10 };
	char path[128];

	config[0x06] = 0x10; /* the status: there is a list of capabilities */
	config[0x34] = 0x60;
	config[0x60] = id;
	config[0x62] = (unsigned char) (3 + length);
	for (size_t i = 0; i < length; i++)
		config[0x63 + i] = (unsigned char) text[i];
	(void) snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/config", address);
	folder_write(node, path, config, size);
}

static void a_vgpu_shows_by_its_capability(void **state)
{
	static const char gpu[] = "0000:02:00.0";
	const struct folder *node = *state;

	put_device(node, gpu, "0x10de\n", "0x030200\n", "0x20b5\n");
	assert_int_equal(vgpu_find(node->fd, false), VGPU_NO);
	assert_int_equal(vgpu_find(node->fd, true), VGPU_GUEST); /* unreadable */
	put_config(node, gpu, 9, "VF\001", 64);                  /* and for others than root */
	assert_int_equal(vgpu_find(node->fd, true), VGPU_GUEST);
	put_config(node, gpu, 9, "VF\001", 256);
	assert_int_equal(vgpu_find(node->fd, true), VGPU_GUEST);
	put_config(node, gpu, 9, "P2P", 256);
	assert_int_equal(vgpu_find(node->fd, true), VGPU_PASSED_THROUGH);
	put_config(node, gpu, 5, "VF\001", 256);
	assert_int_equal(vgpu_find(node->fd, true), VGPU_PASSED_THROUGH);
	/* One of two GPUs is enough. */
	put_device(node, "0000:03:00.0", "0x10de\n", "0x030000\n", "0x20b5\n");
	put_config(node, "0000:03:00.0", 9, "VF", 256);
	assert_int_equal(vgpu_find(node->fd, true), VGPU_GUEST);
}

static void expect_order(
	const struct folder *node, const struct fabric *fabric, enum vgpu vgpu, const char *order)
{
	struct events events = { .signal_fd = -1 };
	struct supervisor supervisor = { .root_fd = node->fd, .events = &events };
	char text[256] = "";

	assert_int_equal(daemons_declare(&supervisor, fabric, vgpu), 0);
	for (size_t i = 0; i < supervisor.count; i++) {
		size_t used = strlen(text);

		(void) snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "",
			supervisor.daemons[i].name);
	}
	assert_string_equal(text, order);
	supervisor_close(&supervisor);
}

static void daemons_have_their_order(void **state)
{
	const struct folder *node = *state;
	const struct fabric nvlink5 = { .kind = FABRIC_NVLINK5, .guid = "0x1" };
	const struct fabric nvswitch = { .kind = FABRIC_NVSWITCH };
	const struct fabric none = { .kind = FABRIC_NONE };

	expect_order(node, &none, VGPU_NO, "");
	expect_order(node, &none, VGPU_PASSED_THROUGH, "");
	put_program(node, "usr/bin/nvidia-gridd");
	put_program(node, "usr/bin/nv-fabricmanager");
	put_program(node, "opt/nvidia/nvlsm/sbin/nvlsm");
	put_program(node, "usr/bin/nvidia-imex");
	expect_order(node, &none, VGPU_GUEST, "nvidia-gridd");
	put_program(node, "usr/bin/nvidia-persistenced");
	put_program(node, "usr/bin/nvidia-topologyd");
	expect_order(node, &none, VGPU_NO, "nvidia-persistenced");
	expect_order(node, &none, VGPU_GUEST, "nvidia-persistenced nvidia-gridd nvidia-topologyd");
	expect_order(node, &none, VGPU_PASSED_THROUGH,
		"nvidia-persistenced nvidia-gridd nvidia-topologyd");
	expect_order(node, &nvswitch, VGPU_NO, "nvidia-persistenced nv-fabricmanager");
	expect_order(node, &nvlink5, VGPU_NO, "nvidia-persistenced nvlsm nv-fabricmanager");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(no_pci_and_plain_gpus_have_no_fabric),
		folder_test(nvswitches_are_bridges_of_nvidias),
		folder_test(a_switch_that_a_virtual_machine_has_is_not_ours),
		folder_test(the_bridge_of_nvlink5_shows_by_its_vpd),
		folder_test(the_mark_counts_on_infiniband_functions_of_mellanox_only),
		folder_test(a_rack_manages_its_own_fabric),
		folder_test(the_port_is_the_first_that_lets_a_subnet_manager_run),
		folder_test(nodes_are_made_of_what_sysfs_has),
		folder_test(settings_replace_add_and_leave_the_rest),
		folder_test(settings_go_to_the_file_or_are_an_error_without_one),
		folder_test(licence_files_go_where_gridd_looks),
		folder_test(what_a_node_cannot_do_without_is_named_before_anything_happens),
		folder_test(a_vgpu_shows_by_its_capability),
		folder_test(daemons_have_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

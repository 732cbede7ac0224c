/* SPDX-License-Identifier: Apache-2.0 */
/* slipway-init topo, with a folder as the node. */
#include "tests/unit/support.h"

#include <linux/pci_regs.h>
#include <stdio.h>
#include <unistd.h>

#include "common/fs.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/pci_config.h"
#include "entrypoint/topo/topo.h"

#define GPU_ID  "0x10de 0x2330 0x030200"
#define NIC_ID  "0x15b3 0x1021 0x020000"
#define PORT_ID "0x1000 0xc030 0x060400"

static void put_value(
	const struct folder *node, const char *folder, const char *file, const char *value)
{
	char path[512];

	(void) snprintf(path, sizeof(path), "%s/%s", folder, file);
	folder_write_text(node, path, value);
}

/*
 * Makes a function in @place below sys/devices ("pci0000:15/0000:15:01.0/0000:16:00.0"), with its
 * link below sys/bus, as the kernel does. @id: vendor, device, class.
 */
static const char *put_function(
	const struct folder *node, const char *place, const char *id, const char *numa_node)
{
	const char *address = strrchr(place, '/') + 1;
	char words[3][16], folder[256], link[128], target[256];

	assert_int_equal(sscanf(id, "%15s %15s %15s", words[0], words[1], words[2]), 3);
	(void) snprintf(folder, sizeof(folder), "sys/devices/%s", place);
	put_value(node, folder, "vendor", words[0]);
	put_value(node, folder, "device", words[1]);
	put_value(node, folder, "class", words[2]);
	put_value(node, folder, "numa_node", numa_node);
	folder_subfolder(node, PCI_DEVICES);
	(void) snprintf(link, sizeof(link), PCI_DEVICES "/%s", address);
	(void) snprintf(target, sizeof(target), "../../../devices/%s", place);
	assert_int_equal(symlinkat(target, node->fd, link), 0);
	return address;
}

static void put_attribute(
	const struct folder *node, const char *address, const char *file, const char *value)
{
	char folder[128];

	(void) snprintf(folder, sizeof(folder), PCI_DEVICES "/%s", address);
	put_value(node, folder, file, value);
}

static void put_link(const struct folder *node, const char *address, const char *width,
	const char *max_width, const char *speed, const char *max_speed)
{
	put_attribute(node, address, "current_link_width", width);
	put_attribute(node, address, "max_link_width", max_width);
	put_attribute(node, address, "current_link_speed", speed);
	put_attribute(node, address, "max_link_speed", max_speed);
}

static void put_group(const struct folder *node, const char *address, const char *group)
{
	char link[128], target[64];

	(void) snprintf(link, sizeof(link), PCI_DEVICES "/%s/iommu_group", address);
	(void) snprintf(target, sizeof(target), "../../../kernel/iommu_groups/%s", group);
	assert_int_equal(symlinkat(target, node->fd, link), 0);
}

/* @device: the folder below sys/devices that it belongs to; "" for one of software. */
static void put_rdma(const struct folder *node, const char *name, const char *device)
{
	char link[128], target[256];

	(void) snprintf(link, sizeof(link), "sys/class/infiniband/%s", name);
	folder_subfolder(node, link);
	if (!*device)
		return;
	(void) snprintf(link, sizeof(link), "sys/class/infiniband/%s/device", name);
	(void) snprintf(target, sizeof(target), "../../../devices/%s", device);
	assert_int_equal(symlinkat(target, node->fd, link), 0);
}

static void put_extended(unsigned char *config, size_t at, unsigned id, size_t next)
{
	config[at] = (unsigned char) id;
	config[at + 1] = (unsigned char) (id >> 8);
	config[at + 2] = (unsigned char) (1 | next << 4);
	config[at + 3] = (unsigned char) (next >> 4);
}

/* A PCI Express port: AER at 0x100, then ACS with the control @acs. */
static void make_config(unsigned char config[PCI_CONFIG_SIZE_EXP], unsigned acs)
{
	memset(config, 0, PCI_CONFIG_SIZE_EXP);
	config[PCI_STATUS] = PCI_STATUS_CAP_LIST;
	config[PCI_CAPABILITY_LIST] = 0x40;
	config[0x40] = PCI_CAP_ID_PM;
	config[0x41] = 0x68;
	config[0x68] = PCI_CAP_ID_EXP;
	put_extended(config, 0x100, PCI_EXT_CAP_ID_ERR, 0x148);
	put_extended(config, 0x148, PCI_EXT_CAP_ID_ACS, 0);
	config[0x148 + PCI_ACS_CTRL] = (unsigned char) acs;
}

static void put_acs(const struct folder *node, const char *address, unsigned acs, size_t size)
{
	unsigned char config[PCI_CONFIG_SIZE_EXP];
	char path[128];

	make_config(config, acs);
	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/config", address);
	folder_write(node, path, config, size);
}

/* Returns what topo prints; the caller frees it. */
static char *topo_of(const struct folder *node, bool json, int expected)
{
	struct capture capture = capture_start();
	int code = topo_main(node->fd, json);
	char *text = capture_end(&capture);

	assert_int_equal(code, expected);
	assert_true(*text);
	return text;
}

#define ROOT_PORT "pci0000:15/0000:15:01.0"
#define SWITCH    ROOT_PORT "/0000:16:00.0"

/*
 * Two sockets. On the first a switch with a GPU, a NIC and, below a second switch, another NIC;
 * a NIC on another root port; one on another host bridge. On the second a GPU and a NIC of
 * Broadcom's, each with a host bridge of its own.
 */
static void put_server(const struct folder *node)
{
	(void) put_function(node, ROOT_PORT, PORT_ID, "0");
	(void) put_function(node, SWITCH, PORT_ID, "0");
	put_acs(node, put_function(node, SWITCH "/0000:17:00.0", PORT_ID, "0"), 0, 4096);
	put_acs(node, put_function(node, SWITCH "/0000:17:01.0", PORT_ID, "0"), 0, 4096);
	put_acs(node, put_function(node, SWITCH "/0000:17:02.0", PORT_ID, "0"), 0, 4096);
	put_acs(node, put_function(node, SWITCH "/0000:17:02.0/0000:1a:00.0", PORT_ID, "0"), 0,
		4096);
	put_acs(node,
		put_function(node, SWITCH "/0000:17:02.0/0000:1a:00.0/0000:1b:00.0", PORT_ID, "0"),
		0, 4096);
	(void) put_function(node, "pci0000:15/0000:15:02.0", PORT_ID, "0");
	(void) put_function(node, SWITCH "/0000:17:00.0/0000:18:00.0", GPU_ID, "0");
	(void) put_function(node, SWITCH "/0000:17:01.0/0000:19:00.0", NIC_ID, "0");
	(void) put_function(
		node, SWITCH "/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", NIC_ID, "0");
	(void) put_function(node, "pci0000:15/0000:15:02.0/0000:1d:00.0", NIC_ID, "0");
	(void) put_function(node, "pci0000:37/0000:37:00.0", NIC_ID, "0");
	(void) put_function(node, "pci0000:97/0000:97:00.0", GPU_ID, "1");
	(void) put_function(node, "pci0000:b7/0000:b7:00.0", "0x14e4 0x1760 0x020000", "1");
	put_rdma(node, "mlx5_0", SWITCH "/0000:17:01.0/0000:19:00.0");
	put_rdma(node, "mlx5_1", SWITCH "/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0");
	/* A subfunction's: its device is an auxiliary one of the function. */
	folder_subfolder(node, "sys/devices/pci0000:15/0000:15:02.0/0000:1d:00.0/mlx5_core.sf.4");
	put_rdma(node, "mlx5_2", "pci0000:15/0000:15:02.0/0000:1d:00.0/mlx5_core.sf.4");
	put_rdma(node, "mlx5_3", "pci0000:37/0000:37:00.0");
	put_rdma(node, "bnxt_re0", "pci0000:b7/0000:b7:00.0");
	put_rdma(node, "rxe0", "");
	folder_subfolder(node, "sys/devices/" SWITCH "/0000:17:01.0/0000:19:00.0/net/ens1np0");
	put_group(node, "0000:18:00.0", "41");
}

static void relations_are_those_of_nvidia_smi(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_server(node);
	text = topo_of(node, false, 0);
	assert_contains(text, "gpu      0000:18:00.0, pci0000:15, NUMA node 0, IOMMU group 41\n");
	assert_contains(text, "nic      0000:19:00.0 mlx5_0 ens1np0, pci0000:15, NUMA node 0\n");
	assert_contains(text, "nic      0000:b7:00.0 bnxt_re0, pci0000:b7, NUMA node 1\n");
	assert_contains(text, "matrix                   mlx5_0  mlx5_1  mlx5_2  mlx5_3  bnxt_re0\n"
			      "         0000:18:00.0    PIX     PXB     PHB     NODE    SYS\n"
			      "         0000:97:00.0    SYS     SYS     SYS     SYS     NODE\n");
	assert_contains(text, "best     0000:18:00.0: mlx5_0 (PIX)\n");
	assert_contains(text, "best     0000:97:00.0: bnxt_re0 (NODE)\n");
	assert_null(strchr(text, '!'));
	assert_null(strstr(text, "rxe0"));
	assert_null(strstr(text, "no PCIe topology"));
	json = topo_of(node, true, 0);
	assert_contains(json,
		"{\"flat\":false,\"gpus\":[{\"address\":\"0000:18:00.0\",\"pcie_root\":\"pci0000:15\","
		"\"numa_node\":0,\"iommu_group\":41,\"link_width\":null,"
		"\"link_width_possible\":null,\"link_speed_mts\":null,"
		"\"link_speed_possible_mts\":null,\"bridges\":[\"0000:15:01.0\","
		"\"0000:16:00.0\",\"0000:17:00.0\"],\"best_nics\":[\"0000:19:00.0\"]},");
	assert_contains(json, "\"rdma_devices\":[\"mlx5_0\"],\"interfaces\":[\"ens1np0\"]}");
	assert_contains(json,
		"{\"gpu\":\"0000:18:00.0\",\"nic\":\"0000:1c:00.0\",\"relation\":\"PXB\","
		"\"common_bridge\":\"0000:16:00.0\",\"ports\":[\"0000:17:00.0\",\"0000:17:02.0\","
		"\"0000:1a:00.0\",\"0000:1b:00.0\"]}");
	assert_contains(json,
		"{\"gpu\":\"0000:18:00.0\",\"nic\":\"0000:1d:00.0\",\"relation\":\"PHB\","
		"\"common_bridge\":null,\"ports\":[]}");
	assert_contains(json, "\"findings\":[]}\n");
}

static void acs_bits_of_each_port_are_read(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL, *json = NULL, *user = NULL, *unknown = NULL;

	put_server(node);
	put_acs(node, "0000:17:00.0", PCI_ACS_SV | PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF, 4096);
	put_acs(node, "0000:17:01.0", PCI_ACS_SV | PCI_ACS_CR, 4096);
	put_acs(node, "0000:17:02.0", PCI_ACS_SV | PCI_ACS_DT, 4096);
	/* Above the common bridge, nothing passes it. */
	put_acs(node, "0000:15:01.0", PCI_ACS_RR, 4096);
	text = topo_of(node, false, 0);
	assert_contains(text,
		"! ACS of port 0000:17:00.0 redirects requests, redirects completions, "
		"forwards upstream: data between GPU and NIC goes through the host "
		"bridge; rdma_topo check (rdma-core) ");
	assert_contains(text, "! ACS of port 0000:17:01.0 redirects completions: ");
	assert_null(strstr(text, "port 0000:17:02.0"));
	assert_null(strstr(text, "0000:15:01.0"));
	json = topo_of(node, true, 0);
	assert_contains(json, "{\"address\":\"0000:17:01.0\",\"request_redirect\":false,"
			      "\"completion_redirect\":true,\"upstream_forwarding\":false}");
	assert_contains(json, "\"findings\":[\"ACS of port 0000:17:00.0 redirects requests, ");

	/* As a user who is not root sees it. */
	put_acs(node, "0000:17:00.0", PCI_ACS_RR, 64);
	user = topo_of(node, false, 0);
	assert_contains(user, "ACS not known of 0000:17:00.0: the kernel shows it to root alone");
	assert_null(strstr(user, "! ACS of port 0000:17:00.0"));
	unknown = topo_of(node, true, 0);
	assert_contains(unknown, "{\"address\":\"0000:17:00.0\",\"request_redirect\":null,");
}

static void a_link_below_what_both_ends_can_is_reported(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	put_server(node);
	/* An idle GPU: its speed is no fault. */
	put_link(node, "0000:18:00.0", "16\n", "16\n", "2.5 GT/s PCIe\n", "32.0 GT/s PCIe\n");
	put_link(node, "0000:17:00.0", "16\n", "16\n", "2.5 GT/s PCIe\n", "16.0 GT/s PCIe\n");
	put_link(node, "0000:19:00.0", "8\n", "16\n", "32.0 GT/s PCIe\n", "32.0 GT/s PCIe\n");
	put_link(node, "0000:17:01.0", "8\n", "16\n", "32.0 GT/s PCIe\n", "32.0 GT/s PCIe\n");
	/* The port has no more lanes. */
	put_link(node, "0000:1d:00.0", "8\n", "16\n", "32.0 GT/s PCIe\n", "32.0 GT/s PCIe\n");
	put_link(node, "0000:15:02.0", "8\n", "8\n", "32.0 GT/s PCIe\n", "32.0 GT/s PCIe\n");
	/* A virtual function. */
	put_link(node, "0000:37:00.0", "0\n", "16\n", "Unknown\n", "32.0 GT/s PCIe\n");
	text = topo_of(node, false, 0);
	assert_contains(text, "IOMMU group 41, x16, 2.5 of 16 GT/s\n");
	assert_contains(text, "NUMA node 0, x8 of x16, 32 GT/s\n");
	assert_contains(
		text, "nic      0000:1d:00.0 mlx5_2, pci0000:15, NUMA node 0, x8, 32 GT/s\n");
	assert_contains(text, "nic      0000:37:00.0 mlx5_3, pci0000:37, NUMA node 0\n");
	assert_contains(text, "! 0000:19:00.0: its PCIe link has 8 of the 16 lanes ");
	assert_null(strstr(text, "! 0000:18:00.0"));
	assert_null(strstr(text, "! 0000:1d:00.0"));
	json = topo_of(node, true, 0);
	assert_contains(json,
		"\"link_width\":16,\"link_width_possible\":16,\"link_speed_mts\":2500,"
		"\"link_speed_possible_mts\":16000");
	assert_contains(json, "\"findings\":[\"0000:19:00.0: its PCIe link has 8 of the 16 ");
}

/* As a machine with an H200 shows itself. */
static void a_flat_machine_has_no_topology(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *alone = NULL, *text = NULL, *json = NULL;

	(void) put_function(node, "pci0000:00/0000:00:06.0", GPU_ID, "-1");
	alone = topo_of(node, false, 0);
	assert_contains(alone, "gpu      0000:00:06.0, pci0000:00\n"
			       "nic      no Mellanox NIC, and no RDMA device with a PCI function\n"
			       "         no PCIe topology visible: ");
	(void) put_function(node, "pci0000:00/0000:00:07.0", NIC_ID, "-1");
	(void) put_function(node, "pci0000:00/0000:00:08.0", NIC_ID, "-1");
	text = topo_of(node, false, 0);
	assert_contains(text, "         0000:00:06.0    PHB           PHB\n");
	assert_contains(
		text, "best     0000:00:06.0: 0000:00:07.0, 0000:00:08.0 (PHB, all alike)\n");
	assert_contains(text, "no PCIe topology visible: ");
	json = topo_of(node, true, 0);
	assert_contains(json, "{\"flat\":true,");
	assert_contains(json, "\"numa_node\":null,\"iommu_group\":null");
}

static void a_nic_without_rdma_is_no_candidate(void **state)
{
	const struct folder *node = *state;
	_cleanup_free_ char *text = NULL;

	put_server(node);
	assert_int_equal(fs_remove_tree(node->fd, "sys/class/infiniband/mlx5_0"), 0);
	text = topo_of(node, false, 0);
	assert_contains(text, "matrix                   ens1np0  mlx5_1");
	assert_contains(text, "best     0000:18:00.0: mlx5_1 (PXB)\n");
}

static void a_node_without_a_bus_is_an_error(void **state)
{
	const struct folder *node = *state;

	assert_int_equal(topo_main(node->fd, false), 70);
}

static void a_loop_in_a_capability_list_ends(void **state)
{
	unsigned char config[PCI_CONFIG_SIZE_EXP];

	(void) state;
	make_config(config, PCI_ACS_RR);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), PCI_ACS_RR);
	assert_int_equal(pci_config_find(config, sizeof(config), PCI_CAP_ID_EXP, 2), 0x68);
	/* The extended list returns to its beginning, or to an entry of its own. */
	put_extended(config, 0x148, PCI_EXT_CAP_ID_SRIOV, 0x100);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), 0);
	put_extended(config, 0x148, PCI_EXT_CAP_ID_SRIOV, 0x148);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), 0);
	/* Into the first 256 bytes, where no extended capability is. */
	put_extended(config, 0x100, PCI_EXT_CAP_ID_ERR, 0x40);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), 0);
	/* The last four bytes: there is no room for a control register. */
	put_extended(config, 0x100, PCI_EXT_CAP_ID_ERR, 0xffc);
	put_extended(config, 0xffc, PCI_EXT_CAP_ID_ACS, 0);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), 0);

	make_config(config, PCI_ACS_RR);
	config[0x41] = 0x40;
	assert_int_equal(pci_config_find(config, sizeof(config), PCI_CAP_ID_EXP, 2), 0);
	config[0x41] = 0xfc;
	config[0xfc] = PCI_CAP_ID_VNDR;
	assert_int_equal(pci_config_find(config, sizeof(config), PCI_CAP_ID_VNDR, 4), 0xfc);
	assert_int_equal(pci_config_find(config, sizeof(config), PCI_CAP_ID_VNDR, 5), 0);
}

/* All ones: nothing answers any more. 256 bytes: the kernel has no access to the rest. */
static void a_device_that_is_gone_or_cut_is_not_known(void **state)
{
	unsigned char config[PCI_CONFIG_SIZE_EXP];

	(void) state;
	memset(config, 0xff, sizeof(config));
	assert_int_equal(pci_config_find(config, sizeof(config), PCI_CAP_ID_EXP, 2), 0);
	assert_int_equal(pci_config_acs_control(config, sizeof(config)), -ENODATA);
	make_config(config, PCI_ACS_RR);
	assert_int_equal(pci_config_acs_control(config, 64), -ENODATA);
	assert_int_equal(pci_config_acs_control(config, 256), -ENODATA);
	/* A conventional bridge has no more. */
	config[0x41] = 0;
	assert_int_equal(pci_config_acs_control(config, 256), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(relations_are_those_of_nvidia_smi),
		folder_test(acs_bits_of_each_port_are_read),
		folder_test(a_link_below_what_both_ends_can_is_reported),
		folder_test(a_flat_machine_has_no_topology),
		folder_test(a_nic_without_rdma_is_no_candidate),
		folder_test(a_node_without_a_bus_is_an_error),
		cmocka_unit_test(a_loop_in_a_capability_list_ends),
		cmocka_unit_test(a_device_that_is_gone_or_cut_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

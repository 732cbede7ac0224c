/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of devlink and of rtnetlink about VFs: those of a kernel are read, ours are read back.
 */
#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/devlink.h>
#include <linux/genetlink.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/netstate/device_internal.h"
#include "tests/unit/netlink_messages.h"
#include "tests/unit/support.h"

#define BUFFER_SIZE 8192

static size_t put_hex(void *to, const char *digits)
{
	size_t size = strlen(digits) / 2;

	for (size_t i = 0; i < size; i++) {
		char pair[3] = { digits[2 * i], digits[2 * i + 1], '\0' };

		((unsigned char *) to)[i] = (unsigned char) strtoul(pair, NULL, 16);
	}
	return size;
}

static struct nlmsghdr *message_of(const char *digits, void *buffer)
{
	struct nlmsghdr *message = buffer;

	size_t size = put_hex(buffer, digits);

	assert_int_equal(message->nlmsg_len, size);
	return message;
}

/* ---- devlink */

/* The one device of that name, as messages fill it in. */
struct reading {
	struct device device;
	struct device_list list;
};

static void begin_reading(struct reading *reading, const char *name)
{
	*reading = (struct reading){ .list = { &reading->device, 1 } };
	(void) snprintf(reading->device.name, sizeof(reading->device.name), "%s", name);
}

static void end_reading(struct reading *reading)
{
	device_free(&reading->device);
}

#define _cleanup_reading_ _cleanup_(end_reading)

static void modes_of_the_eswitch_are_read(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	_cleanup_reading_ struct reading reading;

	(void) state;
	begin_reading(&reading, "netdevsim/netdevsim0");
	assert_int_equal(devlink_take(&reading.list, message_of(MESSAGE_ESWITCH, buffer)), 0);
	assert_int_equal(reading.device.known, DEVICE_MODE | DEVICE_INLINE | DEVICE_ENCAP);
	assert_int_equal(reading.device.mode, DEVLINK_ESWITCH_MODE_SWITCHDEV);
	assert_int_equal(reading.device.inline_mode, DEVLINK_ESWITCH_INLINE_MODE_TRANSPORT);
	assert_int_equal(reading.device.encap_mode, DEVLINK_ESWITCH_ENCAP_MODE_BASIC);
}

static void of_another_device_nothing_is_read(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	_cleanup_reading_ struct reading reading;

	(void) state;
	begin_reading(&reading, "netdevsim/netdevsim1");
	assert_int_equal(devlink_take(&reading.list, message_of(MESSAGE_ESWITCH, buffer)), 0);
	assert_int_equal(devlink_take(&reading.list, message_of(MESSAGE_PARAM_FLAG, buffer)), 0);
	assert_int_equal(reading.device.known, 0);
	assert_int_equal(reading.device.param_count, 0);
}

static void expect_param(const char *digits, const char *name, uint8_t mode, const char *value)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	_cleanup_reading_ struct reading reading;

	begin_reading(&reading, "netdevsim/netdevsim0");
	assert_int_equal(devlink_take(&reading.list, message_of(digits, buffer)), 0);
	assert_int_equal(reading.device.param_count, 1);
	assert_string_equal(reading.device.params[0].name, name);
	assert_int_equal(reading.device.params[0].mode, mode);
	assert_string_equal(reading.device.params[0].value, value);
}

static void parameters_of_each_type_are_read(void **state)
{
	(void) state;
	expect_param(
		MESSAGE_PARAM_STRING, "flow_steering_mode", DEVLINK_PARAM_CMODE_RUNTIME, "dmfs");
	expect_param(MESSAGE_PARAM_NUMBER, "max_macs", DEVLINK_PARAM_CMODE_DRIVERINIT, "32");
	expect_param(MESSAGE_PARAM_FLAG, "test1", DEVLINK_PARAM_CMODE_DRIVERINIT, "1");
}

static struct nlmsghdr *begin(void *buffer, size_t size, uint8_t command)
{
	struct nlmsghdr *message;
	struct genlmsghdr *header;

	memset(buffer, 0, size);
	message = mnl_nlmsg_put_header(buffer);
	header = mnl_nlmsg_put_extra_header(message, sizeof(*header));
	header->cmd = command;
	mnl_attr_put_strz(message, DEVLINK_ATTR_BUS_NAME, "pci");
	mnl_attr_put_strz(message, DEVLINK_ATTR_DEV_NAME, "0000:3b:00.0");
	return message;
}

/* Reads a request to set the value back, in the shape in which the kernel would answer. */
static void expect_value_back(const struct device_param *param)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	_Alignas(8) char flat[BUFFER_SIZE];
	struct nlmsghdr *message = begin(buffer, sizeof(buffer), DEVLINK_CMD_PARAM_NEW);
	struct nlmsghdr *set = begin(flat, sizeof(flat), DEVLINK_CMD_PARAM_SET);
	_cleanup_reading_ struct reading reading;
	struct nlattr *nests[3];
	const struct nlattr *attribute;

	begin_reading(&reading, "pci/0000:3b:00.0");
	devlink_put_value(set, param);
	nests[0] = mnl_attr_nest_start(message, DEVLINK_ATTR_PARAM);
	mnl_attr_put_strz(message, DEVLINK_ATTR_PARAM_NAME, param->name);
	mnl_attr_put_u8(message, DEVLINK_ATTR_PARAM_TYPE, param->type);
	nests[1] = mnl_attr_nest_start(message, DEVLINK_ATTR_PARAM_VALUES_LIST);
	nests[2] = mnl_attr_nest_start(message, DEVLINK_ATTR_PARAM_VALUE);
	mnl_attr_for_each(attribute, set, sizeof(struct genlmsghdr))
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == DEVLINK_ATTR_PARAM_VALUE_CMODE || type == DEVLINK_ATTR_PARAM_VALUE_DATA)
			mnl_attr_put(message, type, mnl_attr_get_payload_len(attribute),
				mnl_attr_get_payload(attribute));
	}
	for (int i = 2; i >= 0; i--)
		mnl_attr_nest_end(message, nests[i]);
	assert_int_equal(devlink_take(&reading.list, message), 0);
	assert_int_equal(reading.device.param_count, 1);
	assert_string_equal(reading.device.params[0].value, param->value);
	assert_int_equal(reading.device.params[0].mode, param->mode);
}

static void values_are_put_as_they_are_read(void **state)
{
	static const struct device_param params[] = {
		{ "u8", 1, DEVLINK_PARAM_CMODE_RUNTIME, "255" },
		{ "u16", 2, DEVLINK_PARAM_CMODE_RUNTIME, "65535" },
		{ "u32", 3, DEVLINK_PARAM_CMODE_DRIVERINIT, "4294967295" },
		{ "string", 5, DEVLINK_PARAM_CMODE_RUNTIME, "smfs" },
		{ "on", 6, DEVLINK_PARAM_CMODE_DRIVERINIT, "1" },
		{ "off", 6, DEVLINK_PARAM_CMODE_DRIVERINIT, "0" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(params); i++)
		expect_value_back(&params[i]);
}

static void a_vfs_representor_is_no_subfunction(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	_cleanup_reading_ struct reading reading;

	(void) state;
	begin_reading(&reading, "netdevsim/netdevsim0");
	assert_int_equal(devlink_take(&reading.list, message_of(MESSAGE_PORT_VF, buffer)), 0);
	assert_int_equal(reading.device.sf_count, 0);
}

static void a_cards_own_port_is_none(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message = begin(buffer, sizeof(buffer), DEVLINK_CMD_PORT_NEW);
	_cleanup_reading_ struct reading reading;

	(void) state;
	begin_reading(&reading, "pci/0000:3b:00.0");
	assert_int_equal(devlink_take(&reading.list, message), 0);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_PORT_FLAVOUR_PHYSICAL);
	assert_int_equal(devlink_take(&reading.list, message), 0);
	assert_int_equal(reading.device.sf_count, 0);
}

static bool has_rates(const char *name, const struct nlmsghdr *message)
{
	_cleanup_reading_ struct reading reading;

	begin_reading(&reading, name);
	assert_int_equal(devlink_take(&reading.list, message), 0);
	return reading.device.has_rates;
}

static void rates_of_nodes_and_of_ports_are_seen(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message;

	(void) state;
	assert_true(has_rates("netdevsim/netdevsim0", message_of(MESSAGE_RATE_NODE, buffer)));
	assert_true(has_rates("netdevsim/netdevsim0", message_of(MESSAGE_RATE_LEAF, buffer)));
	/* A port that nothing bounds. */
	message = begin(buffer, sizeof(buffer), DEVLINK_CMD_RATE_NEW);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, 1);
	mnl_attr_put_u64(message, DEVLINK_ATTR_RATE_TX_SHARE, 0);
	mnl_attr_put_u64(message, DEVLINK_ATTR_RATE_TX_MAX, 0);
	assert_false(has_rates("pci/0000:3b:00.0", message));
	mnl_attr_put_u64(message, DEVLINK_ATTR_RATE_TX_MAX, 1);
	assert_true(has_rates("pci/0000:3b:00.0", message));
}

static void a_subfunction_is_read_with_address_and_state(void **state)
{
	static const uint8_t address[] = { 2, 0, 0, 0, 0, 0x88 };
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message = begin(buffer, sizeof(buffer), DEVLINK_CMD_PORT_NEW);
	_cleanup_reading_ struct reading reading;
	const struct device_sf *sf;
	struct nlattr *nest;

	(void) state;
	begin_reading(&reading, "pci/0000:3b:00.0");
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_INDEX, 32768);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_FLAVOUR, DEVLINK_PORT_FLAVOUR_PCI_SF);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, 1);
	mnl_attr_put_u16(message, DEVLINK_ATTR_PORT_PCI_PF_NUMBER, 2);
	mnl_attr_put_u32(message, DEVLINK_ATTR_PORT_PCI_SF_NUMBER, 88);
	nest = mnl_attr_nest_start(message, DEVLINK_ATTR_PORT_FUNCTION);
	mnl_attr_put(message, DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, sizeof(address), address);
	mnl_attr_put_u8(message, DEVLINK_PORT_FN_ATTR_STATE, DEVLINK_PORT_FN_STATE_ACTIVE);
	mnl_attr_nest_end(message, nest);
	assert_int_equal(devlink_take(&reading.list, message), 0);
	assert_int_equal(reading.device.sf_count, 1);
	sf = &reading.device.sfs[0];
	assert_int_equal(sf->port_index, 32768);
	assert_int_equal(sf->controller, 1);
	assert_int_equal(sf->pf, 2);
	assert_int_equal(sf->number, 88);
	assert_int_equal(sf->address_size, sizeof(address));
	assert_memory_equal(sf->address, address, sizeof(address));
	assert_int_equal(sf->known, SF_STATE);
	assert_true(sf->is_active);
}

/* ---- VFs */

static struct nlmsghdr *link_with(void *buffer, size_t size, uint16_t type)
{
	struct nlmsghdr *message;
	struct ifinfomsg *link;

	memset(buffer, 0, size);
	message = mnl_nlmsg_put_header(buffer);
	link = mnl_nlmsg_put_extra_header(message, sizeof(*link));
	link->ifi_type = type;
	mnl_attr_put_u32(message, IFLA_NUM_VF, 2);
	return message;
}

static void read_kernels(uint16_t type, struct device_vf vfs[2])
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message = link_with(buffer, sizeof(buffer), type);
	struct device device = { .vfs = vfs, .vf_count = 2 };

	message->nlmsg_len += (uint32_t) put_hex(mnl_nlmsg_get_payload_tail(message), MESSAGE_VFS);
	assert_int_equal(device_take_vfs(&device, message), 0);
}

static void settings_of_vfs_are_read(void **state)
{
	static const uint8_t mac[] = { 2, 0, 0, 0, 0, 0x11 };
	struct device_vf vfs[2] = { 0 };
	const struct device_vf *first = &vfs[0];
	const struct device_vf *second = &vfs[1];

	(void) state;
	read_kernels(ARPHRD_ETHER, vfs);
	assert_int_equal(first->vlan.vlan, 100);
	assert_int_equal(first->vlan.qos, 3);
	assert_int_equal(first->vlan.vlan_proto, htons(0x88a8));
	assert_true(
		first->trust.setting && first->spoof_check.setting && !first->rss_query.setting);
	assert_int_equal(first->link_state.link_state, IFLA_VF_LINK_STATE_AUTO);
	assert_memory_equal(second->mac.mac, mac, sizeof(mac));
	assert_int_equal(second->vlan.vlan, 0);
	assert_int_equal(second->rate.min_tx_rate, 10);
	assert_int_equal(second->rate.max_tx_rate, 100);
	assert_true(!second->trust.setting && !second->spoof_check.setting &&
		    second->rss_query.setting);
	assert_int_equal(second->link_state.link_state, IFLA_VF_LINK_STATE_ENABLE);
	assert_false(vf_knows(first, VF_NODE_GUID) || vf_knows(first, VF_PORT_GUID));
	assert_true(vf_is_same(first, first, VF_MAC));
	assert_false(vf_is_same(first, second, VF_MAC));
	assert_false(vf_is_same(first, first, VF_NODE_GUID));
}

static void an_infiniband_vf_has_no_address_to_set(void **state)
{
	struct device_vf vfs[2] = { 0 };

	(void) state;
	read_kernels(ARPHRD_INFINIBAND, vfs);
	assert_false(vf_knows(&vfs[0], VF_MAC) || vf_knows(&vfs[0], VF_VLAN));
	assert_true(vf_knows(&vfs[0], VF_LINK_STATE));
}

/* The kernel says ~0 where a driver has no answer. */
static void what_a_driver_does_not_know_is_not_known(void **state)
{
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message = link_with(buffer, sizeof(buffer), ARPHRD_ETHER);
	struct ifla_vf_trust untold = { .vf = 1, .setting = UINT32_MAX };
	const struct ifla_vf_mac mac = { .vf = 1 };
	struct device_vf vfs[2] = { 0 };
	struct device device = { .vfs = vfs, .vf_count = 2 };
	struct nlattr *nests[2];

	(void) state;
	nests[0] = mnl_attr_nest_start(message, IFLA_VFINFO_LIST);
	nests[1] = mnl_attr_nest_start(message, IFLA_VF_INFO);
	mnl_attr_put(message, IFLA_VF_MAC, sizeof(mac), &mac);
	mnl_attr_put(message, IFLA_VF_TRUST, sizeof(untold), &untold);
	mnl_attr_put(message, IFLA_VF_SPOOFCHK, sizeof(untold), &untold);
	mnl_attr_put(message, IFLA_VF_RSS_QUERY_EN, sizeof(untold), &untold);
	mnl_attr_put_u32(message, IFLA_VF_RATE, 7); /* too short: of another kernel */
	mnl_attr_nest_end(message, nests[1]);
	mnl_attr_nest_end(message, nests[0]);
	assert_int_equal(device_take_vfs(&device, message), 0);
	assert_int_equal(vfs[0].known, 0);
	assert_int_equal(vfs[1].known, 1u << VF_MAC);
}

static void settings_are_put_as_they_are_read(void **state)
{
	static const struct device_vf vf = {
		.index = 7,
		.mac.mac = { 2, 1, 2, 3, 4, 5 },
		.node_guid.guid = 0x0002c90300000001,
		.port_guid.guid = 0x0002c90300000002,
		.vlan = { .vlan = 4094, .qos = 5, .vlan_proto = 0xa888 },
		.rate = { .min_tx_rate = 1, .max_tx_rate = 2 },
		.trust.setting = true,
		.spoof_check.setting = true,
		.link_state.link_state = IFLA_VF_LINK_STATE_DISABLE,
		.rss_query.setting = true,
		.known = (1u << VF_ATTRIBUTES) - 1,
	};
	_Alignas(8) char buffer[BUFFER_SIZE];
	struct nlmsghdr *message = link_with(buffer, sizeof(buffer), ARPHRD_ETHER);
	struct device_vf vfs[8] = { 0 };
	struct device device = { .vfs = vfs, .vf_count = 8 };
	struct nlattr *nests[2];

	(void) state;
	nests[0] = mnl_attr_nest_start(message, IFLA_VFINFO_LIST);
	nests[1] = mnl_attr_nest_start(message, IFLA_VF_INFO);
	for (int i = 0; i < VF_ATTRIBUTES; i++)
		device_put_vf(message, &vf, (enum vf_attribute) i);
	mnl_attr_nest_end(message, nests[1]);
	mnl_attr_nest_end(message, nests[0]);
	assert_int_equal(device_take_vfs(&device, message), 0);
	assert_int_equal(vfs[0].known, 0);
	for (int i = 0; i < VF_ATTRIBUTES; i++)
		assert_true(vf_is_same(&vfs[7], &vf, (enum vf_attribute) i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_of_the_eswitch_are_read),
		cmocka_unit_test(of_another_device_nothing_is_read),
		cmocka_unit_test(parameters_of_each_type_are_read),
		cmocka_unit_test(values_are_put_as_they_are_read),
		cmocka_unit_test(a_vfs_representor_is_no_subfunction),
		cmocka_unit_test(a_cards_own_port_is_none),
		cmocka_unit_test(rates_of_nodes_and_of_ports_are_seen),
		cmocka_unit_test(a_subfunction_is_read_with_address_and_state),
		cmocka_unit_test(settings_of_vfs_are_read),
		cmocka_unit_test(an_infiniband_vf_has_no_address_to_set),
		cmocka_unit_test(what_a_driver_does_not_know_is_not_known),
		cmocka_unit_test(settings_are_put_as_they_are_read),
	};

	return cmocka_run_group_tests_name("devlink", tests, NULL, NULL);
}

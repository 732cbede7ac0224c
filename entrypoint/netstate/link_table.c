/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/device_internal.h"
#include "entrypoint/netstate/link_internal.h"
#include "entrypoint/role/pci.h"

void link_table_free(struct link_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->items[i].message);
	free(table->items);
	*table = (struct link_table){ 0 };
}

const struct nlattr *link_attribute(const struct link *link, uint16_t type)
{
	return netlink_attribute(link->message, sizeof(struct ifinfomsg), type);
}

const struct nlattr *link_info_attribute(const struct link *link, uint16_t type)
{
	return netlink_nested(link_attribute(link, IFLA_LINKINFO), type);
}

static void copy_string(const struct nlattr *attribute, char *text, size_t size)
{
	const char *value = netlink_text(attribute);

	if (value)
		(void) snprintf(text, size, "%s", value);
}

static void copy_address(const struct nlattr *attribute, struct link_address *address)
{
	if (!attribute || mnl_attr_get_payload_len(attribute) > sizeof(address->bytes))
		return;
	address->size = mnl_attr_get_payload_len(attribute);
	memcpy(address->bytes, mnl_attr_get_payload(attribute), address->size);
}

/* ---- what sysfs says */

static unsigned read_number(int dir_fd, const char *path)
{
	_cleanup_free_ char *text = NULL;

	return fs_read_line(dir_fd, path, &text) == 0 ? (unsigned) strtoul(text, NULL, 0) : 0;
}

/* "pci/0000:3b:00.0" of the device in @path. */
static void read_device_name(int dir_fd, const char *path, char name[LINK_DEVICE_SIZE])
{
	char subsystem[80];
	char bus[32];
	char device[64];

	(void) snprintf(subsystem, sizeof(subsystem), "%s/subsystem", path);
	sysfs_link_name(dir_fd, path, device, sizeof(device));
	sysfs_link_name(dir_fd, subsystem, bus, sizeof(bus));
	name[0] = '\0';
	if (device[0] && bus[0])
		(void) snprintf(name, LINK_DEVICE_SIZE, "%s/%s", bus, device);
}

/* The folder above where the link "device" leads to: what a subfunction is one of. */
static void read_parent_name(int dir_fd, char name[LINK_DEVICE_SIZE])
{
	_cleanup_close_ int parent_fd =
		openat(dir_fd, "device/..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[64];
	char device[64];
	char bus[32];

	name[0] = '\0';
	if (parent_fd < 0)
		return;
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", parent_fd);
	sysfs_link_name(AT_FDCWD, path, device, sizeof(device));
	sysfs_link_name(parent_fd, "subsystem", bus, sizeof(bus));
	if (device[0] && bus[0])
		(void) snprintf(name, LINK_DEVICE_SIZE, "%s/%s", bus, device);
}

/*
 * A subfunction's auxiliary device is numbered by who came first; its sfnum is what the one who
 * made it chose (drivers/net/ethernet/mellanox/mlx5/core/sf/dev/dev.c).
 */
void link_device_of(int dir_fd, char device[LINK_DEVICE_SIZE])
{
	char parent[LINK_DEVICE_SIZE];

	read_device_name(dir_fd, "device", device);
	if (!fs_exists(dir_fd, "device/sfnum"))
		return;
	read_parent_name(dir_fd, parent);
	if (parent[0])
		(void) snprintf(device, LINK_DEVICE_SIZE, "%.100s/sf/%u", parent,
			read_number(dir_fd, "device/sfnum"));
}

static void read_sysfs(int net_fd, struct link *link)
{
	_cleanup_close_ int dir_fd = openat(net_fd, link->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return;
	link_device_of(dir_fd, link->device);
	sysfs_link_name(dir_fd, "device/driver/module", link->module, sizeof(link->module));
	link->dev_port = read_number(dir_fd, "dev_port");
	link->address_origin = read_number(dir_fd, "addr_assign_type");
}

/* ---- what the kernel says */

/* IFLA_PERM_ADDRESS is there since 5.6. */
static void fill(struct link *link)
{
	const struct ifinfomsg *header = mnl_nlmsg_get_payload(link->message);
	const struct nlattr *port = link_attribute(link, IFLA_PHYS_PORT_NAME);

	link->index = (uint32_t) header->ifi_index;
	link->flags = header->ifi_flags;
	link->type = header->ifi_type;
	copy_string(link_attribute(link, IFLA_IFNAME), link->name, sizeof(link->name));
	copy_string(port, link->port, sizeof(link->port));
	copy_string(link_info_attribute(link, IFLA_INFO_KIND), link->kind, sizeof(link->kind));
	link->master = netlink_number(link_attribute(link, IFLA_MASTER));
	if (!link_attribute(link, IFLA_LINK_NETNSID))
		link->lower = netlink_number(link_attribute(link, IFLA_LINK));
	/* A VXLAN says among its own settings what it is bound to, and goes with that. */
	if (!link->lower && strcmp(link->kind, "vxlan") == 0)
		link->lower = netlink_number(
			netlink_nested(link_info_attribute(link, IFLA_INFO_DATA), IFLA_VXLAN_LINK));
	copy_address(link_attribute(link, IFLA_ADDRESS), &link->address);
	copy_address(link_attribute(link, IFLA_PERM_ADDRESS), &link->permanent);
}

static int add_link(void *context, const struct nlmsghdr *message)
{
	struct link_table *table = context;
	struct link *items;

	if (message->nlmsg_type != RTM_NEWLINK ||
		mnl_nlmsg_get_payload_len(message) < sizeof(struct ifinfomsg))
		return 0;
	items = reallocarray(table->items, table->count + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	table->items = items;
	items[table->count] = (struct link){ .message = malloc(message->nlmsg_len) };
	if (!items[table->count].message)
		return -ENOMEM;
	memcpy(items[table->count].message, message, message->nlmsg_len);
	fill(&items[table->count++]);
	return 0;
}

static int by_index(const void *a, const void *b)
{
	const struct link *left = a;
	const struct link *right = b;

	return left->index < right->index ? -1 : left->index > right->index;
}

static bool is_at(const struct link *link, const char *device, const char *port, uint32_t dev_port)
{
	return strcmp(link->device, device) == 0 && strcmp(link->port, port) == 0 &&
	       link->dev_port == dev_port;
}

/* What stands on another interface of the same device is no port of the device. */
bool link_is_port(const struct link_table *table, const struct link *link)
{
	return link->device[0] && !(link->kind[0] && link_by_index(table, link->lower));
}

static void number_equals(struct link_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct link *link = &table->items[i];

		for (size_t k = 0; link->device[0] && k < i; k++)
			if (is_at(&table->items[k], link->device, link->port, link->dev_port) &&
				link_is_port(table, &table->items[k]))
				link->nth++;
	}
}

/* Of an interface that was there before, what sysfs says of it was read then. */
static void complete(int net_fd, struct link *link, const struct link_table *before)
{
	const struct link *known = link_by_index(before, link->index);

	if (!known) {
		read_sysfs(net_fd, link);
		return;
	}
	memcpy(link->device, known->device, sizeof(link->device));
	memcpy(link->module, known->module, sizeof(link->module));
	link->dev_port = known->dev_port;
	link->address_origin = known->address_origin;
}

int link_table_read(
	int root_fd, struct netlink *netlink, struct link_table *table, struct error *error)
{
	_cleanup_(link_table_free) struct link_table before = *table;
	_cleanup_close_ int net_fd =
		openat(root_fd, "sys/class/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct nlmsghdr *request = netlink_request(netlink, RTM_GETLINK, NLM_F_DUMP);
	struct ifinfomsg *header = netlink_extra(request, sizeof(*header));
	int r;

	*table = (struct link_table){ 0 };
	if (net_fd < 0)
		return error_set_errno(error, -errno, "/sys/class/net");
	header->ifi_family = AF_UNSPEC;
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	r = netlink_talk(netlink, request, add_link, table, error);
	if (r == -ENOMEM)
		return error_set_errno(error, r, "interfaces");
	if (r < 0)
		return error_prefix(error, r, "interfaces");
	for (size_t i = 0; i < table->count; i++)
		complete(net_fd, &table->items[i], &before);
	if (table->count > 1)
		qsort(table->items, table->count, sizeof(*table->items), by_index);
	number_equals(table);
	return 0;
}

/* ---- looking up */

const struct link *link_by_index(const struct link_table *table, uint32_t index)
{
	const struct link key = { .index = index };

	if (!table->count)
		return NULL;
	return bsearch(&key, table->items, table->count, sizeof(key), by_index);
}

void link_table_rename(struct link_table *table, uint32_t index, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->items[i].index == index)
			(void) snprintf(table->items[i].name, IFNAMSIZ, "%s", name);
}

static bool has_altname(const struct link *link, const char *name)
{
	const struct nlattr *list = link_attribute(link, IFLA_PROP_LIST);
	const struct nlattr *attribute;

	if (!list)
		return false;
	mnl_attr_for_each_nested(attribute, list)
	{
		const char *altname = netlink_text(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_ALT_IFNAME && altname &&
			strcmp(altname, name) == 0)
			return true;
	}
	return false;
}

const struct link *link_by_name(const struct link_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->items[i].name, name) == 0)
			return &table->items[i];
	for (size_t i = 0; i < table->count; i++)
		if (has_altname(&table->items[i], name))
			return &table->items[i];
	return NULL;
}

const struct link *link_by_device(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, uint32_t nth)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct link *link = &table->items[i];

		if (is_at(link, device, port, dev_port) && link->nth == nth &&
			link_is_port(table, link))
			return link;
	}
	return NULL;
}

bool link_port_is_own(const char *port)
{
	return !*port || (port[0] == 'p' && port[1] && !port[1 + strspn(port + 1, "0123456789")]);
}

bool link_port_is_relabelled(const char *one, const char *other)
{
	return !*one != !*other && link_port_is_own(one) && link_port_is_own(other);
}

const struct link *link_by_relabelled(const struct link_table *table, const char *device,
	const char *port, uint32_t dev_port, bool is_any)
{
	const struct link *found = NULL;

	for (size_t i = 0; link_port_is_own(port) && i < table->count; i++) {
		const struct link *link = &table->items[i];

		if (strcmp(link->device, device) != 0 || !link_port_is_own(link->port) ||
			!link_is_port(table, link) || (!is_any && link->dev_port != dev_port))
			continue;
		if (found)
			return NULL;
		found = link;
	}
	return found && (is_any || link_port_is_relabelled(port, found->port)) ? found : NULL;
}

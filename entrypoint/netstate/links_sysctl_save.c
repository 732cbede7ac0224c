/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/sys/net has for each interface. A new interface gets the values of "default", so those
 * that differ are what there is to keep (Documentation/networking/ip-sysctl.rst).
 */
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "common/fnv.h"
#include "common/fs.h"
#include "entrypoint/netstate/links_parts.h"

static const char *const folders[] = { "ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh",
	"mpls/conf" };

#define SECRET "stable_secret"

/* No setting of the interface's own: mtu follows it, the tables' sizes belong to all. */
static bool is_passed_over(const char *name)
{
	return strcmp(name, "mtu") == 0 || strcmp(name, SECRET) == 0 ||
	       strncmp(name, "gc_", 3) == 0;
}

static int open_folder(int root_fd, const char *folder, const char *link)
{
	char path[128];

	(void) snprintf(path, sizeof(path), "proc/sys/net/%s/%s", folder, link);
	return openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* "ipv4.conf.rp_filter" */
static void field_name(const char *folder, const char *name, char field[128])
{
	(void) snprintf(field, 128, "%s.%s", folder, name);
	for (char *slash = strchr(field, '/'); slash; slash = strchr(slash, '/'))
		*slash = '.';
}

static int save_value(
	int link_fd, const char *folder, const struct record_field *usual, struct record *record)
{
	_cleanup_free_ char *value = NULL;
	char field[128];

	if (fs_read_line(link_fd, usual->name, &value) < 0 || strcmp(value, usual->value) == 0)
		return 0;
	field_name(folder, usual->name, field);
	return record_set(record, field, value);
}

/* @usual: what a new interface has, and so the names of all there are. */
static int save_folder(int root_fd, const char *folder, const struct record *usual,
	const char *link, struct record *record)
{
	_cleanup_close_ int link_fd = open_folder(root_fd, folder, link);
	int r = 0;

	for (size_t i = 0; r == 0 && link_fd >= 0 && i < usual->count; i++)
		r = save_value(link_fd, folder, &usual->fields[i], record);
	return r;
}

static int read_usual(int root_fd, const char *folder, struct record *usual)
{
	_cleanup_close_ int folder_fd = open_folder(root_fd, folder, "default");
	_cleanup_strv_ struct strv names = { 0 };
	int r = folder_fd < 0 ? 0 : fs_list(folder_fd, ".", &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		_cleanup_free_ char *value = NULL;
		const char *name = names.items[i];

		if (!is_passed_over(name) && fs_read_line(folder_fd, name, &value) == 0)
			r = record_set(usual, name, value);
	}
	return r == -ENOMEM ? r : 0;
}

static int read_all_usual(struct saved_links *saved)
{
	int r = 0;

	for (size_t i = saved->usual.count; r == 0 && i < ARRAY_SIZE(folders); i++) {
		struct record *usual = statefile_add(&saved->usual, "usual");

		r = usual ? read_usual(saved->network->root_fd, folders[i], usual) : -ENOMEM;
	}
	return r;
}

/* ---- what hundreds of interfaces have in common */

/*
 * A hundred files an interface, when most of them are as those of another one: the kernel also
 * tells the values of all of them as numbers in a row, in the answers to RTM_GETLINK
 * (IFLA_INET_CONF, IFLA_INET6_CONF) and RTM_GETNEIGHTBL, of which equal ones mean equal files.
 */
struct neighbour_key {
	uint32_t index;
	uint64_t hash;
};

struct sysctl_groups {
	struct neighbour_key *neighbours;
	size_t neighbour_count;
	uint64_t *keys;         /* of the group of each of @found */
	struct statefile found; /* what the files of the first one of a group said */
};

void sysctl_groups_free(struct sysctl_groups **groups)
{
	if (!*groups)
		return;
	free((*groups)->neighbours);
	free((*groups)->keys);
	statefile_free(&(*groups)->found);
	free(*groups);
	*groups = NULL;
}

static uint64_t hash_attribute(uint64_t hash, const struct nlattr *attribute)
{
	uint16_t type = mnl_attr_get_type(attribute);

	hash = fnv64_bytes(hash, &type, sizeof(type));
	return fnv64_bytes(
		hash, mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute));
}

/* Whose they are, who uses them, and a time that the kernel draws. */
static bool is_no_value(uint16_t type)
{
	return type == NDTPA_IFINDEX || type == NDTPA_REFCNT || type == NDTPA_REACHABLE_TIME;
}

static int add_neighbour_key(void *context, const struct nlmsghdr *message)
{
	struct sysctl_groups *groups = context;
	const struct ndtmsg *header = mnl_nlmsg_get_payload(message);
	const struct nlattr *values = links_attribute(message, sizeof(*header), NDTA_PARMS);
	struct neighbour_key key = { .hash = fnv64_bytes(FNV64_START, &header->ndtm_family, 1) };
	const struct nlattr *attribute;
	struct neighbour_key *keys;

	if (message->nlmsg_type != RTM_NEWNEIGHTBL || !values)
		return 0;
	mnl_attr_for_each_nested(attribute, values)
	{
		uint16_t type = mnl_attr_get_type(attribute);

		if (type == NDTPA_IFINDEX)
			key.index = mnl_attr_get_u32(attribute);
		if (!is_no_value(type))
			key.hash = hash_attribute(key.hash, attribute);
	}
	keys = reallocarray(groups->neighbours, groups->neighbour_count + 1, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	groups->neighbours = keys;
	keys[groups->neighbour_count++] = key;
	return 0;
}

static int read_groups(struct saved_links *saved, struct error *error)
{
	struct nlmsghdr *request = netlink_request(saved->netlink, RTM_GETNEIGHTBL, NLM_F_DUMP);

	(void) netlink_extra(request, sizeof(struct ndtmsg));
	saved->groups = calloc(1, sizeof(*saved->groups));
	if (!saved->groups)
		return -ENOMEM;
	return netlink_talk(saved->netlink, request, add_neighbour_key, saved->groups, error);
}

static uint64_t group_of(const struct sysctl_groups *groups, const struct link *link)
{
	const struct nlattr *families = link_attribute(link, IFLA_AF_SPEC);
	const struct nlattr *family;
	const struct nlattr *attribute;
	uint64_t hash = FNV64_START;

	if (!families)
		return 0;
	mnl_attr_for_each_nested(family, families)
	{
		uint16_t type = mnl_attr_get_type(family);
		uint16_t wanted = type == AF_INET ? IFLA_INET_CONF : IFLA_INET6_CONF;

		hash = fnv64_bytes(hash, &type, sizeof(type));
		mnl_attr_for_each_nested(attribute, family)
		{
			if (mnl_attr_get_type(attribute) == wanted)
				hash = hash_attribute(hash, attribute);
		}
	}
	for (size_t i = 0; i < groups->neighbour_count; i++)
		if (groups->neighbours[i].index == link->index)
			hash = fnv64_bytes(hash, &groups->neighbours[i].hash,
				sizeof(groups->neighbours[i].hash));
	return hash;
}

/* ---- one interface */

static int read_files(struct saved_links *saved, const struct link *link, struct record *record)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++)
		r = save_folder(saved->network->root_fd, folders[i], &saved->usual.items[i],
			link->name, record);
	return r;
}

/* What the files of an interface say, or those of one that is as it; NULL without memory. */
static const struct record *look_up(struct saved_links *saved, const struct link *link)
{
	struct sysctl_groups *groups = saved->groups;
	uint64_t key = group_of(groups, link);
	struct record *record;
	uint64_t *keys;

	for (size_t i = 0; key && i < groups->found.count; i++)
		if (groups->keys[i] == key)
			return &groups->found.items[i];
	keys = reallocarray(groups->keys, groups->found.count + 1, sizeof(*keys));
	if (!keys)
		return NULL;
	groups->keys = keys;
	keys[groups->found.count] = key;
	record = statefile_add(&groups->found, "sysctls");
	return record && read_files(saved, link, record) == 0 ? record : NULL;
}

/* A secret that stable addresses are made of is nobody else's. */
static int save_secret(int root_fd, const char *link, struct record *record)
{
	_cleanup_close_ int link_fd = open_folder(root_fd, "ipv6/conf", link);
	_cleanup_free_ char *value = NULL;

	if (link_fd < 0 || fs_read_line(link_fd, SECRET, &value) < 0)
		return 0;
	return record_set(record, "ipv6.conf." SECRET, value);
}

static int save_link(struct saved_links *saved, const struct link *link)
{
	const struct record *found = look_up(saved, link);
	struct record *record = found ? statefile_add(saved->records, "sysctls") : NULL;
	int r = record ? record_set(record, "link", link->name) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < found->count; i++)
		r = record_set(record, found->fields[i].name, found->fields[i].value);
	if (r == 0)
		r = save_secret(saved->network->root_fd, link->name, record);
	if (r == 0 && record->count == 1)
		statefile_drop(saved->records);
	return r;
}

int sysctls_save(struct saved_links *saved, const struct link *link, struct error *error)
{
	int r = 0;

	if (!saved->groups) {
		r = read_groups(saved, error);
		if (r < 0 && r != -ENOMEM)
			return error_prefix(error, r, "neighbour tables");
	}
	if (r == 0)
		r = read_all_usual(saved);
	if (r == 0)
		r = save_link(saved, link);
	return r < 0 ? error_set_errno(error, r, "%s", link->name) : 0;
}

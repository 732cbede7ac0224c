/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/name_spaces.h"

#include <ctype.h>
#include <linux/if_link.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/netstate/netlink.h"

/* One that has a number here; whose it is, when a process of it is seen. */
struct name_space {
	int32_t number;
	char where[POD_TEXT_SIZE];
};

struct looking {
	int root_fd;
	struct netlink *netlink;
	struct name_space *spaces;
	size_t count;
	ino_t *seen; /* of /proc/<pid>/ns/net: this one's first */
	size_t seen_count;
	struct away_links *links;
	const struct name_space *at; /* that is being asked */
};

static void looking_end(struct looking *looking)
{
	netlink_close(&looking->netlink);
	free(looking->spaces);
	free(looking->seen);
}

/* ---- the numbers */

static struct name_space *find_space(struct looking *looking, int32_t number)
{
	for (size_t i = 0; i < looking->count; i++)
		if (looking->spaces[i].number == number)
			return &looking->spaces[i];
	return NULL;
}

static struct name_space *add_space(struct looking *looking, int32_t number)
{
	struct name_space *space = find_space(looking, number);

	if (space)
		return space;
	space = reallocarray(looking->spaces, looking->count + 1, sizeof(*space));
	if (!space)
		return NULL;
	looking->spaces = space;
	space = &looking->spaces[looking->count++];
	*space = (struct name_space){ .number = number };
	return space;
}

static int32_t number_of(const struct nlmsghdr *message)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct rtgenmsg))
	{
		if (mnl_attr_get_type(attribute) == NETNSA_NSID &&
			mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0)
			return (int32_t) mnl_attr_get_u32(attribute);
	}
	return NETNSA_NSID_NOT_ASSIGNED;
}

static int hear_number(void *context, const struct nlmsghdr *message)
{
	int32_t number = number_of(message);

	if (message->nlmsg_type != RTM_NEWNSID || number < 0)
		return 0;
	return add_space(context, number) ? 0 : -ENOMEM;
}

static int list_numbers(struct looking *looking)
{
	struct nlmsghdr *request = netlink_request(looking->netlink, RTM_GETNSID, NLM_F_DUMP);
	struct error ignored;

	(void) netlink_extra(request, sizeof(struct rtgenmsg));
	return netlink_talk(looking->netlink, request, hear_number, looking, &ignored);
}

static int keep_number(void *context, const struct nlmsghdr *message)
{
	int32_t *number = context;

	if (message->nlmsg_type == RTM_NEWNSID)
		*number = number_of(message);
	return 0;
}

static int32_t ask_number(struct looking *looking, uint32_t pid)
{
	struct nlmsghdr *request = netlink_request(looking->netlink, RTM_GETNSID, 0);
	int32_t number = NETNSA_NSID_NOT_ASSIGNED;
	struct error ignored;

	(void) netlink_extra(request, sizeof(struct rtgenmsg));
	mnl_attr_put_u32(request, NETNSA_PID, pid);
	if (netlink_talk(looking->netlink, request, keep_number, &number, &ignored) < 0)
		return NETNSA_NSID_NOT_ASSIGNED;
	return number;
}

/* As the kernel does by itself for a veth pair; without a number it cannot be asked. */
static void give_number(struct looking *looking, uint32_t pid)
{
	struct nlmsghdr *request = netlink_request(looking->netlink, RTM_NEWNSID, 0);
	struct error ignored;

	(void) netlink_extra(request, sizeof(struct rtgenmsg));
	mnl_attr_put_u32(request, NETNSA_NSID, (uint32_t) NETNSA_NSID_NOT_ASSIGNED);
	mnl_attr_put_u32(request, NETNSA_PID, pid);
	(void) !netlink_talk(looking->netlink, request, NULL, NULL, &ignored);
}

/* ---- whose they are */

/* True: it was not there before. */
static bool see(struct looking *looking, const char *path)
{
	struct stat status;
	ino_t *seen;

	if (fstatat(looking->root_fd, path, &status, 0) < 0)
		return false;
	for (size_t i = 0; i < looking->seen_count; i++)
		if (looking->seen[i] == status.st_ino)
			return false;
	seen = reallocarray(looking->seen, looking->seen_count + 1, sizeof(*seen));
	if (!seen)
		return false;
	looking->seen = seen;
	looking->seen[looking->seen_count++] = status.st_ino;
	return true;
}

static void describe(const struct looking *looking, pid_t pid, char where[POD_TEXT_SIZE])
{
	_cleanup_free_ char *command = NULL;
	struct pod pod;
	char path[64];

	if (pod_of_process(looking->root_fd, pid, &pod)) {
		pod_text(&pod, where);
		return;
	}
	(void) snprintf(path, sizeof(path), "proc/%d/comm", (int) pid);
	if (fs_read_line(looking->root_fd, path, &command) == 0)
		(void) snprintf(
			where, POD_TEXT_SIZE, "that of process %d (%.32s)", (int) pid, command);
}

static void look_at_process(struct looking *looking, pid_t pid)
{
	struct name_space *space;
	char path[64];
	int32_t number;

	(void) snprintf(path, sizeof(path), "proc/%d/ns/net", (int) pid);
	if (!see(looking, path))
		return;
	number = ask_number(looking, (uint32_t) pid);
	if (number < 0) {
		give_number(looking, (uint32_t) pid);
		number = ask_number(looking, (uint32_t) pid);
	}
	space = number < 0 ? NULL : add_space(looking, number);
	if (space)
		describe(looking, pid, space->where);
}

static void look_at_processes(struct looking *looking)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (!see(looking, "proc/self/ns/net") || fs_list(looking->root_fd, "proc", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++)
		if (isdigit((unsigned char) names.items[i][0]))
			look_at_process(looking, (pid_t) strtol(names.items[i], NULL, 10));
}

/* ---- what is in them */

static const char *text_of(const struct nlmsghdr *message, uint16_t type)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct ifinfomsg))
	{
		if (mnl_attr_get_type(attribute) == type &&
			mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(attribute);
	}
	return NULL;
}

/* A kernel that does not know the question answers for this name space. */
static bool is_of_another(const struct nlmsghdr *message)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, sizeof(struct ifinfomsg))
	{
		if (mnl_attr_get_type(attribute) == IFLA_TARGET_NETNSID)
			return true;
	}
	return false;
}

int name_spaces_take(struct away_links *links, const struct nlmsghdr *message, const char *where)
{
	const char *bus = text_of(message, IFLA_PARENT_DEV_BUS_NAME);
	const char *device = text_of(message, IFLA_PARENT_DEV_NAME);
	const char *name = text_of(message, IFLA_IFNAME);
	struct away_link *link;

	if (message->nlmsg_type != RTM_NEWLINK || !bus || !device || !name ||
		!is_of_another(message))
		return 0;
	link = reallocarray(links->items, links->count + 1, sizeof(*link));
	if (!link)
		return -ENOMEM;
	links->items = link;
	link = &links->items[links->count];
	if (snprintf(link->device, sizeof(link->device), "%s/%s", bus, device) >=
		(int) sizeof(link->device))
		return 0;
	(void) snprintf(link->name, sizeof(link->name), "%s", name);
	(void) snprintf(link->where, sizeof(link->where), "%s", where);
	links->count++;
	return 0;
}

static int hear_link(void *context, const struct nlmsghdr *message)
{
	const struct looking *looking = context;

	return name_spaces_take(looking->links, message, looking->at->where);
}

static int look_into(struct looking *looking, const struct name_space *space)
{
	struct nlmsghdr *request = netlink_request(looking->netlink, RTM_GETLINK, NLM_F_DUMP);
	struct error ignored;
	int r;

	(void) netlink_extra(request, sizeof(struct ifinfomsg));
	mnl_attr_put_u32(request, IFLA_TARGET_NETNSID, (uint32_t) space->number);
	mnl_attr_put_u32(request, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	looking->at = space;
	r = netlink_talk(looking->netlink, request, hear_link, looking, &ignored);
	return r == -ENOMEM ? r : 0; /* it ended meanwhile, or is not ours to look into */
}

int name_spaces_look(int root_fd, struct away_links *links)
{
	_cleanup_(looking_end) struct looking looking = { .root_fd = root_fd, .links = links };
	struct error ignored;
	int r = netlink_open(NETLINK_ROUTE, &looking.netlink, &ignored);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = list_numbers(&looking);
	if (r == -ENOMEM)
		return r;
	look_at_processes(&looking);
	r = 0;
	for (size_t i = 0; r == 0 && i < looking.count; i++)
		r = look_into(&looking, &looking.spaces[i]);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHCP clients that do not see that their interface went and another one of its name came, as ISC's
 * dhclient: they wait for answers on a packet socket of the old index, and when the lease has run
 * out they take the address away that was restored. systemd-networkd and NetworkManager begin anew.
 * /proc/net/packet has the sockets of all programs in this network namespace.
 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/netstate/link_internal.h"

/* Field of a link's record: the inodes of the packet sockets that were bound to it, "17,4711,". */
#define SOCKETS "sockets"

struct packet_socket {
	int index; /* of the interface; 0: of all; -1: of one that is gone */
	unsigned long inode;
};

/*
 * "00000000758a89da 3 3 0003 7 1 0 0 14829769": pointer, references, type, protocol, index, …,
 * inode (Linux net/packet/af_packet.c, packet_seq_show()). False: it is the table's head.
 */
static bool parse_line(const char *line, struct packet_socket *ret)
{
	return sscanf(line, "%*s %*d %*d %*x %d %*d %*u %*u %lu", &ret->index, &ret->inode) == 2;
}

static int add_socket(
	const struct links_save *save, const struct link *link, const struct packet_socket *socket)
{
	struct record *record = NULL;

	while ((record = records_next(save->run->records, "link", record)))
		if (strcmp(record_text(record, "name"), link->name) == 0 &&
			strcmp(record_text(record, "life"), save->life) == 0)
			return record_setf(record, SOCKETS, "%s%lu,", record_text(record, SOCKETS),
				socket->inode);
	return 0;
}

int dhcp_save(const struct links_save *save)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	char *rest;

	if (fs_read(save->run->netstate->root_fd, "proc/net/packet", 0, &text, NULL) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		struct packet_socket socket;
		const struct link *link;

		if (!parse_line(line, &socket) || socket.index <= 0 ||
			!links_save_has(save, (uint32_t) socket.index))
			continue;
		link = link_by_index(&save->table, (uint32_t) socket.index);
		if (link && add_socket(save, link, &socket) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool had_socket(const struct restored_link *link, unsigned long inode)
{
	_cleanup_strv_ struct strv inodes = { 0 };
	char word[32];

	(void) snprintf(word, sizeof(word), "%lu", inode);
	return strv_split(&inodes, record_text(link->record, SOCKETS), ",") == 0 &&
	       strv_contains(&inodes, word);
}

/* An address with a lifetime, which a client has to prolong. */
static const char *leased_address(const struct links_restore *restore, const char *name)
{
	const struct record *record = NULL;

	while ((record = records_next(restore->run->records, "address", record)))
		if (record_get(record, "since") && strcmp(record_text(record, "link"), name) == 0)
			return record_text(record, "text");
	return NULL;
}

void dhcp_report(const struct links_restore *restore)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	char *rest;

	if (fs_read(restore->run->netstate->root_fd, "proc/net/packet", 0, &text, NULL) < 0)
		return;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		struct packet_socket socket;

		if (!parse_line(line, &socket) || socket.index != -1)
			continue;
		for (size_t i = 0; i < restore->count; i++) {
			const struct restored_link *link = &restore->links[i];
			const char *address = leased_address(restore, link->name);

			if (address && link->now && had_socket(link, socket.inode))
				run_failure(restore->run,
					"%s: the lease of %s: its DHCP client still listens on "
					"the removed interface: restart it (with ifupdown: "
					"ifdown --force %s; ifup %s)",
					link->name, address, link->name, link->name);
		}
	}
}

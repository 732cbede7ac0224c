/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's udev: rules that keep the names of network interfaces while their driver is replaced,
 * and how udevd is asked to read what was written.
 *
 * One driver says which port of its device an interface is (phys_port_name), another does not, and
 * udev makes another name of it: ens1f0 becomes ens1f0np0, and the host's network configuration no
 * longer fits (systemd src/udev/udev-builtin-net_id.c).
 *
 * Each interface that is there now keeps its name: a rule for its place in /sys, its port on that
 * device. For ports that come later there is a general rule where no interface has "np0" in its
 * name today. It lets udev make the name without the port, by any of its policies (ONBOARD, SLOT,
 * PATH); systemd 255 and later know that word, others ignore it. Nothing runs a program.
 */
#include <ctype.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"

/* ---- rules that keep names */

#define NET "sys/class/net"

/* Linux include/uapi/linux/netdevice.h, NET_NAME_*: up to here the kernel counted. */
#define NAME_ENUMERATED 1

#define END_LABEL "slipway_names_end"

struct port {
	char name[64];
	char place[PATH_MAX]; /* "/devices/pci0000:00/0000:00:03.0" */
	char number[16];      /* dev_port */
	char label[64];       /* phys_port_name, or "" */
};

struct ports {
	struct port *items;
	size_t count;
};

static void ports_free(struct ports *ports)
{
	free(ports->items);
}

static void read_attribute(
	int root_fd, const char *name, const char *attribute, char *value, size_t size)
{
	_cleanup_free_ char *line = NULL;
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), NET "/%s/%s", name, attribute);
	value[0] = '\0';
	if (fs_read_line(root_fd, path, &line) == 0)
		(void) snprintf(value, size, "%s", line);
}

static bool read_link(int root_fd, const char *name, const char *link, char target[PATH_MAX])
{
	char path[PATH_MAX];
	ssize_t size;

	(void) snprintf(path, sizeof(path), NET "/%s%s", name, link);
	size = readlinkat(root_fd, path, target, PATH_MAX - 1);
	target[size < 0 ? 0 : size] = '\0';
	return size > 0;
}

/* Is its driver one of these modules, or its device Mellanox's? */
static bool is_concerned(int root_fd, const struct strv *modules, const char *name)
{
	char target[PATH_MAX], vendor[16];

	if (read_link(root_fd, name, "/device/driver/module", target)) {
		const char *slash = strrchr(target, '/');

		if (strv_contains(modules, slash ? slash + 1 : target))
			return true;
	}
	read_attribute(root_fd, name, "device/vendor", vendor, sizeof(vendor));
	return strtoul(vendor, NULL, 16) == CONTRACT_PCI_MELLANOX;
}

/* Does the text stand for itself in a rule: no pattern, no substitution, no quote? */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (!isalnum((unsigned char) *text) && !strchr("/.:,_+-@", *text))
			return false;
	return true;
}

/*
 * False for one that keeps its name by itself, or that no rule can name. "eth0", which the kernel
 * gives out by the order of coming, udev cannot give in its stead.
 */
static bool read_port(int root_fd, const char *name, struct port *port)
{
	char target[PATH_MAX], type[16];
	const char *begin;
	char *end;

	/* "../../devices/…/0000:00:03.0/net/ens3" to "/devices/…/0000:00:03.0". */
	if (!read_link(root_fd, name, "", target))
		return false;
	begin = strstr(target, "/devices/");
	end = strstr(target, "/net/");
	if (!begin || !end || end < begin)
		return false;
	*end = '\0';
	read_attribute(root_fd, name, "name_assign_type", type, sizeof(type));
	if (strtoul(type, NULL, 10) <= NAME_ENUMERATED)
		return false;
	(void) snprintf(port->place, sizeof(port->place), "%s", begin);
	(void) snprintf(port->name, sizeof(port->name), "%s", name);
	read_attribute(root_fd, name, "dev_port", port->number, sizeof(port->number));
	read_attribute(root_fd, name, "phys_port_name", port->label, sizeof(port->label));
	return true;
}

static int find_ports(
	int root_fd, const struct strv *modules, struct ports *ports, struct strv *notes)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(root_fd, NET, &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		const char *name = names.items[i];
		struct port port = { .name = "" };
		struct port *grown;

		if (!is_concerned(root_fd, modules, name) || !read_port(root_fd, name, &port))
			continue;
		if (!is_plain(port.name) || !is_plain(port.place) || !is_plain(port.label)) {
			r = strv_pushf(notes,
				"no udev rule keeps the name of %s: its name or its place in "
				"/sys cannot be written in a rule",
				name);
			continue;
		}
		grown = reallocarray(ports->items, ports->count + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		ports->items = grown;
		ports->items[ports->count++] = port;
	}
	return r;
}

/* No PCI function's own, which is "p0": "pf0vf1", "c1pf0", "pf0sf88". */
static bool is_representor(const struct port *port)
{
	return *port->label && (port->label[0] != 'p' || !isdigit((unsigned char) port->label[1]));
}

/* Has any "np0" at its end, or before a virtual function's "v12"? */
static bool any_has_port_in_name(const struct ports *ports)
{
	for (size_t i = 0; i < ports->count; i++) {
		const char *name = ports->items[i].name;

		for (const char *at = strstr(name, "np"); at; at = strstr(at + 1, "np")) {
			const char *rest = at + 2 + strspn(at + 2, "0123456789");

			if (at > name && rest > at + 2 && (!*rest || *rest == 'v'))
				return true;
		}
	}
	return false;
}

#define PIN "DEVPATH==\"%s/net/*\", %sNAME=\"%s\"\n"

/*
 * One of several of its device is named by its port's number where they differ. The driver that
 * comes may name the port, or name it no more: neither can be known now.
 */
static void print_port(FILE *stream, const struct ports *ports, const struct port *port)
{
	const struct port *sibling = NULL;
	char condition[128] = "";

	/* Another interface of the same device that is no representor either. */
	for (size_t i = 0; !sibling && i < ports->count; i++)
		if (&ports->items[i] != port && !is_representor(&ports->items[i]) &&
			strcmp(ports->items[i].place, port->place) == 0)
			sibling = &ports->items[i];
	if (!is_representor(port) && sibling && strcmp(sibling->number, port->number) != 0)
		(void) snprintf(
			condition, sizeof(condition), "ATTR{dev_port}==\"%s\", ", port->number);
	else if (*port->label)
		(void) snprintf(
			condition, sizeof(condition), "ENV{.SLIPWAY_PORT}==\"%s\", ", port->label);
	if (!is_representor(port) && *port->label && !sibling)
		(void) fprintf(stream, PIN, port->place, "ENV{.SLIPWAY_PORT}==\"\", ", port->name);
	(void) fprintf(stream, PIN, port->place, condition, port->name);
}

static void print_rules(FILE *stream, const struct ports *ports)
{
	(void) fputs("# Written by slipway-init: keeps the names of network interfaces while their "
		     "driver is replaced.\n"
		     "# Removed when the container ends; has no effect after a reboot.\n"
		     "ACTION!=\"add\", GOTO=\"" END_LABEL "\"\n"
		     "SUBSYSTEM!=\"net\", GOTO=\"" END_LABEL "\"\n"
		     "NAME!=\"\", GOTO=\"" END_LABEL "\"\n"
		     "ENV{.SLIPWAY_PORT}=\"$attr{phys_port_name}\"\n",
		stream);
	for (size_t i = 0; i < ports->count; i++)
		if (is_representor(&ports->items[i]))
			print_port(stream, ports, &ports->items[i]);
	/*
	 * Other representors have names of their own ("pf0vf1"; of old drivers "1"), and IPoIB's
	 * children ("ib0.8001") their user's.
	 */
	(void) fputs("ENV{.SLIPWAY_PORT}==\"*pf*\", GOTO=\"" END_LABEL "\"\n"
		     "ENV{.SLIPWAY_PORT}==\"[0-9]*\", GOTO=\"" END_LABEL "\"\n"
		     "KERNEL==\"*.*\", GOTO=\"" END_LABEL "\"\n",
		stream);
	for (size_t i = 0; i < ports->count; i++)
		if (!is_representor(&ports->items[i]))
			print_port(stream, ports, &ports->items[i]);
	if (!any_has_port_in_name(ports))
		(void) fprintf(stream,
			"NAME==\"\", ENV{.SLIPWAY_PORT}==\"p[0-9]\", ATTRS{vendor}==\"0x%04x\", "
			"ENV{ID_NET_NAME_ALLOW_PHYS_PORT_NAME}=\"0\", IMPORT{builtin}=\"net_id\"\n",
			CONTRACT_PCI_MELLANOX);
	(void) fputs("LABEL=\"" END_LABEL "\"\n", stream);
}

int udev_rules_make(int root_fd, const struct strv *modules, struct strv *notes, char **ret_text,
	struct error *error)
{
	_cleanup_(ports_free) struct ports ports = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *stream;
	int r = find_ports(root_fd, modules, &ports, notes);

	if (r < 0)
		return error_set_errno(error, r, "/" NET);
	stream = open_memstream(&text, &size);
	if (!stream)
		return error_set_errno(error, -ENOMEM, "udev rules");
	print_rules(stream, &ports);
	if (fclose(stream) != 0)
		return error_set_errno(error, -ENOMEM, "udev rules");
	*ret_text = TAKE_PTR(text);
	return 0;
}

/*
 * ---- udevd, which looks at the times of its folders of rules, and of libkmod's folders, when an
 * event comes and three seconds have passed since it looked last (systemd
 * src/udev/udev-manager.c, event_queue_start()). What the next event is to find it has to be asked
 * to read.
 */

#define VARLINK "run/udev/io.systemd.Udev"
#define CONTROL "run/udev/control"

/* systemd src/udev/udev-ctrl.c: struct UdevCtrlMessageWire, the same since udev 151. */
#define CONTROL_MAGIC  0xdead1dea
#define CONTROL_END    0
#define CONTROL_RELOAD 4

struct control_message {
	char version[16];
	uint32_t magic;
	uint32_t type;
	char value[256];
};

/* Connects through a descriptor's name in /proc: no call for socket paths takes a folder. */
static int connect_udevd(int root_fd, const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void) snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", root_fd, path);
	if (fd < 0 || connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Waits for something to be read. False: the time is over. */
static bool wait_for_answer(int fd, uint64_t end_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint64_t now_ms = clock_monotonic_ms();

	return now_ms < end_ms && poll(&poll_fd, 1, (int) (end_ms - now_ms)) > 0;
}

/* It hangs up when it has done all that it was asked. */
static bool control_reload(int fd, uint64_t end_ms)
{
	struct control_message message = {
		.version = "slipway", .magic = CONTROL_MAGIC, .type = CONTROL_RELOAD
	};
	char byte;

	if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) != (ssize_t) sizeof(message))
		return false;
	message.type = CONTROL_END;
	(void) !send(fd, &message, sizeof(message), MSG_NOSIGNAL);
	while (wait_for_answer(fd, end_ms)) {
		ssize_t got = recv(fd, &byte, sizeof(byte), 0);

		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return true;
		if (got < 0)
			return false;
	}
	return false;
}

static bool varlink_reload(int fd, uint64_t end_ms)
{
	static const char call[] = "{\"method\":\"io.systemd.Udev.Reload\",\"parameters\":{}}";
	char answer[512];
	size_t size = 0;

	if (send(fd, call, sizeof(call), MSG_NOSIGNAL) != (ssize_t) sizeof(call))
		return false;
	while (size < sizeof(answer) && wait_for_answer(fd, end_ms)) {
		ssize_t got = recv(fd, answer + size, sizeof(answer) - size, 0);

		if (got <= 0)
			return false;
		size += (size_t) got;
		if (answer[size - 1] == '\0')
			return !strstr(answer, "\"error\"");
	}
	return false;
}

/* One limit for all of it, which an undo has to keep within its share. */
bool udevd_reload(int root_fd, uint32_t limit_ms)
{
	uint64_t end_ms = clock_monotonic_ms() + limit_ms;
	_cleanup_close_ int varlink_fd = connect_udevd(root_fd, VARLINK, SOCK_STREAM);
	_cleanup_close_ int control_fd = -1;

	if (varlink_fd >= 0 && varlink_reload(varlink_fd, end_ms))
		return true;
	control_fd = connect_udevd(root_fd, CONTROL, SOCK_SEQPACKET);
	if (control_fd >= 0)
		return control_reload(control_fd, end_ms);
	return varlink_fd < 0 && !fs_exists(root_fd, VARLINK) && !fs_exists(root_fd, CONTROL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices with their ports, states and GIDs: by sysfs, and then what libibverbs (rdma-core)
 * has of them, whose provider talks to the device. It is opened at run time, as libkmod is: a node
 * may have none, or none that knows the device.
 */
#include "entrypoint/status/status_internal.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/library.h"

#define DEVICES      "sys/class/infiniband"
#define DEVICES_MAX  32
#define PORTS_MAX    4
#define GIDS_MAX     16
#define GID_SIZE     40 /* "fe80:0000:0000:0000:0202:c9ff:fe4a:f1b0" */
#define NAME_SIZE    64
#define VERBS_SONAME "libibverbs.so.1"

struct rdma_port {
	unsigned number;
	char state[16];      /* "ACTIVE" */
	char link_layer[16]; /* "Ethernet", "InfiniBand" */
	unsigned gid_count;  /* that are set; the first GIDS_MAX of them follow */
	char gids[GIDS_MAX][GID_SIZE];
};

struct rdma_device {
	char name[NAME_SIZE];
	char firmware[64];
	bool by_verbs; /* libibverbs has it */
	unsigned port_count;
	struct rdma_port ports[PORTS_MAX];
};

struct rdma_answer {
	size_t count;
	struct rdma_device devices[DEVICES_MAX];
};

/* ---- by sysfs */

/* Reads a file of a device; what stands in front of ": " ("4: ACTIVE") is left out. */
static void _printf_(4, 5) read_word(int root_fd, char *word, size_t size, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	char path[PATH_MAX] = DEVICES "/";
	va_list arguments;
	const char *text;

	va_start(arguments, format);
	(void) vsnprintf(path + strlen(path), sizeof(path) - strlen(path), format, arguments);
	va_end(arguments);
	word[0] = '\0';
	if (fs_read_line(root_fd, path, &line) < 0)
		return;
	text = strstr(line, ": ");
	(void) snprintf(word, size, "%s", text ? text + 2 : line);
}

static void read_port(int root_fd, const char *device, const char *name, struct rdma_port *port)
{
	static const char unset[] = "0000:0000:0000:0000:0000:0000:0000:0000";
	_cleanup_strv_ struct strv gids = { 0 };
	char path[PATH_MAX], gid[GID_SIZE];

	port->number = (unsigned) strtoul(name, NULL, 10);
	read_word(root_fd, port->state, sizeof(port->state), "%s/ports/%s/state", device, name);
	read_word(root_fd, port->link_layer, sizeof(port->link_layer), "%s/ports/%s/link_layer",
		device, name);
	(void) snprintf(path, sizeof(path), DEVICES "/%s/ports/%s/gids", device, name);
	if (fs_list(root_fd, path, &gids) < 0)
		return;
	for (size_t i = 0; i < gids.count; i++) {
		read_word(root_fd, gid, sizeof(gid), "%s/ports/%s/gids/%zu", device, name, i);
		if (!*gid || strcmp(gid, unset) == 0)
			continue;
		if (port->gid_count < GIDS_MAX)
			(void) snprintf(port->gids[port->gid_count], GID_SIZE, "%s", gid);
		port->gid_count++;
	}
}

static void read_devices(int root_fd, struct rdma_answer *answer)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(root_fd, DEVICES, &names) < 0)
		return;
	for (size_t i = 0; i < names.count && answer->count < DEVICES_MAX; i++) {
		struct rdma_device *device = &answer->devices[answer->count++];
		_cleanup_strv_ struct strv ports = { 0 };
		char path[256];

		(void) snprintf(device->name, sizeof(device->name), "%.63s", names.items[i]);
		read_word(root_fd, device->firmware, sizeof(device->firmware), "%s/fw_ver",
			device->name);
		(void) snprintf(path, sizeof(path), DEVICES "/%s/ports", device->name);
		if (fs_list(root_fd, path, &ports) < 0)
			continue;
		for (size_t k = 0; k < ports.count && k < PORTS_MAX; k++)
			read_port(root_fd, device->name, ports.items[k],
				&device->ports[device->port_count++]);
	}
}

/* ---- by libibverbs, in a child */

/* ibv_query_port() is a macro of the header; this is the function behind it. */
struct verbs {
	__typeof__(&ibv_get_device_list) get_device_list;
	__typeof__(&ibv_get_device_name) get_device_name;
	__typeof__(&ibv_open_device) open_device;
	__typeof__(&ibv_query_device) query_device;
	int (*query_port)(struct ibv_context *context, uint8_t number, struct ibv_port_attr *port);
};

static bool open_verbs(struct verbs *verbs)
{
	const struct status_symbol wanted[] = {
		{ "ibv_get_device_list", &verbs->get_device_list },
		{ "ibv_get_device_name", &verbs->get_device_name },
		{ "ibv_open_device", &verbs->open_device },
		{ "ibv_query_device", &verbs->query_device },
		{ "ibv_query_port", &verbs->query_port },
	};
	const char *ignored;
	void *library = library_open(VERBS_SONAME, RTLD_NOW, &ignored);

	return library && status_find_symbols(library, wanted, ARRAY_SIZE(wanted));
}

/* GIDs are not asked for: libibverbs reads those of the kernel's table, too. */
static void ask_port(const struct verbs *verbs, struct ibv_context *context, struct rdma_port *port)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE",
		"ACTIVE_DEFER" };
	struct ibv_port_attr attributes = { .state = IBV_PORT_NOP };
	const char *state = "unknown";

	if (verbs->query_port(context, (uint8_t) port->number, &attributes))
		return;
	if ((unsigned) attributes.state < ARRAY_SIZE(states))
		state = states[attributes.state];
	(void) snprintf(port->state, sizeof(port->state), "%s", state);
}

static void ask_verbs(int root_fd, void *context)
{
	struct rdma_answer *answer = context;
	struct ibv_device **list = NULL;
	struct verbs verbs;
	int count = 0;

	(void) root_fd;
	if (open_verbs(&verbs))
		list = verbs.get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		struct ibv_context *device_context = NULL;
		struct ibv_device_attr attributes;
		struct rdma_device *device = NULL;

		for (size_t k = 0; k < answer->count; k++)
			if (strcmp(answer->devices[k].name, verbs.get_device_name(list[i])) == 0)
				device = &answer->devices[k];
		if (device)
			device_context = verbs.open_device(list[i]);
		if (!device_context || verbs.query_device(device_context, &attributes))
			continue;
		device->by_verbs = true;
		(void) snprintf(
			device->firmware, sizeof(device->firmware), "%.63s", attributes.fw_ver);
		for (unsigned k = 0; k < device->port_count; k++)
			ask_port(&verbs, device_context, &device->ports[k]);
	}
	/* The child ends now: nothing is closed. */
}

static void print_port(struct json *json, const struct rdma_port *port)
{
	json_write_open(json, NULL, '{');
	json_write_number(json, "port", port->number);
	json_write_text_or_null(json, "state", port->state);
	json_write_text_or_null(json, "link_layer", port->link_layer);
	json_write_number(json, "gid_count", port->gid_count);
	json_write_open(json, "gids", '[');
	for (unsigned i = 0; i < port->gid_count && i < GIDS_MAX; i++)
		json_write_text(json, NULL, port->gids[i]);
	json_write_close(json, ']');
	json_write_close(json, '}');
	status_print(json, "; port %u %s, %s, %u GID%s", port->number,
		*port->state ? port->state : "unknown",
		*port->link_layer ? port->link_layer : "link layer not known", port->gid_count,
		port->gid_count == 1 ? "" : "s");
}

void status_rdma(int root_fd, struct json *json)
{
	_cleanup_free_ struct rdma_answer *answer = calloc(1, sizeof(*answer));
	struct stat given, system;

	if (!answer) {
		json_write_null(json, "rdma");
		return;
	}
	read_devices(root_fd, answer);
	/* The library looks at this system, whatever the root is. */
	if (answer->count && fstat(root_fd, &given) == 0 && stat("/", &system) == 0 &&
		given.st_dev == system.st_dev && given.st_ino == system.st_ino)
		(void) status_ask_child(ask_verbs, root_fd, answer, sizeof(*answer));
	json_write_open(json, "rdma", '[');
	for (size_t i = 0; i < answer->count; i++) {
		const struct rdma_device *device = &answer->devices[i];

		json_write_open(json, NULL, '{');
		json_write_text(json, "name", device->name);
		json_write_text_or_null(json, "firmware", device->firmware);
		json_write_boolean(json, "by_verbs", device->by_verbs);
		json_write_open(json, "ports", '[');
		status_print(json, "rdma     %s%s%s", device->name,
			*device->firmware ? ", firmware " : "", device->firmware);
		for (unsigned k = 0; k < device->port_count; k++)
			print_port(json, &device->ports[k]);
		json_write_close(json, ']');
		json_write_close(json, '}');
		status_print(json, "\n");
	}
	json_write_close(json, ']');
}

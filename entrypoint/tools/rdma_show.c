/* SPDX-License-Identifier: Apache-2.0 */
/* ibdev2netdev and show_gids: by sysfs, Linux Documentation/ABI/stable/sysfs-class-infiniband. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/text.h"
#include "entrypoint/rdma/port.h"
#include "entrypoint/tools/tools.h"
#include "entrypoint/tools/tools_internal.h"

const char ibdev2netdev_usage[] =
	"usage: ibdev2netdev\nShows the interface of each RDMA device's port.\n";
const char show_gids_usage[] = "usage: show_gids [DEVICE]\nShows the GIDs of RDMA devices.\n";

/* The line in a file, "" where it cannot be read; freed by the caller, NULL without memory. */
static char *_printf_(2, 3) read_text(int root_fd, const char *format, ...)
{
	char path[PATH_MAX];
	char *line = NULL;
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	return fs_read_line(root_fd, path, &line) < 0 ? strdup("") : line;
}

static int print_interface(int root_fd, const char *device, const char *port)
{
	_cleanup_free_ char *name = rdma_port_interface(root_fd, device, port);
	_cleanup_free_ char *state = NULL;

	if (!name || !*name)
		return 0;
	state = read_text(root_fd, "sys/class/net/%s/operstate", name);
	return printf("%s port %s ==> %s (%s)\n", device, port, name,
		state && strcmp(state, "up") == 0 ? "Up" : "Down");
}

/* "10.0.0.1" of "0000:0000:0000:0000:0000:ffff:0a00:0001"; "" of others. */
static void ipv4_of(const char *gid, char text[16])
{
	unsigned a, b;

	text[0] = '\0';
	if (sscanf(gid, "0000:0000:0000:0000:0000:ffff:%4x:%4x", &a, &b) == 2)
		(void) snprintf(
			text, 16, "%u.%u.%u.%u", a >> 8 & 0xff, a & 0xff, b >> 8 & 0xff, b & 0xff);
}

/* Returns how many there are. */
static int print_gids(int root_fd, const char *device, const char *port)
{
	_cleanup_strv_ struct strv indices = { 0 };
	char path[PATH_MAX];
	int count = 0;

	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/ports/%s/gids", device, port);
	(void) !fs_list(root_fd, path, &indices);
	for (size_t i = 0; i < indices.count; i++) {
		/* A name for each index from 0 on, which the list has sorted as words. */
		_cleanup_free_ char *gid = read_text(root_fd, "%s/%zu", path, i);
		_cleanup_free_ char *type = read_text(
			root_fd, RDMA_CLASS "/%s/ports/%s/gid_attrs/types/%zu", device, port, i);
		_cleanup_free_ char *interface = read_text(
			root_fd, RDMA_CLASS "/%s/ports/%s/gid_attrs/ndevs/%zu", device, port, i);
		const char *version = type ? strcasestr(type, "v") : NULL;
		char ipv4[16];

		/* Unset, or the subnet's prefix alone. */
		if (!gid || strlen(gid) != 39 || strspn(gid + 4, ":0") == strlen(gid + 4))
			continue;
		ipv4_of(gid, ipv4);
		(void) printf("%s\t%s\t%zu\t%s\t%-15s\t%s\t%s\n", device, port, i, gid, ipv4,
			version ? version : "", interface ? interface : "");
		count++;
	}
	return count;
}

/* Calls @print for each port of a device; returns the sum. */
static int each_port(int root_fd, const char *device,
	int (*print)(int root_fd, const char *device, const char *port))
{
	_cleanup_strv_ struct strv ports = { 0 };
	char path[PATH_MAX];
	int sum = 0;

	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/ports", device);
	(void) !fs_list(root_fd, path, &ports);
	for (size_t i = 0; i < ports.count; i++)
		sum += print(root_fd, device, ports.items[i]);
	return sum;
}

int rdma_show_main(int root_fd, const char *program, char *const *arguments)
{
	bool gids = strcmp(program, "show_gids") == 0;
	const char *only = gids ? arguments[0] : NULL;
	_cleanup_strv_ struct strv devices = { 0 };
	int count = 0;

	if (only ? !!arguments[1] : !!arguments[0]) {
		(void) fprintf(stderr, "usage: %s%s\n", program, gids ? " [DEVICE]" : "");
		return 2;
	}
	(void) !fs_list(root_fd, RDMA_CLASS, &devices);
	if (only && !strv_contains(&devices, only)) {
		text_print(stderr, "%s: no RDMA device %s below /" RDMA_CLASS "\n", program, only);
		return 1;
	}
	if (gids)
		(void) puts("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
			    "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---");
	for (size_t i = 0; i < devices.count; i++)
		if (!only || strcmp(devices.items[i], only) == 0)
			count += each_port(
				root_fd, devices.items[i], gids ? print_gids : print_interface);
	if (gids)
		(void) printf("n_gids_found=%d\n", count);
	return 0;
}

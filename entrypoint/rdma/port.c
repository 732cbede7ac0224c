/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/port.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"

char *rdma_port_interface(int root_fd, const char *device, const char *port)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *first = NULL;
	char path[PATH_MAX];

	(void) snprintf(
		path, sizeof(path), RDMA_CLASS "/%s/ports/%s/gid_attrs/ndevs/0", device, port);
	if (fs_read_line(root_fd, path, &first) == 0 && *first)
		return TAKE_PTR(first);
	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/device/net", device);
	(void) !fs_list(root_fd, path, &names);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *at = NULL;

		(void) snprintf(path, sizeof(path), "sys/class/net/%s/dev_port", names.items[i]);
		/* dev_port counts from 0, ports from 1. */
		if (fs_read_line(root_fd, path, &at) == 0 && *at && atoi(at) + 1 == atoi(port))
			return strdup(names.items[i]);
	}
	return strdup("");
}

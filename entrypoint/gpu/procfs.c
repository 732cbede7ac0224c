/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/procfs.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"

void procfs_value(int root_fd, const char *path, const char *key, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(key);
	char *line, *end, *rest;

	value[0] = '\0';
	if (fs_read(root_fd, path, 0, &text, NULL) < 0)
		return;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		end = line + strlen(line);
		while (end > line && strchr(" \t\r", end[-1]))
			*--end = '\0';
		(void) snprintf(value, size, "%s", line);
		return;
	}
}

static long value_number(int root_fd, const char *path, const char *key)
{
	char value[64];
	char *end;
	long number;

	procfs_value(root_fd, path, key, value, sizeof(value));
	number = strtol(value, &end, 10);
	return end == value || *end ? -1 : number;
}

long procfs_nvidia_parameter(int root_fd, const char *name)
{
	return value_number(root_fd, PROCFS_NVIDIA "/params", name);
}

long procfs_capability_minor(int root_fd, const char *path)
{
	return value_number(root_fd, path, "DeviceFileMinor");
}

/* "242 nvidia-caps-imex-channels"; block devices follow in a list of their own. */
int procfs_major(int root_fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	char *rest;

	if (fs_read(root_fd, "proc/devices", 0, &text, NULL) < 0)
		return -1;
	rest = text;
	while ((line = strsep(&rest, "\n")) && strncmp(line, "Block", strlen("Block")) != 0) {
		char driver[64];
		int major;

		if (sscanf(line, "%d %63s", &major, driver) == 2 && strcmp(driver, name) == 0)
			return major;
	}
	return -1;
}

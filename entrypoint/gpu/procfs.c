/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/procfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/fs.h"
#include "common/strv.h"

#define GDS_DEVICES "sys/class/nvidia-fs-class"

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

size_t procfs_addon_nodes(int root_fd, const char *module, struct addon_node nodes[ADDON_NODES_MAX])
{
	bool gdrcopy = !module || strcmp(module, "gdrdrv") == 0;
	bool gds = !module || strcmp(module, "nvidia_fs") == 0;
	int major = gdrcopy ? procfs_major(root_fd, "gdrdrv") : -1;
	_cleanup_strv_ struct strv devices = { 0 };
	size_t count = 0;

	if (major >= 0)
		nodes[count++] =
			(struct addon_node){ "gdrdrv", "dev/gdrdrv", makedev((unsigned) major, 0) };
	if (!gds || fs_list(root_fd, GDS_DEVICES, &devices) < 0)
		return count;
	for (size_t i = 0; i < devices.count && count < ADDON_NODES_MAX; i++) {
		struct addon_node *node = &nodes[count];
		_cleanup_free_ char *number = NULL;
		unsigned its_major, its_minor;
		char path[300];

		(void) snprintf(path, sizeof(path), GDS_DEVICES "/%.200s/dev", devices.items[i]);
		if (fs_read_line(root_fd, path, &number) < 0 ||
			sscanf(number, "%u:%u", &its_major, &its_minor) != 2)
			continue;
		node->module = "nvidia_fs";
		(void) snprintf(node->path, sizeof(node->path), "dev/%.64s", devices.items[i]);
		node->device = makedev(its_major, its_minor);
		count++;
	}
	return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/procfs.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"

void procfs_value(int root_fd, const char *path, const char *key, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;
	size_t key_length = strlen(key);

	value[0] = '\0';
	if (fs_read(root_fd, path, 0, &text, NULL) < 0)
		return;
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		const char *end = line + length;

		if (length > key_length && strncmp(line, key, key_length) == 0 &&
			line[key_length] == ':') {
			line += key_length + 1;
			line += strspn(line, " \t");
			while (end > line && strchr(" \t\r", end[-1]))
				end--;
			(void) snprintf(value, size, "%.*s", (int) (end - line), line);
			return;
		}
		line = end + (*end == '\n');
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

	if (fs_read(root_fd, "proc/devices", 0, &text, NULL) < 0)
		return -1;
	for (const char *line = text; *line && strncmp(line, "Block", strlen("Block")) != 0;) {
		size_t length = strcspn(line, "\n");
		char *after;
		long major = strtol(line, &after, 10);

		if (after != line && *after == ' ' &&
			(size_t) (line + length - after - 1) == strlen(name) &&
			strncmp(after + 1, name, strlen(name)) == 0)
			return (int) major;
		line += length + (line[length] == '\n');
	}
	return -1;
}

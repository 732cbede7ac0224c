/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/procfs.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"

static void copy_trimmed(const char *text, size_t length, char *value, size_t size)
{
	while (length && strchr(" \t", *text))
		text++, length--;
	while (length && strchr(" \t\r", text[length - 1]))
		length--;
	(void) snprintf(value, size, "%.*s", (int) length, text);
}

void procfs_text_value(const char *text, const char *key, char *value, size_t size)
{
	size_t key_length = strlen(key);

	value[0] = '\0';
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		if (length > key_length && strncmp(line, key, key_length) == 0 &&
			line[key_length] == ':') {
			copy_trimmed(line + key_length + 1, length - key_length - 1, value, size);
			return;
		}
		line += length + (line[length] == '\n');
	}
}

void procfs_value(int root_fd, const char *path, const char *key, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;

	value[0] = '\0';
	if (fs_read(root_fd, path, 0, &text, NULL) == 0)
		procfs_text_value(text, key, value, size);
}

long procfs_number(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	return end == text || *end ? -1 : number;
}

long procfs_nvidia_parameter(int root_fd, const char *name)
{
	char value[64];

	procfs_value(root_fd, PROCFS_NVIDIA "/params", name, value, sizeof(value));
	return procfs_number(value);
}

/* "242 nvidia-caps-imex-channels"; block devices follow in a list of their own. */
int procfs_text_major(const char *text, const char *name)
{
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

int procfs_major(int root_fd, const char *name)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(root_fd, "proc/devices", 0, &text, NULL) < 0 ? -1
								    : procfs_text_major(text, name);
}

long procfs_capability_minor(int root_fd, const char *path)
{
	char value[32];

	procfs_value(root_fd, path, "DeviceFileMinor", value, sizeof(value));
	return procfs_number(value);
}

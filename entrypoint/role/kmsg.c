/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/kmsg_internal.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The longest record that the kernel hands out is CONSOLE_EXT_LOG_MAX. */
#define KMSG_RECORD_SIZE 8192

int kmsg_open_at_end(int root_fd)
{
	int fd = openat(root_fd, "dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	kmsg_to_end(fd);
	return fd;
}

void kmsg_to_end(int kmsg_fd)
{
	if (kmsg_fd >= 0)
		(void) lseek(kmsg_fd, 0, SEEK_END);
}

static bool same_module_letters(const char *text, const char *module, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char have = text[i] == '-' ? '_' : text[i];

		if (have != module[i])
			return false;
	}
	return true;
}

static bool names_module(const char *text, const char *module)
{
	size_t length = strlen(module);
	size_t size = strlen(text);

	for (size_t i = 0; i + length <= size; i++)
		if (same_module_letters(text + i, module, length))
			return true;
	return strncmp(module, "nvidia", strlen("nvidia")) == 0 && strstr(text, "NVRM");
}

/* A newer record is worth more than an older one, so the oldest makes room. */
static void append_record(char *text, size_t size, const char *record)
{
	size_t length = strlen(record);
	size_t used = strlen(text);

	if (length + 3 > size)
		return;
	while (used && used + length + 3 > size) {
		char *rest = strstr(text, "; ");

		memmove(text, rest ? rest + 2 : text + used, rest ? strlen(rest + 2) + 1 : 1);
		used = strlen(text);
	}
	(void) snprintf(text + used, size - used, "%s%s", used ? "; " : "", record);
}

void kmsg_about(int kmsg_fd, const char *module, char *text, size_t size)
{
	char record[KMSG_RECORD_SIZE];
	ssize_t got;

	text[0] = '\0';
	while (kmsg_fd >= 0 && (got = read(kmsg_fd, record, sizeof(record) - 1)) > 0) {
		char *message;

		record[got] = '\0';
		message =
			strchr(record, ';'); /* "priority,sequence,time,flags;text\n key=value…" */
		if (!message)
			continue;
		message++;
		message[strcspn(message, "\n")] = '\0';
		if (names_module(message, module))
			append_record(text, size, message);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/symbols.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"

/*
 * A line: address, space, type, space, name, and for a module's symbol a tab and the module in
 * brackets. The type is upper case when a module exports the symbol (kernel/kallsyms.c: s_show()).
 */
static bool line_exports(const char *line, const char *symbol, const char **ret_after)
{
	const char *type = line + strcspn(line, " ");
	size_t length = strlen(symbol);

	if (strnlen(type, 3) < 3 || !isupper((unsigned char) type[1]))
		return false;
	if (strncmp(type + 3, symbol, length) != 0 || !strchr("\t\n", type[3 + length]))
		return false;
	*ret_after = type + 3 + length;
	return true;
}

static void owner_after_name(const char *after, char *owner, size_t size)
{
	if (after[0] == '\t' && after[1] == '[')
		(void) snprintf(owner, size, "%.*s", (int) strcspn(after + 2, "]"), after + 2);
	else
		(void) snprintf(owner, size, "vmlinux");
}

int symbols_exporter(int root_fd, const char *symbol, char *owner, size_t size)
{
	int fd = openat(root_fd, "proc/kallsyms", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	const char *after;
	size_t capacity = 0;

	if (!file)
		return -errno;
	while (getline(&line, &capacity, file) > 0) {
		if (!line_exports(line, symbol, &after))
			continue;
		owner_after_name(after, owner, size);
		return 0;
	}
	return -ENOENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/kallsyms.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * A line: address, space, type, space, name, and for a module's symbol a tab and the module in
 * brackets. The type is upper case when a module exports the symbol (kernel/kallsyms.c: s_show()).
 */
static bool parse_line(char *line, const char **ret_symbol, const char **ret_owner)
{
	char *type = line + strcspn(line, " ");
	char *symbol, *end;

	if (strnlen(type, 4) < 4 || !isupper((unsigned char) type[1]))
		return false;
	symbol = type + 3;
	end = symbol + strcspn(symbol, "\t\n");
	*ret_owner = "vmlinux";
	if (end[0] == '\t' && end[1] == '[') {
		*ret_owner = end + 2;
		end[2 + strcspn(end + 2, "]\n")] = '\0';
	}
	*end = '\0';
	*ret_symbol = symbol;
	return true;
}

int kallsyms_search(
	int root_fd, const struct strv *symbols, kallsyms_listener *listener, void *context)
{
	int fd = openat(root_fd, "proc/kallsyms", O_RDONLY | O_CLOEXEC);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	int r = 0;

	if (!file) {
		r = -errno;
		cleanup_close(&fd);
		return r;
	}
	while (r == 0 && getline(&line, &capacity, file) > 0) {
		const char *symbol, *owner;

		if (parse_line(line, &symbol, &owner) && strv_contains(symbols, symbol))
			r = listener(context, symbol, owner);
	}
	return r;
}

struct owner {
	char *text;
	size_t size;
};

static int take_owner(void *context, const char *symbol, const char *owner)
{
	const struct owner *ret = context;

	(void) symbol;
	(void) snprintf(ret->text, ret->size, "%s", owner);
	return 1;
}

int kallsyms_exporter(int root_fd, const char *symbol, char *owner, size_t size)
{
	char *name = (char *) (uintptr_t) symbol; /* only read */
	const struct strv one = { .items = &name, .count = 1 };
	struct owner ret = { owner, size };
	int r = kallsyms_search(root_fd, &one, take_owner, &ret);

	if (r < 0)
		return r;
	return r == 0 ? -ENOENT : 0;
}

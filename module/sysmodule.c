/* SPDX-License-Identifier: Apache-2.0 */
#include "module/running_internal.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "module/elf_internal.h"

#define BUILD_ID_NOTE "notes/.note.gnu.build-id"

static void module_path(char path[PATH_MAX], const char *name, const char *file)
{
	(void) snprintf(
		path, PATH_MAX, "sys/module/%s%s%s", name, file ? "/" : "", file ? file : "");
}

bool sysmodule_exists(int root_fd, const char *name)
{
	char path[PATH_MAX];

	module_path(path, name, NULL);
	return fs_exists(root_fd, path);
}

bool sysmodule_is_built_in(int root_fd, const char *name)
{
	char path[PATH_MAX];

	module_path(path, name, "initstate");
	return sysmodule_exists(root_fd, name) && !fs_exists(root_fd, path);
}

bool sysmodule_is_live(int root_fd, const char *name)
{
	_cleanup_free_ char *state = NULL;
	char path[PATH_MAX];
	int r;

	module_path(path, name, "initstate");
	r = fs_read_line(root_fd, path, &state);
	if (r == -ENOENT) /* a built-in module has a folder (for its parameters) but no state */
		return sysmodule_exists(root_fd, name);
	return r == 0 && strcmp(state, "live") == 0;
}

int sysmodule_references(int root_fd, const char *name)
{
	_cleanup_free_ char *count = NULL;
	char path[PATH_MAX];
	int r;

	module_path(path, name, "refcnt");
	r = fs_read_line(root_fd, path, &count);
	return r < 0 ? r : (int) strtol(count, NULL, 10);
}

int sysmodule_holders(int root_fd, const char *name, struct strv *holders)
{
	char path[PATH_MAX];
	int r;

	module_path(path, name, "holders");
	r = fs_list(root_fd, path, holders);
	return r == -ENOENT ? 0 : r;
}

int sysmodule_supported(int root_fd)
{
	if (fs_exists(root_fd, "proc/modules"))
		return 1;
	return fs_exists(root_fd, "proc/version") ? 0 : -1;
}

/* "name size …" lines of Linux kernel/module/procfs.c: in one read. */
static int list_proc(int root_fd, struct strv *names)
{
	_cleanup_free_ char *text = NULL;
	char *rest;
	char *line;
	int r = fs_read(root_fd, "proc/modules", 0, &text, NULL);

	rest = text;
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		line[strcspn(line, " ")] = '\0';
		if (*line)
			r = strv_push(names, line);
	}
	if (r == 0)
		strv_sort(names);
	return r;
}

int sysmodule_list(int root_fd, struct strv *names)
{
	_cleanup_strv_ struct strv all = { 0 };
	int r = list_proc(root_fd, names);

	if (r != -ENOENT)
		return r;
	r = fs_list(root_fd, "sys/module", &all);
	for (size_t i = 0; r == 0 && i < all.count; i++) {
		char path[PATH_MAX];

		module_path(path, all.items[i], "initstate");
		if (fs_exists(root_fd, path))
			r = strv_push(names, all.items[i]);
	}
	return r;
}

size_t build_id_of_notes(const char *notes, size_t size, unsigned char id[BUILD_ID_SIZE])
{
	size_t offset = 0;
	Elf64_Nhdr header;

	while (size - offset >= sizeof(header)) {
		size_t left, name_size;

		memcpy(&header, notes + offset, sizeof(header));
		offset += sizeof(header);
		left = size - offset;
		name_size = ((size_t) header.n_namesz + 3) & ~(size_t) 3;
		if (name_size > left || header.n_descsz > left - name_size)
			return 0;
		if (header.n_type == NT_GNU_BUILD_ID && header.n_descsz <= BUILD_ID_SIZE) {
			memcpy(id, notes + offset + name_size, header.n_descsz);
			return header.n_descsz;
		}
		offset += name_size + (((size_t) header.n_descsz + 3) & ~(size_t) 3);
		if (offset > size)
			return 0;
	}
	return 0;
}

void sysmodule_build_id(int root_fd, const char *name, char hex[BUILD_ID_HEX_SIZE])
{
	_cleanup_free_ char *notes = NULL;
	unsigned char id[BUILD_ID_SIZE] = { 0 };
	char path[PATH_MAX];
	size_t size;

	hex[0] = '\0';
	module_path(path, name, BUILD_ID_NOTE);
	if (fs_read(root_fd, path, 4096, &notes, &size) == 0)
		hex_copy(id, build_id_of_notes(notes, size, id), hex);
}

bool sysmodule_exports_nothing(int root_fd, const char *name)
{
	/* Every loaded module has it: without it, the sections cannot be seen. */
	static const char this_module[] = "sections/.gnu.linkonce.this_module";
	char path[PATH_MAX];

	module_path(path, name, this_module);
	if (!fs_exists(root_fd, path))
		return false;
	module_path(path, name, "sections/__ksymtab");
	if (fs_exists(root_fd, path))
		return false;
	module_path(path, name, "sections/__ksymtab_gpl");
	return !fs_exists(root_fd, path);
}

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

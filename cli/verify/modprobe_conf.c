/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"

#define TEXT_LIMIT ((size_t) 1 << 20)

static const char blanks[] = " \t";

/* "MODULE PARAMETER=VALUE …": what follows "options". */
static void take_options(const char *line, struct strv *options)
{
	size_t name = strcspn(line, blanks);

	for (const char *option = line + name; *(option += strspn(option, blanks));) {
		const char *end = option;

		/* To the first blank that is not between double quotes. */
		for (bool quoted = false; *end && (quoted || !strchr(blanks, *end)); end++)
			quoted ^= *end == '"';
		xstrv_pushf(options, "%.*s %.*s", (int) name, line, (int) (end - option), option);
		for (char *c = options->items[options->count - 1]; *c != ' '; c++)
			if (*c == '-')
				*c = '_';
		option = end;
	}
}

void modprobe_conf_parse(const char *text, struct strv *options)
{
	static const char command[] = "options";
	_cleanup_free_ char *joined = xstrdup(text);
	char *rest = joined, *to = joined;
	const char *line;

	/* A line and what follows its backslash are one. */
	for (const char *from = joined; *from; from++)
		if (from[0] == '\\' && from[1] == '\n')
			from++;
		else
			*to++ = *from;
	*to = '\0';
	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, blanks);
		if (strncmp(line, command, strlen(command)) != 0)
			continue;
		line += strlen(command);
		if (*line && strchr(blanks, *line))
			take_options(line + strspn(line, blanks), options);
	}
}

/* A file hides those of its name in the folders that come later. */
static int read_folder(int root_fd, const char *folder, struct strv *seen, struct strv *options)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int fd = open_in_root(root_fd, folder, O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? 0 : fs_list(fd, ".", &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		const char *name = names.items[i];
		const char *dot = strrchr(name, '.');
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
		_cleanup_free_ char *text = NULL;
		_cleanup_close_ int file_fd = -1;
		char self[64];

		if (*name == '.' || !dot || strcmp(dot, ".conf") != 0 || strv_contains(seen, name))
			continue;
		xstrv_push(seen, name);
		file_fd = open_in_root(root_fd, path, O_RDONLY | O_NONBLOCK);
		(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", file_fd);
		if (file_fd >= 0 && fs_read(AT_FDCWD, self, TEXT_LIMIT, &text, NULL) == 0)
			modprobe_conf_parse(text, options);
	}
	return r;
}

int modprobe_conf_read(int root_fd, struct strv *options, struct error *error)
{
	static const char *const folders[] = { "etc/modprobe.d", "run/modprobe.d",
		"usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d" };
	_cleanup_strv_ struct strv seen = { 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
		r = read_folder(root_fd, folders[i], &seen, options);
	return r < 0 ? error_set_errno(error, r, "modprobe.d") : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/modprobe_conf.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/within.h"

#define TEXT_LIMIT ((size_t) 1 << 20)

static const char blanks[] = " \t";

/* Makes one line of a line and what follows its backslashes. */
static char *join_lines(const char *text)
{
	char *joined = strdup(text);
	char *to = joined;

	for (const char *from = text; joined && *from; from++) {
		if (from[0] == '\\' && from[1] == '\n')
			from++;
		else
			*to++ = *from;
	}
	if (joined)
		*to = '\0';
	return joined;
}

/* The end of an option: the first blank that is not between double quotes. */
static size_t option_length(const char *text)
{
	bool quoted = false;
	size_t length = 0;

	for (; text[length]; length++) {
		if (text[length] == '"')
			quoted = !quoted;
		else if (!quoted && strchr(blanks, text[length]))
			break;
	}
	return length;
}

/* "options MODULE PARAMETER=VALUE …" without its first word. */
static int take_options(const char *line, struct strv *options)
{
	size_t name = strcspn(line, blanks);
	const char *option = line + name;
	int r = 0;

	for (option += strspn(option, blanks); *option && r == 0;
		option += strspn(option, blanks)) {
		size_t length = option_length(option);

		r = strv_pushf(options, "%.*s %.*s", (int) name, line, (int) length, option);
		if (r < 0)
			return r;
		for (char *c = options->items[options->count - 1]; *c != ' '; c++)
			if (*c == '-')
				*c = '_';
		option += length;
	}
	return r;
}

int modprobe_conf_parse(const char *text, struct strv *options)
{
	static const char command[] = "options";
	_cleanup_free_ char *joined = join_lines(text);
	char *rest = joined;
	const char *line;
	int r = joined ? 0 : -ENOMEM;

	while (r == 0 && (line = strsep(&rest, "\n"))) {
		line += strspn(line, blanks);
		if (strncmp(line, command, strlen(command)) != 0)
			continue;
		line += strlen(command);
		if (*line && strchr(blanks, *line))
			r = take_options(line + strspn(line, blanks), options);
	}
	return r;
}

static bool is_conf(const char *name)
{
	size_t length = strlen(name);

	return *name != '.' && length > 5 && strcmp(name + length - 5, ".conf") == 0;
}

/* A file hides those of its name in the folders that come later. */
static int read_folder(int root_fd, const char *folder, struct strv *seen, struct strv *options)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int fd = open_in_root(root_fd, folder, O_RDONLY | O_DIRECTORY);
	int r;

	if (fd < 0)
		return 0;
	r = fs_list(fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *text = NULL;
		_cleanup_close_ int file_fd = -1;
		char self[64];

		if (!is_conf(names.items[i]) || strv_contains(seen, names.items[i]))
			continue;
		if (asprintf(&path, "%s/%s", folder, names.items[i]) < 0)
			return -ENOMEM;
		r = strv_push(seen, names.items[i]);
		file_fd = open_in_root(root_fd, path, O_RDONLY | O_NONBLOCK);
		(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", file_fd);
		if (r == 0 && file_fd >= 0 && fs_read(AT_FDCWD, self, TEXT_LIMIT, &text, NULL) == 0)
			r = modprobe_conf_parse(text, options);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ini_file.h"

#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define FILE_LIMIT    (1024UL * 1024)
#define LINE_LIMIT    190 /* inih's own is 199, line end included */
#define SECTION_LIMIT 48

struct reader {
	ini_file_key on_key;
	void *context;
	int result;        /* of the handler, the first that failed */
	char refused[128]; /* which key that was */
};

static int on_pair(void *user, const char *section, const char *key, const char *value)
{
	struct reader *reader = user;
	int r = reader->on_key(reader->context, section, key, value);

	if (r < 0 && reader->result == 0) {
		reader->result = r;
		(void) snprintf(
			reader->refused, sizeof(reader->refused), "[%s] %s: ", section, key);
	}
	return r == 0;
}

static int check_lines(const char *path, const char *text, struct error *error)
{
	int number = 1;

	for (const char *line = text; *line; number++) {
		size_t length = strcspn(line, "\n");

		if (length > LINE_LIMIT)
			return error_set(error, -EINVAL,
				"%s:%d: a line of more than %d bytes: continue it in the next "
				"line, which begins with a blank",
				path, number, LINE_LIMIT);
		if (*line == '[' && length > SECTION_LIMIT + 2)
			return error_set(error, -EINVAL,
				"%s:%d: a section name has more than %d bytes", path, number,
				SECTION_LIMIT);
		line += length + (line[length] == '\n');
	}
	return 0;
}

int ini_file_read(const char *path, ini_file_key on_key, void *context, struct error *error)
{
	struct reader reader = { .on_key = on_key, .context = context };
	_cleanup_free_ char *text = NULL;
	int line;
	int r = fs_read(AT_FDCWD, path, FILE_LIMIT, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	r = check_lines(path, text, error);
	if (r < 0)
		return r;
	line = ini_parse_string(text, on_pair, &reader);
	if (reader.result < 0 && reader.result != -EINVAL)
		return error_set_errno(error, reader.result, "%s", path);
	if (line)
		return error_set(error, -EINVAL,
			"%s:%d: %sunknown section or key, a value that is not allowed or repeated, "
			"or a broken line",
			path, line, reader.refused);
	return 0;
}

char *ini_file_user_path(const char *name)
{
	const char *folder = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (folder && *folder == '/')
		return xasprintf("%s/slipway/%s", folder, name);
	return home && *home == '/' ? xasprintf("%s/.config/slipway/%s", home, name) : NULL;
}

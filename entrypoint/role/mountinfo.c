/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/mountinfo.h"

#include <limits.h>
#include <string.h>

#include "common/fs.h"

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw" */
struct line {
	char place[PATH_MAX]; /* the fifth field: "/mnt2"; a blank in it is "\\040" */
	bool shared;
};

#define FIELDS_BEFORE_PLACE   4
#define FIELDS_BEFORE_OPTIONS 6 /* optional ones: "shared:1", "master:1"; a lone dash ends them */

static size_t skip_fields(const char *text, size_t length, unsigned count)
{
	size_t at = 0;

	while (count && at < length)
		count -= text[at++] == ' ';
	return at;
}

static void parse_line(const char *text, size_t length, struct line *line)
{
	size_t at = skip_fields(text, length, FIELDS_BEFORE_PLACE);
	const char *place = text + at;

	(void) snprintf(
		line->place, sizeof(line->place), "%.*s", (int) strcspn(place, " \n"), place);
	line->shared = false;
	for (at = skip_fields(text, length, FIELDS_BEFORE_OPTIONS); at < length && text[at] != '-';
		at += skip_fields(text + at, length - at, 1))
		if (strncmp(text + at, "shared:", strlen("shared:")) == 0)
			line->shared = true;
}

static bool next_line(const char **text, struct line *line)
{
	size_t length = strcspn(*text, "\n");

	if (!length)
		return false;
	parse_line(*text, length, line);
	*text += length + ((*text)[length] == '\n');
	return true;
}

static int read_table(int root_fd, char **ret_text)
{
	return fs_read(root_fd, "proc/self/mountinfo", 0, ret_text, NULL);
}

int mountinfo_count(int root_fd, const char *path)
{
	_cleanup_free_ char *text = NULL;
	int r = read_table(root_fd, &text);
	const char *rest = text;
	struct line line = { .shared = false };
	int count = 0;

	if (r < 0)
		return r;
	while (next_line(&rest, &line))
		count += strcmp(line.place + 1, path) == 0;
	return count;
}

static bool lies_on(const char *path, const char *place)
{
	size_t length = strlen(place);

	return length == 0 ||
	       (strncmp(path, place, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

int mountinfo_find(int root_fd, const char *path, struct mountinfo *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = read_table(root_fd, &text);
	const char *rest = text;
	struct line line = { .shared = false };
	size_t longest = 0;

	*ret = (struct mountinfo){ .shared = false };
	if (r < 0)
		return r;
	while (next_line(&rest, &line)) {
		size_t length = strlen(line.place + 1);

		if (length < longest || !lies_on(path, line.place + 1))
			continue;
		longest = length;
		*ret = (struct mountinfo){ .of_root = length == 0, .shared = line.shared };
	}
	return 0;
}

bool mountinfo_is_shared(int root_fd, const char *path)
{
	struct mountinfo mount;

	return mountinfo_find(root_fd, path, &mount) == 0 && mount.shared;
}

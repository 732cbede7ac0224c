/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/web_page.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/fs.h"

/* Blanks, <?xml …?> and <!-- … --> may come before the page itself. */
static const char *skip_prolog(const char *text)
{
	for (;;) {
		const char *end = NULL;

		text += strspn(text, " \t\r\n");
		if (strncmp(text, "<?xml", 5) == 0)
			end = strstr(text, "?>");
		else if (strncmp(text, "<!--", 4) == 0)
			end = strstr(text, "-->");
		if (!end)
			return text;
		text = strchr(end, '>') + 1;
	}
}

bool web_page_is(int dir_fd, const char *path)
{
	static const char *const starts[] = { "<!doctype html", "<html", "<head" };
	static const char mark[] = "\xef\xbb\xbf"; /* UTF-8's */
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	char buffer[1025] = "";
	const char *text = buffer;

	if (fd < 0 || read(fd, buffer, sizeof(buffer) - 1) <= 0)
		return false;
	if (strncmp(text, mark, strlen(mark)) == 0)
		text += strlen(mark);
	text = skip_prolog(text);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (strncasecmp(text, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

int web_page_refuse(const char *name, int code, struct error *error)
{
	(void) error_set(error, code, "%s: this is a web page, not the file", name);
	return error_try(error, code,
		"open the URL in a browser: a login page or a proxy may answer instead of the "
		"server");
}

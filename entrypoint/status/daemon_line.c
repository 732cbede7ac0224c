/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/daemon_line.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/roles.h"

#define STATE_FILE GPU_STATE_FOLDER "/gpu.daemons"

char *daemon_lines_read(int root_fd)
{
	char *text = NULL;

	return fs_read(root_fd, STATE_FILE, 65536, &text, NULL) < 0 ? NULL : text;
}

/* What an older slipway-init wrote ends with last-exit. */
static bool parse(const char *line, struct daemon_line *daemon)
{
	*daemon = (struct daemon_line){ .pid = 0 };
	if (sscanf(line, "%63s %ld %31s %ld %ld %31s %ld %511[^\n]", daemon->name, &daemon->pid,
		    daemon->state, &daemon->restarts, &daemon->since, daemon->last_exit,
		    &daemon->again, daemon->why) < 6)
		return false;
	if (strcmp(daemon->last_exit, "-") == 0)
		daemon->last_exit[0] = '\0';
	return true;
}

bool daemon_line_next(const char **text, struct daemon_line *daemon)
{
	while (*text && **text) {
		char line[1024];
		size_t length = strcspn(*text, "\n");

		(void) snprintf(line, sizeof(line), "%.*s", (int) length, *text);
		*text += length + ((*text)[length] == '\n');
		if (parse(line, daemon))
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/daemon_line.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/roles.h"

#define STATE_FILE GPU_STATE_FOLDER "/gpu.daemons"

char *daemon_lines_read(int root_fd)
{
	char *text = NULL;

	return fs_read(root_fd, STATE_FILE, 65536, &text, NULL) < 0 ? NULL : text;
}

bool daemon_line_next(const char **text, struct daemon_line *daemon)
{
	while (*text && **text) {
		char line[256];
		size_t length = strcspn(*text, "\n");

		(void) snprintf(line, sizeof(line), "%.*s", (int) length, *text);
		*text += length + ((*text)[length] == '\n');
		if (sscanf(line, "%63s %ld %31s %ld %ld %31s", daemon->name, &daemon->pid,
			    daemon->state, &daemon->restarts, &daemon->since,
			    daemon->last_exit) == 6)
			return true;
	}
	return false;
}

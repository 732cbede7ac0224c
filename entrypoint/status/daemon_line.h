/* SPDX-License-Identifier: Apache-2.0 */
/* The file in which the GPU role's supervisor keeps how its daemons are (daemons/supervisor.h). */
#pragma once

#include <stdbool.h>

struct daemon_line {
	char name[64];
	long pid; /* 0: does not run */
	char state[32];
	long restarts;
	long since;         /* seconds since 1970 */
	char last_exit[32]; /* "" as long as none ended */
	long again;         /* seconds since 1970: one that waits is started again then; 0 */
	char why[512];      /* how it ended last, with its last words; "" */
};

/* The file's text, which the caller frees; NULL without one. */
char *daemon_lines_read(int root_fd);

/* The daemon at *@text (which may be NULL), and on to the one after it; false at the end. */
bool daemon_line_next(const char **text, struct daemon_line *daemon);

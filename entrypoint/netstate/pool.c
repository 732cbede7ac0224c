/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/engine/spawn.h"
#include "entrypoint/netstate/netstate_internal.h"

/* A line of this size is written to a pipe in one piece (PIPE_BUF). */
#define LINE_SIZE    2048
#define POOL_LARGEST 64

/* A line is a report, or behind this a job's number and status. */
#define STATUS '\t'

/* The data of one process: process @number of @width does every @width-th job. */
struct share {
	const struct run *run;
	unsigned number;
	unsigned width;
	size_t count;
	pool_job *job;
	void *context;
	enum job_status *statuses;
	int fd; /* the pipe's writing end */
};

/* Without a reader any more nothing has to be reported. */
static void write_line(void *context, const char *text)
{
	const struct share *share = context;
	char line[LINE_SIZE];
	int length = snprintf(line, sizeof(line) - 1, "%s", text);

	if (length > (int) sizeof(line) - 2)
		length = (int) sizeof(line) - 2;
	for (int i = 0; i < length; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[length] = '\n';
	(void) !fs_write_all(share->fd, line, (size_t) length + 1);
}

/* @run: the share's, or that of a child, which reports by the pipe. */
static void do_share(struct share *share, const struct run *run, bool is_child)
{
	for (size_t i = share->number; i < share->count; i += share->width) {
		enum job_status status = share->job(run, share->context, i);
		char text[48];

		if (is_child) {
			(void) snprintf(text, sizeof(text), "%c%zu %d", STATUS, i, (int) status);
			write_line(share, text);
		} else if (share->statuses) {
			share->statuses[i] = status;
		}
	}
}

static void run_share(void *context)
{
	struct share *share = context;
	struct netstate netstate = *share->run->netstate;
	struct run run = *share->run;

	netstate.report = write_line;
	netstate.context = share;
	run.netstate = &netstate;
	do_share(share, &run, true);
}

static void read_line(const struct share *share, const char *line)
{
	size_t index;
	int status;

	if (*line == STATUS) {
		if (share->statuses && sscanf(line + 1, "%zu %d", &index, &status) == 2 &&
			index < share->count)
			share->statuses[index] = (enum job_status) status;
		return;
	}
	if (strncmp(line, RUN_FAILURE, strlen(RUN_FAILURE)) == 0)
		share->run->result->failures++;
	run_note(share->run, "%s", line);
}

int pool_run(const struct run *run, size_t count, unsigned width, pool_job *job, void *context,
	enum job_status *statuses, struct error *error)
{
	struct share share = {
		.run = run,
		.width = width < POOL_LARGEST ? width : POOL_LARGEST,
		.count = count,
		.job = job,
		.context = context,
		.statuses = statuses,
	};
	_cleanup_fclose_ FILE *reports = NULL;
	char line[LINE_SIZE + 1];
	pid_t pids[POOL_LARGEST];
	int ends[2] = { -1, -1 };

	if (count < share.width)
		share.width = (unsigned) count;
	if (pipe2(ends, O_CLOEXEC) == 0)
		reports = fdopen(ends[0], "re");
	if (!reports) {
		cleanup_close(&ends[0]);
		cleanup_close(&ends[1]);
		return error_set_errno(error, -errno, "no pipe to restore devices");
	}
	share.fd = ends[1];
	for (unsigned i = 0; i < share.width; i++) {
		const struct spawn spawn = { .run = run_share, .context = &share };

		share.number = i;
		if (spawn_start(&spawn, &pids[i]) < 0)
			pids[i] = -1;
	}
	cleanup_close(&ends[1]);
	/* No process to be had: what it would do is done here. */
	for (unsigned i = 0; i < share.width; i++) {
		share.number = i;
		if (pids[i] < 0)
			do_share(&share, run, false);
	}
	while (fgets(line, sizeof(line), reports)) {
		line[strcspn(line, "\n")] = '\0';
		read_line(&share, line);
	}
	for (unsigned i = 0; i < share.width; i++) {
		int status = pids[i] > 0 ? spawn_wait(pids[i]) : 0;

		if (status > 128)
			run_failure(run,
				"a process that restores devices was ended by signal %d: some of "
				"them may be missing; the next start retries those",
				status - 128);
	}
	return 0;
}

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

struct pool {
	int fd; /* the pipe's writing end */
};

/* A job's report is a letter, a text and a newline. */
void pool_report(const struct pool *pool, char letter, const char *text)
{
	char line[LINE_SIZE];
	int length = snprintf(line, sizeof(line) - 1, "%c%s", letter, text);

	if (length > (int) sizeof(line) - 2)
		length = (int) sizeof(line) - 2;
	for (int i = 0; i < length; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[length] = '\n';
	/* Without a reader any more nothing has to be reported. */
	(void) !fs_write_all(pool->fd, line, (size_t) length + 1);
}

static void read_line(
	const struct run *run, const char *line, size_t count, enum job_status *statuses)
{
	size_t index;
	int status;

	if (*line == 'N')
		run_note(run, "%s", line + 1);
	else if (*line == 'F')
		run_failure(run, "%s", line + 1);
	else if (statuses && sscanf(line, "E%zu %d", &index, &status) == 2 && index < count)
		statuses[index] = (enum job_status) status;
}

/* What each process has: process @number of @width does every @width-th job. */
struct share {
	const struct run *run;
	unsigned number;
	unsigned width;
	size_t count;
	pool_job *job;
	void *context;
	enum job_status *statuses;
};

static void do_share(void *context)
{
	const struct share *share = context;
	const struct run *run = share->run;

	for (size_t i = share->number; i < share->count; i += share->width) {
		enum job_status status = share->job(run, share->context, i);
		char text[48];

		if (!share->statuses)
			continue;
		share->statuses[i] = status;
		(void) snprintf(text, sizeof(text), "%zu %d", i, (int) status);
		if (run->pool)
			pool_report(run->pool, 'E', text);
	}
}

int pool_run(const struct run *run, size_t count, unsigned width, pool_job *job, void *context,
	enum job_status *statuses, struct error *error)
{
	_cleanup_fclose_ FILE *reports = NULL;
	char line[LINE_SIZE + 1];
	pid_t pids[POOL_LARGEST] = { 0 };
	struct run child = *run;
	int ends[2] = { -1, -1 };
	struct pool pool = { -1 };
	struct share share = { &child, 0, width < POOL_LARGEST ? width : POOL_LARGEST, count, job,
		context, statuses };

	if (count < share.width)
		share.width = (unsigned) count;
	if (!run->pool) {
		if (pipe2(ends, O_CLOEXEC) == 0)
			reports = fdopen(ends[0], "re");
		if (!reports) {
			cleanup_close(&ends[0]);
			cleanup_close(&ends[1]);
			return error_set_errno(error, -errno, "no pipe to bring devices back");
		}
		pool.fd = ends[1];
		child.pool = &pool;
	}
	for (share.number = 0; share.number < share.width; share.number++) {
		const struct spawn spawn = { .run = do_share, .context = &share };
		pid_t *pid = &pids[share.number];

		if ((run->pool && share.width == 1) || spawn_start(&spawn, pid) < 0)
			*pid = -1;
	}
	cleanup_close(&ends[1]);
	/* No process to be had: what it would do is done here. */
	share.run = run;
	for (share.number = 0; share.number < share.width; share.number++)
		if (pids[share.number] < 0)
			do_share(&share);
	while (reports && fgets(line, sizeof(line), reports)) {
		line[strcspn(line, "\n")] = '\0';
		read_line(run, line, count, statuses);
	}
	for (unsigned i = 0; i < share.width; i++) {
		int status = pids[i] > 0 ? spawn_wait(pids[i]) : 0;

		if (status > 128)
			run_failure(run,
				"a process that brings devices back was ended by signal %d: some "
				"of them may not be back; the next start tries those again",
				status - 128);
	}
	return 0;
}

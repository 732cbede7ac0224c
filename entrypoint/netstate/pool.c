/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/fs.h"
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

void pool_count(const struct run *run, unsigned devices, unsigned vfs)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "%u %u", devices, vfs);
	if (run->pool) {
		pool_report(run->pool, 'C', text);
		return;
	}
	run->result->devices += devices;
	run->result->vfs += vfs;
}

static void read_line(
	const struct run *run, const char *line, size_t count, enum job_status *statuses)
{
	unsigned devices, vfs;
	size_t index;
	int status;

	switch (*line) {
	case 'E':
		if (statuses && sscanf(line + 1, "%zu %d", &index, &status) == 2 && index < count)
			statuses[index] = (enum job_status) status;
		break;
	case 'C':
		if (sscanf(line + 1, "%u %u", &devices, &vfs) == 2)
			pool_count(run, devices, vfs);
		break;
	case 'F':
		run_failure(run, "%s", line + 1);
		break;
	case 'N':
		run_note(run, "%s", line + 1);
		break;
	default:
		break;
	}
}

struct share {
	size_t count;
	unsigned width;
	pool_job *job;
	void *context;
	enum job_status *statuses;
};

/* Process @number of share->width does every share->width-th job. */
static void do_share(const struct run *run, const struct share *share, size_t number)
{
	for (size_t i = number; i < share->count; i += share->width) {
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

static pid_t start(const struct run *run, const struct share *share, size_t number)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* What kills the worker is to end all of it. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		do_share(run, share, number);
	_exit(0);
}

static void await(const struct run *run, pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		run_failure(run,
			"a process that brings devices back was ended by signal %d: some of them "
			"may not be back; the next start tries those again",
			WTERMSIG(status));
}

int pool_run(const struct run *run, size_t count, unsigned width, pool_job *job, void *context,
	enum job_status *statuses, struct error *error)
{
	struct share share = { count, width < POOL_LARGEST ? width : POOL_LARGEST, job, context,
		statuses };
	_cleanup_fclose_ FILE *reports = NULL;
	char line[LINE_SIZE + 1];
	pid_t pids[POOL_LARGEST];
	struct run child = *run;
	int ends[2] = { -1, -1 };
	struct pool pool = { -1 };

	if (count < share.width)
		share.width = (unsigned) count;
	if (!run->pool) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return error_set_errno(error, -errno, "no pipe to bring devices back");
		reports = fdopen(ends[0], "re");
		if (!reports) {
			cleanup_close(&ends[0]);
			cleanup_close(&ends[1]);
			return error_set_errno(error, -ENOMEM, "no pipe to bring devices back");
		}
		pool.fd = ends[1];
		child.pool = &pool;
	}
	for (unsigned i = 0; i < share.width; i++)
		pids[i] = run->pool && share.width == 1 ? -1 : start(&child, &share, i);
	cleanup_close(&ends[1]);
	/* No process to be had: what it would do is done here. */
	for (unsigned i = 0; i < share.width; i++)
		if (pids[i] < 0)
			do_share(run, &share, i);
	while (reports && fgets(line, sizeof(line), reports)) {
		line[strcspn(line, "\n")] = '\0';
		read_line(run, line, count, statuses);
	}
	for (unsigned i = 0; i < share.width; i++)
		if (pids[i] > 0)
			await(run, pids[i]);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/device_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/fs.h"
#include "entrypoint/netstate/state_internal.h"

/* A line of this size is written to a pipe in one piece (PIPE_BUF). */
#define LINE_SIZE    2048
#define POOL_LARGEST 64

struct pool {
	int fd; /* the pipe's writing end */
};

/* ---- what jobs report: a letter, a text and a newline */

static void report(struct pool *pool, char letter, const char *text)
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

static void report_formatted(struct pool *pool, char letter, const char *format, va_list arguments)
{
	char text[LINE_SIZE];

	(void) vsnprintf(text, sizeof(text), format, arguments);
	report(pool, letter, text);
}

void pool_note(struct pool *pool, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report_formatted(pool, 'N', format, arguments);
	va_end(arguments);
}

void pool_failure(struct pool *pool, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	report_formatted(pool, 'F', format, arguments);
	va_end(arguments);
}

void pool_count(struct pool *pool, unsigned devices, unsigned vfs)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "%u %u", devices, vfs);
	report(pool, 'C', text);
}

void pool_end(struct pool *pool, size_t index, enum job_status status)
{
	char text[48];

	(void) snprintf(text, sizeof(text), "%zu %d", index, (int) status);
	report(pool, 'E', text);
}

/* ---- the processes */

/* Process @number of @width does every @width-th job. */
static void do_share(size_t number, unsigned width, size_t count, pool_job *job, void *context,
	struct pool *pool)
{
	for (size_t i = number; i < count; i += width)
		job(context, i, pool);
}

static pid_t start(size_t number, unsigned width, size_t count, pool_job *job, void *context,
	struct pool *pool)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* What kills the worker is to end all of it. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		do_share(number, width, count, job, context, pool);
	_exit(0);
}

void pool_share(struct pool *pool, size_t count, unsigned width, pool_job *job, void *context)
{
	pid_t pids[POOL_LARGEST];
	unsigned started = 0;

	if (width > POOL_LARGEST)
		width = POOL_LARGEST;
	if (count < width)
		width = (unsigned) count;
	if (width <= 1) {
		do_share(0, 1, count, job, context, pool);
		return;
	}
	for (unsigned i = 0; i < width; i++) {
		pid_t pid = start(i, width, count, job, context, pool);

		/* No process to be had: what it would do is done here. */
		if (pid < 0)
			do_share(i, width, count, job, context, pool);
		else
			pids[started++] = pid;
	}
	for (unsigned i = 0; i < started; i++) {
		int status = 0;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		if (WIFSIGNALED(status))
			pool_failure(pool,
				"a process that brings devices back was ended by signal %d: some "
				"of them may not be back; the next start tries those again",
				WTERMSIG(status));
	}
}

/* ---- the process that started them */

struct reader {
	const struct netstate *netstate;
	struct netstate_result *result;
	enum job_status *statuses; /* [count] */
	size_t count;
};

static void read_line(const struct reader *reader, const char *line)
{
	struct netstate_result *result = reader->result;
	unsigned devices, vfs;
	size_t index;
	int status;

	switch (*line) {
	case 'E':
		if (reader->statuses && sscanf(line + 1, "%zu %d", &index, &status) == 2 &&
			index < reader->count)
			reader->statuses[index] = (enum job_status) status;
		break;
	case 'C':
		if (sscanf(line + 1, "%u %u", &devices, &vfs) == 2) {
			result->devices += devices;
			result->vfs += vfs;
		}
		break;
	case 'F':
		netstate_failure(reader->netstate, result, "%s", line + 1);
		break;
	case 'N':
		netstate_note(reader->netstate, "%s", line + 1);
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
};

static void do_all(void *context, size_t index, struct pool *pool)
{
	const struct share *share = context;

	(void) index;
	pool_share(pool, share->count, share->width, share->job, share->context);
}

int pool_run(const struct netstate *netstate, struct netstate_result *result, size_t count,
	unsigned width, pool_job *job, void *context, enum job_status *statuses,
	struct error *error)
{
	struct share share = { count, width, job, context };
	const struct reader reader = { netstate, result, statuses, count };
	char line[LINE_SIZE + 1];
	struct pool pool;
	_cleanup_fclose_ FILE *pipe = NULL;
	int status = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "no pipe to bring devices back");
	pool.fd = ends[1];
	/* One process waits for the others, so that this one can read. */
	pid = start(0, 1, 1, do_all, &share, &pool);
	cleanup_close(&ends[1]);
	pipe = fdopen(ends[0], "re");
	if (pid < 0 || !pipe) {
		if (!pipe)
			cleanup_close(&ends[0]);
		return error_set_errno(error, -errno, "no process to bring devices back");
	}
	while (fgets(line, sizeof(line), pipe)) {
		line[strcspn(line, "\n")] = '\0';
		read_line(&reader, line);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return error_set(error, -ECHILD,
			"the process that brings devices back was ended by signal %d",
			WTERMSIG(status));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/crew.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/fs.h"
#include "entrypoint/netstate/tell.h"

/* A line of this size is written to a pipe in one piece (PIPE_BUF). */
#define LINE_SIZE    2048
#define CREW_LARGEST 64

struct crew {
	int fd; /* the pipe's writing end */
};

/* ---- what jobs say: a letter, a text and a newline */

static void say(struct crew *crew, char letter, const char *text)
{
	char line[LINE_SIZE];
	int length = snprintf(line, sizeof(line) - 1, "%c%s", letter, text);

	if (length > (int) sizeof(line) - 2)
		length = (int) sizeof(line) - 2;
	for (int i = 0; i < length; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[length] = '\n';
	/* Nobody listens any more: then there is nobody to be told. */
	if (fs_write_all(crew->fd, line, (size_t) length + 1) < 0)
		return;
}

void crew_tell(struct crew *crew, const char *format, ...)
{
	char text[LINE_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say(crew, 'N', text);
}

void crew_fail(struct crew *crew, const char *format, ...)
{
	char text[LINE_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say(crew, 'F', text);
}

void crew_count(struct crew *crew, unsigned devices, unsigned vfs)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "%u %u", devices, vfs);
	say(crew, 'C', text);
}

void crew_end(struct crew *crew, size_t index, enum crew_fate fate)
{
	char text[48];

	(void) snprintf(text, sizeof(text), "%zu %d", index, (int) fate);
	say(crew, 'E', text);
}

/* ---- the processes */

/* Process @number of @width does every @width-th job. */
static void do_share(size_t number, unsigned width, size_t count, crew_job *job, void *context,
	struct crew *crew)
{
	for (size_t i = number; i < count; i += width)
		job(context, i, crew);
}

static pid_t start(size_t number, unsigned width, size_t count, crew_job *job, void *context,
	struct crew *crew)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* Whoever kills the worker wants all of it to end. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		do_share(number, width, count, job, context, crew);
	_exit(0);
}

static unsigned start_all(
	pid_t *pids, unsigned width, size_t count, crew_job *job, void *context, struct crew *crew)
{
	unsigned started = 0;

	for (unsigned i = 0; i < width; i++) {
		pid_t pid = start(i, width, count, job, context, crew);

		/* No process to be had: what it would do is done here. */
		if (pid < 0)
			do_share(i, width, count, job, context, crew);
		else
			pids[started++] = pid;
	}
	return started;
}

static void await_all(const pid_t *pids, unsigned count, struct crew *crew)
{
	for (unsigned i = 0; i < count; i++) {
		int status = 0;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		if (WIFSIGNALED(status))
			crew_fail(crew,
				"a process that brings devices back was ended by signal %d: some "
				"of them may not be back; the next start tries those again",
				WTERMSIG(status));
	}
}

static unsigned fitting_width(size_t count, unsigned width)
{
	if (width > CREW_LARGEST)
		width = CREW_LARGEST;
	return count < width ? (unsigned) count : width;
}

void crew_share(struct crew *crew, size_t count, unsigned width, crew_job *job, void *context)
{
	pid_t pids[CREW_LARGEST];
	unsigned started;

	width = fitting_width(count, width);
	if (width <= 1) {
		do_share(0, 1, count, job, context, crew);
		return;
	}
	started = start_all(pids, width, count, job, context, crew);
	await_all(pids, started, crew);
}

/* ---- the process that started it all */

/* What is heard, and of how many jobs. */
struct ear {
	const struct network *network;
	struct network_result *result;
	enum crew_fate *fates;
	size_t count;
};

static void hear_fate(const struct ear *ear, const char *text)
{
	size_t index;
	int fate;

	if (ear->fates && sscanf(text, "%zu %d", &index, &fate) == 2 && index < ear->count)
		ear->fates[index] = (enum crew_fate) fate;
}

static void hear(const struct ear *ear, char *line)
{
	const struct network *network = ear->network;
	struct network_result *result = ear->result;
	unsigned devices;
	unsigned vfs;

	if (*line == 'E') {
		hear_fate(ear, line + 1);
		return;
	}
	if (*line == 'C') {
		if (sscanf(line + 1, "%u %u", &devices, &vfs) == 2) {
			result->devices += devices;
			result->vfs += vfs;
		}
		return;
	}
	if (*line == 'F')
		network_failure(network, result, "%s", line + 1);
	else
		network_note(network, "%s", line + 1);
}

static void hear_all(const struct ear *ear, FILE *pipe)
{
	char line[LINE_SIZE + 1];

	while (fgets(line, sizeof(line), pipe)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			hear(ear, line);
	}
}

struct share {
	size_t count;
	unsigned width;
	crew_job *job;
	void *context;
};

static void do_all(void *context, size_t index, struct crew *crew)
{
	const struct share *share = context;

	(void) index;
	crew_share(crew, share->count, share->width, share->job, share->context);
}

int crew_run(const struct network *network, struct network_result *result, size_t count,
	unsigned width, crew_job *job, void *context, enum crew_fate *fates, struct error *error)
{
	struct share share = { count, width, job, context };
	const struct ear ear = { network, result, fates, count };
	struct crew crew;
	_cleanup_fclose_ FILE *pipe = NULL;
	int status = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "no pipe to bring devices back");
	crew.fd = ends[1];
	/* One process waits for the others, so that this one can listen. */
	pid = start(0, 1, 1, do_all, &share, &crew);
	cleanup_close(&ends[1]);
	pipe = fdopen(ends[0], "re");
	if (pid < 0 || !pipe) {
		if (!pipe)
			cleanup_close(&ends[0]);
		return error_set_errno(error, -errno, "no process to bring devices back");
	}
	hear_all(&ear, pipe);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return error_set(error, -ECHILD,
			"the process that brings devices back was ended by signal %d",
			WTERMSIG(status));
	return 0;
}

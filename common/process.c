/* SPDX-License-Identifier: Apache-2.0 */
#include "common/process.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/xalloc.h"

#define LINE_SIZE 16384
#define QUIET_MS  1000

/* Our environment with @extra on top; the strings stay where they are, the array is the caller's.
 */
static char **merged_environment(const struct strv *extra)
{
	size_t ours = 0, count = 0;
	char **merged;

	while (environ[ours])
		ours++;
	merged = xcalloc(ours + (extra ? extra->count : 0) + 1, sizeof(*merged));
	for (size_t i = 0; i < ours; i++) {
		bool replaced = false;

		for (size_t j = 0; extra && j < extra->count && !replaced; j++)
			replaced = strncmp(environ[i], extra->items[j],
					   strcspn(extra->items[j], "=") + 1) == 0;
		if (!replaced)
			merged[count++] = environ[i];
	}
	for (size_t i = 0; extra && i < extra->count; i++)
		merged[count++] = extra->items[i];
	return merged;
}

/* @out_fd gets stdout, and stderr where lines are wanted; -1: both go to the log. */
static int spawn(const struct process *process, int out_fd, pid_t *ret_pid)
{
	_cleanup_free_ char **environment = merged_environment(process->extra_env);
	int log_fd = process->log_fd >= 0 ? process->log_fd : STDERR_FILENO;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults, none;
	int r;

	(void) sigemptyset(&none);
	/* A shell starts background jobs with SIGINT and SIGQUIT ignored, which children would
	 * inherit. */
	(void) sigemptyset(&defaults);
	(void) sigaddset(&defaults, SIGINT);
	(void) sigaddset(&defaults, SIGQUIT);
	(void) sigaddset(&defaults, SIGPIPE);
	(void) posix_spawnattr_init(&attributes);
	(void) posix_spawnattr_setsigmask(&attributes, &none);
	(void) posix_spawnattr_setsigdefault(&attributes, &defaults);
	(void) posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	(void) posix_spawn_file_actions_init(&actions);
	if (process->stdin_fd >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, process->stdin_fd, STDIN_FILENO);
	else
		r = posix_spawn_file_actions_addopen(
			&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(
			&actions, out_fd >= 0 ? out_fd : log_fd, STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(
			&actions, out_fd >= 0 && process->on_line ? out_fd : log_fd, STDERR_FILENO);
	if (!r && process->folder)
		r = posix_spawn_file_actions_addchdir_np(&actions, process->folder);
	if (!r)
		r = posix_spawnp(ret_pid, process->argv->items[0], &actions, &attributes,
			process->argv->items, environment);
	(void) posix_spawn_file_actions_destroy(&actions);
	(void) posix_spawnattr_destroy(&attributes);
	return -r;
}

/* As spawn(). The child alone is in the new name space: our later children stay in ours. */
static int start_work(const struct process *process, int out_fd, pid_t *ret_pid)
{
	int log_fd = process->log_fd >= 0 ? process->log_fd : STDERR_FILENO;
	int in_fd = process->stdin_fd;
	int status;

	(void) fflush(NULL);
	*ret_pid = (pid_t) syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (*ret_pid)
		return *ret_pid < 0 ? -errno : 0;
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (in_fd < 0)
		in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(in_fd, STDIN_FILENO) < 0 ||
		dup2(out_fd >= 0 ? out_fd : log_fd, STDOUT_FILENO) < 0 ||
		dup2(out_fd >= 0 && process->on_line ? out_fd : log_fd, STDERR_FILENO) < 0)
		_exit(125);
	status = process->work(process->context);
	(void) fflush(NULL);
	_exit(status);
}

/* Lines in the making. */
struct lines {
	const struct process *process;
	char text[LINE_SIZE];
	size_t length;
};

static void end_line(struct lines *lines)
{
	lines->text[lines->length] = '\0';
	lines->length = 0;
	lines->process->on_line(lines->process->context, lines->text);
}

static void add_to_lines(struct lines *lines, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] == '\n' || lines->length == LINE_SIZE - 1)
			end_line(lines);
		if (data[i] != '\n')
			lines->text[lines->length++] = data[i];
	}
}

/* To @gather, or to on_line and the log. Returns how many bytes; 0 at the end, -EAGAIN: none yet.
 */
static ssize_t take(int fd, FILE *gather, struct lines *lines)
{
	const struct process *process = lines->process;
	char data[LINE_SIZE];
	ssize_t size = read(fd, data, sizeof(data));

	if (size <= 0)
		return size < 0 ? -errno : 0;
	if (gather)
		(void) fwrite(data, 1, (size_t) size, gather);
	if (!process->on_line)
		return size;
	if (process->log_fd >= 0 && write(process->log_fd, data, (size_t) size) < 0)
		return -errno;
	add_to_lines(lines, data, (size_t) size);
	return size;
}

/* All that is in the FIFO (-1: none) now. */
static int take_fifo(int fd, FILE *gather, struct lines *lines)
{
	ssize_t size;

	do
		size = fd < 0 ? 0 : take(fd, gather, lines);
	while (size > 0);
	return size == -EAGAIN ? 0 : (int) size;
}

/*
 * All that the pipe brings until its end, and the FIFO until then. The FIFO first: what was written
 * there before the pipe's next line stands before it.
 */
static int drain(const struct process *process, int fd, int fifo_fd, FILE *gather)
{
	uint64_t until_ms = clock_monotonic_ms() + process->timeout_ms;
	struct lines lines = { .process = process };
	struct lines fifo_lines = { .process = process };

	for (;;) {
		struct pollfd outputs[] = { { .fd = fd, .events = POLLIN },
			{ .fd = fifo_fd, .events = POLLIN } };
		int wait_ms = process->on_quiet ? QUIET_MS : -1;
		int left_ms = (int) (int64_t) (until_ms - clock_monotonic_ms());
		ssize_t size;
		int r;

		if (process->timeout_ms && left_ms <= 0)
			return -ETIMEDOUT;
		if (process->timeout_ms && (wait_ms < 0 || left_ms < wait_ms))
			wait_ms = left_ms;
		r = poll(outputs, ARRAY_SIZE(outputs), wait_ms);
		if (r == 0 && process->on_quiet)
			process->on_quiet(process->context);
		if (r <= 0)
			continue;
		r = take_fifo(fifo_fd, gather, &fifo_lines);
		if (r < 0)
			return r;
		if (!outputs[0].revents)
			continue;
		size = take(fd, gather, &lines);
		if (size < 0)
			return (int) size;
		if (size == 0)
			break;
	}
	if (fifo_lines.length)
		end_line(&fifo_lines);
	if (lines.length)
		end_line(&lines);
	return 0;
}

bool process_can_start(const char *name)
{
	const char *folders = getenv("PATH");

	while (folders && *folders) {
		size_t length = strcspn(folders, ":");
		char path[PATH_MAX];
		int size = snprintf(path, sizeof(path), "%.*s/%s", (int) length, folders, name);

		if (size > 0 && (size_t) size < sizeof(path) && access(path, X_OK) == 0)
			return true;
		folders += length;
		folders += *folders == ':';
	}
	return false;
}

int process_no_program(const char *name, struct error *error)
{
	int r = error_set(error, -ENOPKG, "%s: no such program in PATH", name);

	return error_try(
		error, r, "scripts/install-packages build, which installs what slipway runs");
}

/* Runs the process, with a pipe when its output is wanted. */
static int run(const struct process *process, FILE *gather, struct error *error)
{
	const char *name = process->work ? "process" : process->argv->items[0];
	_cleanup_close_ int fifo_fd = -1;
	int ends[2] = { -1, -1 };
	int drained = 0;
	int status;
	pid_t pid = -1;
	int r;

	if ((gather || process->on_line) && pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "%s: pipe", name);
	if (process->fifo) {
		/* For writing, too: it never ends, however often its writers come and go. */
		fifo_fd = open(process->fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fifo_fd < 0) {
			r = error_set_errno(error, -errno, "%s", process->fifo);
			cleanup_close(&ends[0]);
			cleanup_close(&ends[1]);
			return r;
		}
	}
	r = process->work ? start_work(process, ends[1], &pid) : spawn(process, ends[1], &pid);
	cleanup_close(&ends[1]);
	if (r == 0 && ends[0] >= 0)
		drained = drain(process, ends[0], fifo_fd, gather);
	/* A program that still writes ends by that, instead of waiting for a reader. */
	cleanup_close(&ends[0]);
	cleanup_close(&fifo_fd);
	if (r < 0 && process->work)
		return error_set_errno(
			error, r, "a process name space of its own (is the container privileged?)");
	if (r == -ENOENT)
		return process_no_program(name, error);
	if (r < 0)
		return error_set_errno(error, r, "%s: could not run", name);
	if (drained == -ETIMEDOUT)
		(void) kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, "%s: waitpid", name);
	if (drained < 0)
		return error_set_errno(error, drained, "%s: its output", name);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int process_run(const struct process *process, char **ret_output, struct error *error)
{
	_cleanup_free_ char *output = NULL;
	size_t size = 0;
	FILE *gather = ret_output ? open_memstream(&output, &size) : NULL;
	int r;

	if (ret_output && !gather)
		out_of_memory();
	r = run(process, gather, error);
	if (gather && fclose(gather) != 0)
		out_of_memory();
	if (r >= 0 && ret_output)
		*ret_output = TAKE_PTR(output);
	return r;
}

bool process_was_interrupted(int status)
{
	return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "common/xalloc.h"

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

/* Hands each line that the pipe brings to @on_line and to the log, or gathers it all in @gather. */
static int drain(const struct process *process, FILE *pipe_file, FILE *gather)
{
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	ssize_t length;

	while ((length = getline(&line, &capacity, pipe_file)) > 0) {
		if (gather)
			(void) fwrite(line, 1, (size_t) length, gather);
		if (!process->on_line)
			continue;
		if (process->log_fd >= 0 && write(process->log_fd, line, (size_t) length) < 0)
			return -errno;
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		process->on_line(process->context, line);
	}
	return 0;
}

/* With a pipe when its output is wanted. */
static int run(const struct process *process, FILE *gather)
{
	_cleanup_fclose_ FILE *pipe_file = NULL;
	int ends[2] = { -1, -1 };
	int drained = 0;
	int status;
	pid_t pid;
	int r;

	if ((gather || process->on_line) && pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = spawn(process, ends[1], &pid);
	cleanup_close(&ends[1]);
	if (ends[0] >= 0) {
		pipe_file = fdopen(ends[0], "r");
		if (!pipe_file)
			out_of_memory();
	}
	if (r < 0)
		return r;
	if (pipe_file)
		drained = drain(process, pipe_file, gather);
	/* A program that still writes ends by that, instead of waiting for a reader. */
	if (drained < 0)
		(void) fclose(TAKE_PTR(pipe_file));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (drained < 0)
		return drained;
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
	r = run(process, gather);
	if (gather && fclose(gather) != 0)
		out_of_memory();
	if (r == -ENOENT)
		return error_set(error, r,
			"%s: no such program in PATH: scripts/install-packages installs what "
			"slipway runs",
			process->argv->items[0]);
	if (r < 0)
		return error_set_errno(error, r, "%s: could not run", process->argv->items[0]);
	if (ret_output)
		*ret_output = TAKE_PTR(output);
	return r;
}

bool process_was_interrupted(int status)
{
	return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
}

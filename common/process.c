/* SPDX-License-Identifier: Apache-2.0 */
#include "common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

static void file_actions_done(posix_spawn_file_actions_t *actions)
{
	(void) posix_spawn_file_actions_destroy(actions);
}

static void attributes_done(posix_spawnattr_t *attributes)
{
	(void) posix_spawnattr_destroy(attributes);
}

/* Our environment with @extra on top; the strings stay where they are, the array is the caller's.
 */
static char **merged_environment(const struct strv *extra)
{
	size_t ours = 0, count = 0;
	char **merged;

	while (environ[ours])
		ours++;
	merged = calloc(ours + extra->count + 1, sizeof(*merged));
	if (!merged)
		return NULL;
	for (size_t i = 0; i < ours; i++) {
		bool replaced = false;

		for (size_t j = 0; j < extra->count && !replaced; j++) {
			size_t name = strcspn(extra->items[j], "=") + 1;

			replaced = strncmp(environ[i], extra->items[j], name) == 0;
		}
		if (!replaced)
			merged[count++] = environ[i];
	}
	for (size_t i = 0; i < extra->count; i++)
		merged[count++] = extra->items[i];
	return merged;
}

/* Wires stdin, stdout and stderr of the child. @out_fd is -1 where both go to the log. */
static int wire(posix_spawn_file_actions_t *actions, const struct process *process, int out_fd)
{
	int log_fd = process->log_fd >= 0 ? process->log_fd : STDERR_FILENO;
	int r;

	if (process->stdin_fd >= 0)
		r = posix_spawn_file_actions_adddup2(actions, process->stdin_fd, STDIN_FILENO);
	else
		r = posix_spawn_file_actions_addopen(
			actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(
			actions, out_fd >= 0 ? out_fd : log_fd, STDOUT_FILENO);
	if (!r)
		r = posix_spawn_file_actions_adddup2(
			actions, out_fd >= 0 && process->on_line ? out_fd : log_fd, STDERR_FILENO);
	if (!r && process->folder)
		r = posix_spawn_file_actions_addchdir_np(actions, process->folder);
	return -r;
}

static int spawn(const struct process *process, int out_fd, pid_t *ret_pid)
{
	_cleanup_(file_actions_done) posix_spawn_file_actions_t actions;
	_cleanup_(attributes_done) posix_spawnattr_t attributes;
	static const struct strv nothing = { 0 };
	const struct strv *extra = process->extra_env ? process->extra_env : &nothing;
	_cleanup_free_ char **environment = merged_environment(extra);
	sigset_t defaults;
	sigset_t none;
	int r;

	if (!environment)
		return -ENOMEM;
	(void) sigemptyset(&none);
	(void) posix_spawn_file_actions_init(&actions);
	(void) posix_spawnattr_init(&attributes);
	(void) posix_spawnattr_setsigmask(&attributes, &none);
	/* A shell starts background jobs with SIGINT and SIGQUIT ignored, which children would
	 * inherit. */
	(void) sigemptyset(&defaults);
	(void) sigaddset(&defaults, SIGINT);
	(void) sigaddset(&defaults, SIGQUIT);
	(void) sigaddset(&defaults, SIGPIPE);
	(void) posix_spawnattr_setsigdefault(&attributes, &defaults);
	(void) posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = wire(&actions, process, out_fd);
	if (r < 0)
		return r;
	return -posix_spawnp(ret_pid, process->argv->items[0], &actions, &attributes,
		process->argv->items, environment);
}

/* Hands each line that the pipe brings to @on_line and to the log, or gathers it all in @gather. */
static int drain(const struct process *process, int pipe_fd, FILE *gather)
{
	_cleanup_fclose_ FILE *pipe_file = fdopen(pipe_fd, "r");
	_cleanup_free_ char *line = NULL;
	size_t capacity = 0;
	ssize_t length;

	if (!pipe_file) {
		int r = -errno;

		(void) close(pipe_fd);
		return r;
	}
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

static int wait_for_exit(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_with_pipe(const struct process *process, FILE *gather)
{
	int ends[2];
	pid_t pid;
	int drained;
	int r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	r = spawn(process, ends[1], &pid);
	(void) close(ends[1]);
	if (r < 0) {
		(void) close(ends[0]);
		return r;
	}
	drained = drain(process, ends[0], gather);
	r = wait_for_exit(pid);
	return drained < 0 ? drained : r;
}

int process_run(const struct process *process, char **ret_output, struct error *error)
{
	_cleanup_free_ char *output = NULL;
	size_t size = 0;
	pid_t pid;
	int r;

	if (ret_output) {
		FILE *gather = open_memstream(&output, &size);

		if (!gather)
			return error_set_errno(error, -errno, "%s", process->argv->items[0]);
		r = run_with_pipe(process, gather);
		if (fclose(gather) != 0 && r >= 0)
			r = -ENOMEM;
	} else if (process->on_line) {
		r = run_with_pipe(process, NULL);
	} else {
		r = spawn(process, -1, &pid);
		if (r == 0)
			r = wait_for_exit(pid);
	}
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

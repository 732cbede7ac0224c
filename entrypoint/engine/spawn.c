/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static _Noreturn void run_child(const struct spawn *spawn, pid_t parent, int error_fd)
{
	char *variable;
	sigset_t none;
	int null_fd;
	int r;

	/* A worker that outlived the init would race with that of the next start. Module system
	 * calls finish before the signal takes effect, so no module is torn. */
	if (spawn->detached)
		(void) setsid();
	else
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!spawn->detached && getppid() != parent) /* it ended before that */
		_exit(1);
	if (spawn->run) {
		spawn->run(spawn->context);
		_exit(0);
	}
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* Never the same number: where stdin was closed, the pipe's end to read from took it. */
	(void) dup2(null_fd, STDIN_FILENO);
	if (spawn->output_fd >= 0) {
		(void) dup2(spawn->output_fd, STDOUT_FILENO);
		(void) dup2(spawn->output_fd, STDERR_FILENO);
	}
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	variable = spawn->variable ? strdup(spawn->variable) : NULL;
	if (!spawn->variable || (variable && putenv(variable) == 0))
		(void) execv(spawn->program, spawn->argv);
	r = errno;
	(void) !write(error_fd, &r, sizeof(r));
	_exit(127);
}

int spawn_start(const struct spawn *spawn, pid_t *ret_pid)
{
	const pid_t parent = getpid();
	int ends[2] = { -1, -1 };
	int exec_errno = 0;
	ssize_t size = 0;
	pid_t pid;
	int r = 0;

	if (!spawn->run && pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		run_child(spawn, parent, ends[1]);
	if (pid < 0)
		r = -errno;
	cleanup_close(&ends[1]);
	/* The pipe closes with a successful exec: this takes no longer than that. */
	if (r == 0 && !spawn->run)
		do
			size = read(ends[0], &exec_errno, sizeof(exec_errno));
		while (size < 0 && errno == EINTR);
	if (size == (ssize_t) sizeof(exec_errno)) {
		(void) spawn_wait(pid);
		r = -exec_errno;
	}
	cleanup_close(&ends[0]);
	if (r == 0)
		*ret_pid = pid;
	return r;
}

int spawn_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build/supervise.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"

#define GRACE_S 10 /* what the group gets to end by itself before SIGKILL */

static void run_child(int (*work)(void *context), void *context, const sigset_t *old_mask)
{
	int status;

	(void) setpgid(0, 0);
	/* A shell starts background jobs with these ignored; here they end the work at once. */
	(void) signal(SIGINT, SIG_DFL);
	(void) signal(SIGTERM, SIG_DFL);
	(void) signal(SIGHUP, SIG_DFL);
	/* Should the supervisor be killed, nobody would clear up: end with it. */
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	(void) sigprocmask(SIG_SETMASK, old_mask, NULL);
	status = work(context);
	(void) fflush(NULL);
	_exit(status);
}

static bool has_ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

/* Ends the whole group and waits for the child, which leads it. */
static void end_group(pid_t pid, int signal_number, const sigset_t *signals)
{
	const struct timespec grace = { .tv_sec = GRACE_S };
	int status;

	(void) kill(-pid, signal_number);
	while (!has_ended(pid, &status)) {
		int got = sigtimedwait(signals, NULL, &grace);

		if (got < 0 && errno == EAGAIN)
			break;
	}
	(void) kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

static int wait_for_child(pid_t pid, const sigset_t *signals)
{
	for (;;) {
		int status;
		int signal_number;

		if (has_ended(pid, &status)) {
			if (!WIFSIGNALED(status))
				return WEXITSTATUS(status);
			/* It could not end what it had started. */
			(void) kill(-pid, SIGKILL);
			return 128 + WTERMSIG(status);
		}
		signal_number = sigwaitinfo(signals, NULL);
		if (signal_number > 0 && signal_number != SIGCHLD) {
			end_group(pid, signal_number, signals);
			return 128 + signal_number;
		}
	}
}

int supervise(int (*work)(void *context), void *context)
{
	sigset_t signals, old_mask;
	pid_t pid;

	(void) sigemptyset(&signals);
	(void) sigaddset(&signals, SIGINT);
	(void) sigaddset(&signals, SIGTERM);
	(void) sigaddset(&signals, SIGHUP);
	(void) sigaddset(&signals, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &signals, &old_mask) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_child(work, context, &old_mask);
	(void) setpgid(pid, pid);
	return wait_for_child(pid, &signals);
}

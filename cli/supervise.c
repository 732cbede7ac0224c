/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/supervise.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/exit_code.h"
#include "cli/image/buildah.h"
#include "cli/image/output_place.h"
#include "cli/json.h"
#include "cli/message.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"

#define GRACE_MS 10000 /* what the group gets to end by itself before SIGKILL */

static void run_child(int (*work)(void *context), void *context, const sigset_t *old_mask)
{
	sigset_t mask = *old_mask;
	int status;

	(void) setpgid(0, 0);
	/* A shell starts background jobs with these ignored; here they end the work at once. */
	(void) signal(SIGINT, SIG_DFL);
	(void) signal(SIGTERM, SIG_DFL);
	(void) signal(SIGHUP, SIG_DFL);
	/* Should the supervisor be killed, nothing would clear up: end with it. */
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* An earlier run of this process has left them blocked. */
	(void) sigdelset(&mask, SIGINT);
	(void) sigdelset(&mask, SIGTERM);
	(void) sigdelset(&mask, SIGHUP);
	(void) sigdelset(&mask, SIGCHLD);
	(void) sigprocmask(SIG_SETMASK, &mask, NULL);
	message_start();
	status = message_end(work(context));
	(void) fflush(NULL);
	_exit(status);
}

/* Reaps what has ended, of other parents too: as their subreaper, we get all orphans. */
static bool has_ended(pid_t pid, int *status)
{
	pid_t ended;
	int ended_status;

	while ((ended = waitpid(-1, &ended_status, WNOHANG)) > 0) {
		if (ended != pid)
			continue;
		*status = ended_status;
		return true;
	}
	return false;
}

/*
 * Waits until @which, as waitpid() has it, is no child of ours any more: it ended, or the whole
 * group did. Not longer than GRACE_MS, nor when another signal comes.
 */
static void await_end(pid_t which, const sigset_t *signals)
{
	uint64_t until_ms = clock_monotonic_ms() + GRACE_MS, now_ms;
	pid_t ended;

	while ((ended = waitpid(which, NULL, WNOHANG)) >= 0 &&
		(now_ms = clock_monotonic_ms()) < until_ms) {
		const struct timespec left = {
			.tv_sec = (time_t) ((until_ms - now_ms) / 1000),
			.tv_nsec = (long) ((until_ms - now_ms) % 1000) * 1000000,
		};
		int signal_number = ended == 0 ? sigtimedwait(signals, NULL, &left) : SIGCHLD;

		if (signal_number > 0 && signal_number != SIGCHLD)
			return;
	}
}

/* Ends what is left of the group: the folder of the run is removed next. */
static void kill_group(pid_t group, const sigset_t *signals)
{
	(void) kill(-group, SIGKILL);
	await_end(-group, signals);
}

static int wait_for_child(pid_t pid, const sigset_t *signals)
{
	int status;

	while (!has_ended(pid, &status)) {
		int signal_number = sigwaitinfo(signals, NULL);

		if (signal_number <= 0 || signal_number == SIGCHLD)
			continue;
		(void) kill(-pid, signal_number);
		await_end(pid, signals);
		kill_group(pid, signals);
		return 128 + signal_number;
	}
	/* Programs that a failed one had started may end by themselves: it told them to. */
	if (status != 0) {
		await_end(-pid, signals);
		kill_group(pid, signals);
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A question may have had the terminal when the work was ended: cli/accept_key.c takes it. */
static void take_terminal_back(pid_t group)
{
	int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	sigset_t stop;

	if (terminal < 0)
		return;
	(void) sigemptyset(&stop);
	(void) sigaddset(&stop, SIGTTOU);
	(void) sigprocmask(SIG_BLOCK, &stop, NULL);
	if (tcgetpgrp(terminal) == group)
		(void) tcsetpgrp(terminal, getpgrp());
	(void) close(terminal);
}

int supervise(int (*work)(void *context), void *context)
{
	sigset_t signals, old_mask;
	int status;
	pid_t pid;

	(void) sigemptyset(&signals);
	(void) sigaddset(&signals, SIGINT);
	(void) sigaddset(&signals, SIGTERM);
	(void) sigaddset(&signals, SIGHUP);
	(void) sigaddset(&signals, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &signals, &old_mask) < 0)
		return -errno;
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	output_share();
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_child(work, context, &old_mask);
	(void) setpgid(pid, pid);
	status = wait_for_child(pid, &signals);
	take_terminal_back(pid);
	if (status != 0)
		output_remove_unfinished();
	return status;
}

int supervise_report(int result, const char *verb, bool json, const char *state)
{
	bool interrupted = process_was_interrupted(result);
	int code = interrupted ? result : EXIT_CODE_INTERNAL;
	int signal_number = result - 128;
	char reason[64] = "interrupted";

	if (result <= 128)
		return result < 0 ? EXIT_CODE_INTERNAL : result;
	/* Else it would stand behind the line that was being updated. */
	if (!json && isatty(STDERR_FILENO))
		(void) fputc('\n', stderr);
	if (interrupted) {
		text_print(stderr, "slipway %s: interrupted by signal %d; %s\n", verb,
			signal_number, state);
	} else {
		/* A signal ended it that is not meant to interrupt it. */
		(void) snprintf(reason, sizeof(reason), "ended by signal %d", signal_number);
		text_print(stderr, "slipway %s: %s (%s)%s\n", verb, reason,
			strsignal(signal_number),
			signal_number == SIGKILL
				? "; the kernel does that when memory runs out: try a smaller "
				  "--jobs, if the command has it"
				: "");
	}
	if (json)
		json_print_failed("failed", code, reason, NULL);
	return code;
}

struct making {
	struct context *context;
	const char *verb;
	int (*make)(void *data, struct error *error);
	void *data;
};

/* In the supervised child. Returns the exit code. */
static int make(void *data)
{
	const struct making *making = data;
	struct context *context = making->context;
	_cleanup_free_ char *message = NULL;
	_cleanup_free_ char *who = NULL;
	struct error error = { 0 };
	int r, code;

	context_show_progress(context, true);
	r = making->make(making->data, &error);
	if (r == 0)
		return EXIT_CODE_OK;
	code = (int) (context->failure ? context->failure : exit_code_for(r, EXIT_CODE_INTERNAL));
	who = xasprintf("slipway %s", making->verb);
	message = message_text(&error);
	(void) message_flush();
	progress_abandon(&context->progress);
	message_error(stderr, who, &error);
	if (context->options->json)
		json_print_failed("failed", code, exit_code_text(code), message);
	return code;
}

int supervise_in_cache(struct context *context, const struct common_options *options,
	const char *verb, const char *state, int (*work)(void *data), void *data)
{
	struct error error = { 0 };
	int r = context_open(options, context, &error);

	if (r == 0)
		r = cache_start_run(&context->cache, buildah_sweep, &error);
	if (r < 0)
		return json_fail(verb, options->json ? "failed" : NULL,
			(int) exit_code_for(r, EXIT_CODE_INTERNAL), &error);
	r = supervise(work, data);
	if (r != 0)
		buildah_sweep(context->cache.run_path);
	cache_end_run(&context->cache);
	return supervise_report(r, verb, options->json, state);
}

int supervise_run(struct context *context, const struct common_options *options, const char *verb,
	const char *state, int (*make_it)(void *data, struct error *error), void *data)
{
	struct making making = { context, verb, make_it, data };

	return supervise_in_cache(context, options, verb, state, make, &making);
}

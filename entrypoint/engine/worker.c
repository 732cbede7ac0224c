/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/worker.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "entrypoint/engine/kill_point.h"

static void worker_send(const struct worker *worker, const struct worker_message *message)
{
	/* The init reads until the socket closes; when it is gone, PR_SET_PDEATHSIG ends us. */
	while (send(worker->fd, message, sizeof(*message), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

void worker_report(struct worker *worker, enum worker_message_kind kind, uint32_t duration_ms,
	const char *format, ...)
{
	struct worker_message message = { .kind = kind, .duration_ms = duration_ms };
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(message.text.text, sizeof(message.text.text), format, arguments);
	va_end(arguments);
	worker_send(worker, &message);
	if (kind == WORKER_LOADED || kind == WORKER_UNLOADED)
		kill_point_module();
}

void worker_report_holder(struct worker *worker, pid_t pid)
{
	const struct worker_message message = { .kind = WORKER_HOLDER, .pid = pid };

	worker_send(worker, &message);
}

/*
 * A worker is short-lived: memory that it freed serves it again. By default each large piece is
 * mapped anew, and for every page of it the kernel is entered and fills it with zeros.
 */
static void keep_memory(void)
{
	(void) mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void) mallopt(M_TRIM_THRESHOLD, 128 << 20);
}

static _Noreturn void worker_child(pid_t init_pid, int fd, worker_function *function, void *context)
{
	struct worker worker = { .fd = fd };
	struct worker_message result = { .kind = WORKER_RESULT, .reason = REASON_NONE };

	/*
	 * A worker that outlived its init would race with the one of the next start. Module system
	 * calls finish before the signal takes effect, so no module is torn. All other signals stay
	 * blocked: one to the process group is for the init to act on.
	 */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != init_pid)
		_exit(1);
	(void) prctl(PR_SET_NAME, "slipway-worker");
	keep_memory();
	result.code = function(context, &worker, &result.reason, &result.text);
	worker_send(&worker, &result);
	_exit(0);
}

/* Reads all that is there. Returns true once the result came or the child closed its end. */
static bool worker_receive(
	int fd, worker_listener *listener, void *context, struct worker_message *result)
{
	struct worker_message message;
	ssize_t size;

	while ((size = recv(fd, &message, sizeof(message), MSG_DONTWAIT)) ==
		(ssize_t) sizeof(message)) {
		if (message.kind == WORKER_RESULT) {
			*result = message;
			return true;
		}
		listener(context, &message);
	}
	return size >= 0 || (errno != EAGAIN && errno != EINTR);
}

static int worker_outcome(const struct events *events, const struct worker_message *result,
	enum reason *reason, struct error *error)
{
	if (result->kind != WORKER_RESULT) {
		*reason = REASON_INTERNAL;
		if (WIFSIGNALED(events->worker_status))
			return error_set(error, -ECHILD, "the worker died of signal %d (%s)",
				WTERMSIG(events->worker_status),
				strsignal(WTERMSIG(events->worker_status)));
		return error_set(error, -ECHILD, "the worker ended without a result");
	}
	if (result->code < 0) {
		*reason = result->reason;
		*error = result->text;
	}
	return result->code;
}

/* How long a killed worker may take to leave the system call that it is in. */
#define WORKER_KILL_MS 5000

static void worker_kill(struct events *events)
{
	uint64_t give_up_ms = clock_monotonic_ms() + WORKER_KILL_MS;

	events->worker_fd = -1;
	(void) kill(events->worker_pid, SIGKILL);
	while (events->worker_pid && !(events_wait(events, give_up_ms) & EVENT_TIME))
		;
}

static int worker_overdue(struct events *events, enum reason *reason, struct error *error)
{
	pid_t pid = events->worker_pid;

	worker_kill(events);
	*reason = REASON_DEADLINE;
	if (!events->worker_pid)
		return error_set(error, -ETIMEDOUT, "not finished in time: ended");
	return error_set(error, -ETIMEDOUT,
		"not finished in time, and process %d does not end: the kernel holds it (see "
		"/proc/%d/stack on the node)",
		(int) pid, (int) pid);
}

static bool must_stop(const struct events *events, const struct worker_bounds *bounds)
{
	return bounds->stoppable && events->stop_count && events->worker_pid;
}

static int worker_wait(struct events *events, int fd, const struct worker_bounds *bounds,
	worker_listener *listener, void *context, enum reason *reason, struct error *error)
{
	struct worker_message result = { .kind = WORKER_NOTE };
	bool done = false;

	events->worker_fd = fd;
	while (!done || events->worker_pid) {
		unsigned happened = events_wait(events, bounds->deadline_ms);

		if (!done)
			done = worker_receive(fd, listener, context, &result);
		/* All that it sent is read; a child that it left behind may hold the socket open.
		 */
		if (!events->worker_pid)
			done = true;
		if (done)
			events->worker_fd = -1;
		if (happened & EVENT_TIME && events->worker_pid)
			return worker_overdue(events, reason, error);
		if (must_stop(events, bounds)) {
			worker_kill(events);
			return -EINTR;
		}
	}
	return worker_outcome(events, &result, reason, error);
}

int worker_run(struct events *events, const struct worker_bounds *bounds, worker_function *function,
	worker_listener *listener, void *context, enum reason *reason, struct error *error)
{
	_cleanup_close_ int our_end = -1;
	const pid_t init_pid = getpid();
	int ends[2];
	pid_t pid;

	*reason = REASON_INTERNAL;
	if (events->worker_pid) {
		*reason = REASON_DEADLINE;
		return error_set(error, -EDEADLK,
			"not tried: process %d of an earlier step still hangs in the kernel",
			(int) events->worker_pid);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set_errno(error, -errno, "socketpair");
	our_end = ends[0];
	pid = fork();
	if (pid < 0) {
		int r = -errno;

		(void) close(ends[1]);
		return error_set_errno(error, r, "fork");
	}
	if (pid == 0)
		worker_child(init_pid, ends[1], function, context);
	(void) close(ends[1]);
	events->worker_pid = pid;
	return worker_wait(events, our_end, bounds, listener, context, reason, error);
}

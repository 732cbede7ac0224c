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
#include "entrypoint/engine/spawn.h"

/* How long a killed worker may take to leave the system call that it is in. */
#define WORKER_KILL_MS 5000

static void worker_send(const struct worker *worker, const struct worker_message *message)
{
	/* The init reads until the socket closes; when it is gone, we are killed. */
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

struct task {
	worker_function *function;
	struct action *action;
};

/* Signals stay blocked: one to the process group is for the init to act on. */
static void run_task(void *context)
{
	const struct task *task = context;
	struct action *action = task->action;
	struct worker_message result = { .kind = WORKER_RESULT };

	(void) prctl(PR_SET_NAME, "slipway-worker");
	/*
	 * It is short-lived: memory that it freed serves it again. By default each large piece is
	 * mapped anew, and for every page of it the kernel is entered and fills it with zeros.
	 */
	(void) mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void) mallopt(M_TRIM_THRESHOLD, 128 << 20);
	result.code = task->function(action);
	result.reason = action->reason;
	result.text = action->error;
	worker_send(action->worker, &result);
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

static void worker_kill(struct events *events)
{
	uint64_t give_up_ms = clock_monotonic_ms() + WORKER_KILL_MS;

	events->worker_fd = -1;
	(void) kill(events->worker_pid, SIGKILL);
	while (events->worker_pid && !(events_wait(events, give_up_ms) & EVENT_TIME))
		;
}

/* Until it ended, or was killed. */
static int worker_wait(struct events *events, int fd, const struct worker_bounds *bounds,
	struct worker_message *result, struct error *error)
{
	const pid_t pid = events->worker_pid;
	bool done = false;

	events->worker_fd = fd;
	while (!done || events->worker_pid) {
		unsigned happened = events_wait(events, bounds->deadline_ms);

		if (!done)
			done = worker_receive(fd, bounds->listener, bounds->context, result);
		/* All that it sent is read; a child that it left behind may hold the socket open.
		 */
		if (!events->worker_pid)
			done = true;
		if (done)
			events->worker_fd = -1;
		if (happened & EVENT_TIME && events->worker_pid) {
			worker_kill(events);
			if (!events->worker_pid)
				return error_set(error, -ETIMEDOUT, "not finished in time: ended");
			return error_set(error, -ETIMEDOUT,
				"not finished in time, and process %d does not end: the kernel "
				"holds it (see /proc/%d/stack on the node)",
				(int) pid, (int) pid);
		}
		if (bounds->stoppable && events->stop_count && events->worker_pid) {
			worker_kill(events);
			return -EINTR;
		}
	}
	return 0;
}

int worker_run(struct events *events, const struct worker_bounds *bounds, worker_function *function,
	struct action *action)
{
	struct task task = { function, action };
	const struct spawn child = { .run = run_task, .context = &task };
	struct worker_message result = { .kind = WORKER_NOTE };
	_cleanup_close_ int our_end = -1;
	struct worker worker;
	int ends[2];
	int r;

	action->reason = REASON_INTERNAL;
	if (events->worker_pid) {
		action->reason = REASON_DEADLINE;
		return error_set(&action->error, -EDEADLK,
			"not tried: process %d of an earlier step still hangs in the kernel",
			(int) events->worker_pid);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set_errno(&action->error, -errno, "socketpair");
	our_end = ends[0];
	worker.fd = ends[1];
	action->worker = &worker;
	r = spawn_start(&child, &events->worker_pid);
	action->worker = NULL;
	(void) close(ends[1]);
	if (r < 0)
		return error_set_errno(&action->error, r, "fork");
	r = worker_wait(events, our_end, bounds, &result, &action->error);
	if (r == -ETIMEDOUT)
		action->reason = REASON_DEADLINE;
	if (r < 0)
		return r;
	if (result.kind != WORKER_RESULT && WIFSIGNALED(events->worker_status))
		return error_set(&action->error, -ECHILD, "the worker died of signal %d (%s)",
			WTERMSIG(events->worker_status),
			strsignal(WTERMSIG(events->worker_status)));
	if (result.kind != WORKER_RESULT)
		return error_set(&action->error, -ECHILD, "the worker ended without a result");
	if (result.code < 0) {
		action->reason = result.reason;
		action->error = result.text;
	}
	return result.code;
}

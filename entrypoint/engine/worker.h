/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that could block or crash on bad data (loading, unloading, the load proof) run in a
 * child of the init: the init stays small, keeps listening to signals, and outlives whatever
 * happens there. The child can read the role's state, and reports what it did through messages on a
 * socket, so that the init also knows what a child did that died half-way.
 */
#pragma once

#include "common/error.h"
#include "entrypoint/engine/events.h"
#include "entrypoint/engine/reason.h"

enum worker_message_kind {
	WORKER_LOADED,   /* text: a module that the worker inserted */
	WORKER_UNLOADED, /* text: a module that the worker removed */
	WORKER_NOTE,     /* text: something worth a line */
	WORKER_PROOF,    /* text: the load proof's verdict */
	WORKER_HOLDER,   /* pid: a process that keeps a module in use */
	WORKER_RESULT,   /* the last message */
};

struct worker_message {
	enum worker_message_kind kind;
	enum reason reason; /* of a result */
	int code;           /* of a result: 0 or a negative errno */
	pid_t pid;
	uint32_t duration_ms; /* of WORKER_LOADED, WORKER_UNLOADED and WORKER_PROOF */
	struct error text;
};

/* The child's end of the socket. */
struct worker {
	int fd;
};

void worker_report(struct worker *worker, enum worker_message_kind kind, uint32_t duration_ms,
	const char *format, ...) _printf_(4, 5);
void worker_report_holder(struct worker *worker, pid_t pid);

/* The argument of a step's do or undo, which also sets here why it failed. */
struct action {
	void *role;            /* the plan's owner */
	struct worker *worker; /* in a worker only */
	enum reason reason;    /* set by an action that fails */
	struct error error;    /* the failure, or (STEP_WAIT) what is missing */
};

/* Runs in the child. Returns 0, or a negative errno with the action's reason and error set. */
typedef int worker_function(struct action *action);

/* Runs in the init for each message but the result. */
typedef void worker_listener(void *context, const struct worker_message *message);

struct worker_bounds {
	worker_listener *listener;
	void *context;
	/* These end a worker before it is done. */
	uint64_t deadline_ms; /* CLOCK_MONOTONIC, or EVENTS_NEVER */
	bool stoppable;       /* a stop signal does too: what it does may be left half done */
};

/*
 * Runs @function in a child and waits for its end; @action gets its failure. Stop signals are
 * counted in @events but do not interrupt it unless it is stoppable: a module that is half loaded
 * cannot be let go. When CLOCK_MONOTONIC passes the deadline the child is killed: -ETIMEDOUT,
 * REASON_DEADLINE; when it is stopped: -EINTR. One that does not even die then hangs in the kernel;
 * events->worker_pid keeps naming it, and no other worker can be run.
 */
int worker_run(struct events *events, const struct worker_bounds *bounds, worker_function *function,
	struct action *action);

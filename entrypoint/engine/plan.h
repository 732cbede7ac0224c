/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step engine. A plan is a const table of steps; each has a do, an undo and a deadline. On
 * failure or a stop signal the undos of all steps that were begun run in reverse order, the begun
 * one's too: an undo must cope with a do that got half-way or not far at all, and with one that ran
 * in a previous run of the container.
 */
#pragma once

#include "entrypoint/engine/events.h"
#include "entrypoint/engine/log.h"
#include "entrypoint/engine/worker.h"

enum step_kind {
	STEP_DIRECT, /* a few system calls, in the init itself */
	STEP_WORKER, /* in a child: it may take long, or read files that may be bad */
	STEP_WAIT,   /* asked again after every event, until it returns 0 */
};

/* 0: done. 1 (STEP_WAIT only): not yet, with what is missing in @error. Negative errno: failed. */
typedef worker_function action_function;

struct step {
	const char *name; /* stable: in the events, the status and the documentation */
	/*
	 * NULL: always. A step that is not wanted is not performed, but counts as begun: the stop
	 * asks again, and runs the undo when the step is wanted by then.
	 */
	bool (*wanted)(const void *role);
	/* NULL: never; a step that is done already counts as begun: its undo runs. */
	bool (*is_done)(const void *role);
	enum step_kind kind;
	action_function *perform;               /* NULL: it has nothing but an undo */
	uint32_t deadline_ms;                   /* 0: none */
	uint32_t (*deadline)(const void *role); /* one that the user sets; NULL: deadline_ms */
	bool may_fail;  /* then it is logged, and the start goes on; nor does a deadline end it */
	bool stoppable; /* STEP_WORKER: a stop signal kills it, and the undo clears up after it */
	enum step_kind undo_kind;
	/*
	 * NULL, or the first half of an undo that has two. Each is asked for, tried, and bounded by
	 * itself; the second runs also when the first failed, and alone can be whole.
	 */
	action_function *undo_first;
	action_function *undo; /* or NULL */
	uint32_t undo_deadline_ms;
	/* The part of the plan's grace that other undos leave to this one; each half has it. */
	uint32_t undo_share_ms;
	bool undo_is_whole; /* never cut short for the grace's sake: what it leaves half is worse */
};

struct plan {
	const struct step *steps;
	size_t step_count;
	size_t begun; /* how many steps were begun and are not undone */
	void *role;
	struct events *events;
	struct log *log;
	worker_listener *listener; /* gets workers' messages, with the role */
	/* How long an undo that finds something in use (-EBUSY) is tried again. */
	uint32_t busy_ms;
	/*
	 * How long after a stop signal all undos together may take, or 0: who sent it kills the
	 * container then. Each undo ends where the shares of those after it begin. A start that
	 * failed, for which no one waits, has only each undo's own deadline.
	 */
	uint32_t grace_ms;
	/* The first failure; REASON_NONE as long as nothing failed. */
	enum reason reason;
	bool start_failed;
	bool stop_failed; /* an undo did: what comes after it may have to leave things alone */
	struct error error;
};

/*
 * Runs the steps in order. Returns 0 when all are done, -EINTR when a stop signal came in between,
 * or the failed step's negative errno with plan->reason and plan->error set. Undoes nothing.
 */
int plan_start(struct plan *plan);

/*
 * Undoes what was begun, in reverse. A failing undo is logged, remembered as plan->reason (unless
 * one is there already), and does not keep the others from running. Returns 0 or the first failure.
 */
int plan_stop(struct plan *plan);

/*
 * Does one step by itself while the role serves: logged, timed and bounded like a step of the plan,
 * but not part of it: nothing undoes it, and its failure is not the plan's. Returns what
 * plan_start() does for a step; the failure's reason and message are in *ret_action.
 */
int plan_do(struct plan *plan, const struct step *step, struct action *ret_action);

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/plan.h"

#include <string.h>

#include "common/clock.h"
#include "entrypoint/engine/kill_point.h"

/* One action of a step on its way: its do or its undo. */
struct call {
	struct plan *plan;
	const struct step *step;
	bool undoing;
	enum step_kind kind;
	action_function *function;
	uint64_t deadline_ms; /* absolute, or EVENTS_NEVER */
	uint64_t latest_ms;   /* likewise: of all tries of an undo together */
	struct action action;
};

static void worker_message(void *context, const struct worker_message *message)
{
	const struct plan *plan = context;

	if (message->kind == WORKER_HOLDER)
		events_watch_pid(plan->events, message->pid);
	else
		plan->listener(plan->role, message);
}

static int try_call(struct call *call)
{
	const struct worker_bounds bounds = {
		.listener = worker_message,
		.context = call->plan,
		.deadline_ms = call->deadline_ms,
		.stoppable = call->step->stoppable && !call->undoing,
	};

	call->action = (struct action){ .role = call->plan->role, .reason = REASON_INTERNAL };
	if (call->kind != STEP_WORKER)
		return call->function(&call->action);
	return worker_run(call->plan->events, &bounds, call->function, &call->action);
}

/* Logs what the step waits for when that changes, not at every event. */
static void report_waiting(const struct call *call, uint64_t give_up_ms)
{
	struct log *log = call->plan->log;
	uint64_t now_ms = clock_monotonic_ms();
	uint64_t left_ms = give_up_ms > now_ms ? give_up_ms - now_ms : 0;
	char text[ERROR_TEXT_SIZE];

	if (strncmp(log->detail, call->action.error.text, strlen(call->action.error.text)) == 0)
		return;
	if (give_up_ms == EVENTS_NEVER)
		(void) snprintf(text, sizeof(text), "%.900s", call->action.error.text);
	else
		(void) snprintf(text, sizeof(text), "%.900s (at most %llu s more)",
			call->action.error.text, (unsigned long long) (left_ms + 999) / 1000);
	log_event(log, "waiting", call->step->name, 0, REASON_NONE, text);
	log_detail(log, log->reason, text);
}

/* Asks until the condition holds. A stop signal ends it, unless it is an undo that waits. */
static int run_wait(struct call *call)
{
	const struct events *events = call->plan->events;
	uint64_t begun_ms = clock_monotonic_ms();
	struct error missing;
	int r;

	while ((r = try_call(call)) > 0) {
		if (events->stop_count && !call->undoing)
			return -EINTR;
		report_waiting(call, call->deadline_ms);
		if (!(events_wait(call->plan->events, call->deadline_ms) & EVENT_TIME))
			continue;
		missing = call->action.error;
		return error_set(&call->action.error, -ETIMEDOUT, "gave up after %llu s: %.950s",
			(unsigned long long) (clock_monotonic_ms() - begun_ms + 500) / 1000,
			missing.text);
	}
	return r;
}

static uint64_t absolute_deadline(uint32_t deadline_ms)
{
	return deadline_ms ? clock_monotonic_ms() + deadline_ms : EVENTS_NEVER;
}

static uint64_t earlier_ms(uint64_t one_ms, uint64_t other_ms)
{
	return one_ms < other_ms ? one_ms : other_ms;
}

/* No event comes when a process closed a device and runs on, or the kernel let go. */
#define BUSY_LOOK_MS 1000

/* The least time for an undo that has no share. */
#define UNDO_LEAST_MS 2000

/*
 * Until when the undo of a step may take so that those after it have their shares. Its own it has
 * in any case: a step of the start that could not be stopped may have taken much of the grace.
 */
static uint64_t latest_ms(const struct plan *plan, const struct step *step, bool is_first)
{
	uint64_t end_ms = plan->events->stopped_ms + plan->grace_ms;
	uint64_t least_ms =
		clock_monotonic_ms() + (step->undo_share_ms ? step->undo_share_ms : UNDO_LEAST_MS);
	uint64_t kept_ms = is_first ? step->undo_share_ms : 0;

	if (!plan->grace_ms || !plan->events->stop_count || (step->undo_is_whole && !is_first))
		return EVENTS_NEVER;
	for (const struct step *later = plan->steps; later < step; later++)
		kept_ms += (later->undo_first ? UINT64_C(2) : 1) * later->undo_share_ms;
	return end_ms > kept_ms + least_ms ? end_ms - kept_ms : least_ms;
}

/*
 * An undo that finds something in use tries again after each event (the end of a process that it
 * named, a module that went), and each second, until its deadline. Another stop signal ends the
 * waiting, never a try.
 */
static int run_undo(struct call *call)
{
	struct events *events = call->plan->events;
	uint64_t give_up_ms =
		earlier_ms(clock_monotonic_ms() + call->plan->busy_ms, call->latest_ms);
	unsigned stops_seen = events->stop_count;
	int r;

	while ((r = try_call(call)) == -EBUSY) {
		if (clock_monotonic_ms() >= give_up_ms || events->stop_count > stops_seen)
			return r;
		report_waiting(call, give_up_ms);
		(void) events_wait(
			events, earlier_ms(clock_monotonic_ms() + BUSY_LOOK_MS, give_up_ms));
		events_forget_pids(events);
		if (events->stop_count > stops_seen)
			return r;
		call->deadline_ms = earlier_ms(
			absolute_deadline(call->step->undo_deadline_ms), call->latest_ms);
	}
	return r;
}

static int run_call(struct call *call)
{
	const char *name = call->step->name;
	struct log *log = call->plan->log;
	uint64_t begun_us = clock_monotonic_us();
	uint64_t took_us;
	int r;

	log_event(log, call->undoing ? "undo" : "begin", name, 0, REASON_NONE, "");
	/* A wait that has to wait writes the status itself. */
	log_step(log, name, call->kind == STEP_WORKER);
	kill_point_step(call->undoing, name);
	kill_point("%s%s:before", call->undoing ? "undo:" : "", name);
	if (call->kind == STEP_WAIT)
		r = run_wait(call);
	else
		r = call->undoing ? run_undo(call) : try_call(call);
	took_us = clock_monotonic_us() - begun_us;
	kill_point("%s%s:after", call->undoing ? "undo:" : "", name);
	if (r == -EINTR)
		log_event(log, "interrupted", name, took_us, REASON_NONE, "");
	else if (r < 0)
		log_event(
			log, "failed", name, took_us, call->action.reason, call->action.error.text);
	else
		log_event(log, call->undoing ? "undone" : "done", name, took_us, REASON_NONE, "");
	return r;
}

static void remember_failure(struct plan *plan, const struct call *call)
{
	if (plan->reason != REASON_NONE)
		return;
	plan->reason = call->action.reason;
	plan->error = call->action.error;
	log_detail(plan->log, plan->reason, plan->error.text);
}

static struct call call_of(struct plan *plan, const struct step *step, uint32_t deadline_ms)
{
	return (struct call){
		.plan = plan,
		.step = step,
		.kind = step->kind,
		.function = step->perform,
		.deadline_ms = absolute_deadline(deadline_ms),
	};
}

int plan_start(struct plan *plan)
{
	while (plan->begun < plan->step_count) {
		const struct step *step = &plan->steps[plan->begun];
		struct call call;
		int r;

		if (plan->events->stop_count)
			return -EINTR;
		call = call_of(plan, step,
			step->deadline ? step->deadline(plan->role) : step->deadline_ms);
		plan->begun++;
		if (!step->perform || (step->wanted && !step->wanted(plan->role)))
			continue;
		if (step->is_done && step->is_done(plan->role))
			continue;
		r = run_call(&call);
		if (r >= 0 || step->may_fail)
			continue;
		if (r != -EINTR) {
			plan->start_failed = true;
			remember_failure(plan, &call);
		}
		return r;
	}
	return plan->events->stop_count ? -EINTR : 0;
}

/* The undo of a step, or the first half of it. */
static int undo_step(struct plan *plan, const struct step *step, action_function *undo)
{
	struct call call = {
		.plan = plan,
		.step = step,
		.undoing = true,
		.kind = step->undo_kind,
		.function = undo,
		.latest_ms = latest_ms(plan, step, undo == step->undo_first),
	};
	int r;

	call.deadline_ms = earlier_ms(absolute_deadline(step->undo_deadline_ms), call.latest_ms);
	if (!undo || (step->wanted && !step->wanted(plan->role)))
		return 0;
	r = run_call(&call);
	if (r >= 0)
		return 0;
	plan->stop_failed = true;
	remember_failure(plan, &call);
	return r;
}

int plan_stop(struct plan *plan)
{
	int first_failure = 0;

	while (plan->begun) {
		const struct step *step = &plan->steps[--plan->begun];
		action_function *const halves[] = { step->undo_first, step->undo };

		for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
			int r = undo_step(plan, step, halves[i]);

			if (r < 0 && !first_failure)
				first_failure = r;
		}
	}
	return first_failure;
}

int plan_do(struct plan *plan, const struct step *step, struct action *ret_action)
{
	struct call call = call_of(plan, step, step->deadline_ms);
	const char *outer = plan->log->step;
	int r = run_call(&call);

	*ret_action = call.action;
	log_step(plan->log, outer, step->kind == STEP_WORKER);
	return r;
}

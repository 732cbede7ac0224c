/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the missing stages of a plan. Stages that wait for no other one run at once, each in a
 * process of its own; one of them at a time compiles, by all of --jobs. When one fails, no other
 * begins; those that run are finished, unless one of them compiles: then all are ended, and their
 * folders, which are this run's, go with it.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cli/message.h"
#include "common/process.h"
#include "common/xalloc.h"

#define AT_ONCE   4
#define REDRAW_MS 200  /* of a terminal */
#define LINE_MS   1000 /* between looks for a stage that was quiet, in a log */

/* The answer of a process, in memory that it shares with ours. */
struct outcome {
	bool is_known;
	int result;
	enum exit_code failure;
	bool ran;
	int unwritten; /* of message_flush() */
	struct error error;
};

struct shared {
	struct progress_stage stages[AT_ONCE];
	struct outcome outcomes[AT_ONCE];
};

struct worker {
	pid_t pid; /* 0: free */
	struct stage *stage;
	int notes_fd;
};

struct execution {
	struct build *build;
	bool *missing; /* by number in the plan; false once it is made */
	struct shared *shared;
	struct worker workers[AT_ONCE];
	bool is_ending;
	int result; /* of the first that failed */
	struct error *error;
};

static size_t number_of(const struct execution *execution, const struct stage *stage)
{
	return (size_t) (stage - execution->build->plan.stages);
}

static int is_missing(void *data, struct stage *input)
{
	const struct execution *execution = data;

	return execution->missing[number_of(execution, input)];
}

static bool is_running(const struct execution *execution, const struct stage *stage)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (execution->workers[i].pid && execution->workers[i].stage == stage)
			return true;
	return false;
}

static bool is_compiling(const struct execution *execution)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (execution->workers[i].pid &&
			execution->build->plan.rows[execution->workers[i].stage->kind].compiles)
			return true;
	return false;
}

/* A stage whose inputs are all there; NULL: none for now. One that compiles comes first: most of a
 * build's time is theirs. */
static struct stage *find_ready(struct execution *execution)
{
	struct build *build = execution->build;
	struct stage *found = NULL;

	for (size_t i = 0; i < build->plan.count; i++) {
		struct stage *stage = &build->plan.stages[i];
		bool compiles = execution->build->plan.rows[stage->kind].compiles;

		if (!execution->missing[i] || is_running(execution, stage) ||
			(compiles && is_compiling(execution)) || (found && !compiles) ||
			stage_each_input(build, stage, is_missing, execution) != 0)
			continue;
		if (compiles)
			return stage;
		found = stage;
	}
	return found;
}

/* ---- the processes */

static _Noreturn void work(
	struct execution *execution, struct stage *stage, size_t slot, int notes_fd)
{
	struct build *build = execution->build;
	struct context *context = &build->context;
	struct outcome *outcome = &execution->shared->outcomes[slot];

	/* Should our parent be killed, nothing would wait for us. */
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	message_start();
	progress_split(&context->progress, &execution->shared->stages[slot], notes_fd);
	if (context->download)
		download_after_fork(context->download);
	outcome->result = cache_split_run(&context->cache, stage->name);
	if (outcome->result < 0)
		(void) error_set_errno(&outcome->error, outcome->result, "%s", stage->name);
	else
		outcome->result = stage_make(build, stage, &outcome->error);
	outcome->failure = context->failure;
	outcome->ran = stage->cached->ran;
	outcome->unwritten = message_flush();
	outcome->is_known = true;
	(void) fflush(NULL);
	_exit(0);
}

static int start(struct execution *execution, struct stage *stage)
{
	size_t slot = 0;
	int ends[2];
	pid_t pid;

	while (execution->workers[slot].pid)
		slot++;
	memset(&execution->shared->outcomes[slot], 0, sizeof(struct outcome));
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(execution->error, -errno, "%s", stage->name);
	(void) fflush(NULL);
	pid = fork();
	if (pid < 0) {
		int r = error_set_errno(execution->error, -errno, "%s", stage->name);

		(void) close(ends[0]);
		(void) close(ends[1]);
		return r;
	}
	if (pid == 0)
		work(execution, stage, slot, ends[1]);
	(void) close(ends[1]);
	execution->workers[slot] =
		(struct worker){ .pid = pid, .stage = stage, .notes_fd = ends[0] };
	return 0;
}

/*
 * A compile would go on for minutes: then all ends, and all of this run's programs are in our
 * process group. Else the stages that run are finished, for the next run.
 */
static void end_others(struct execution *execution)
{
	if (execution->is_ending || !is_compiling(execution))
		return;
	execution->is_ending = true;
	(void) signal(SIGTERM, SIG_IGN);
	(void) kill(0, SIGTERM);
}

static void take_failure(
	struct execution *execution, int result, enum exit_code failure, const struct error *error)
{
	if (execution->result == 0) {
		execution->result = result;
		execution->build->context.failure = failure;
		*execution->error = *error;
	}
	end_others(execution);
}

/* A process that did not say it itself. Returns what it sets in @error. */
static int say_how_it_ended(const struct stage *stage, int status, struct error *error)
{
	if (WIFEXITED(status))
		return error_set(error,
			WEXITSTATUS(status) == EXIT_CODE_MEMORY ? -ENOMEM : -ENOTRECOVERABLE,
			"%s: its process ended with status %d", stage->name, WEXITSTATUS(status));
	if (WTERMSIG(status) != SIGKILL)
		return error_set(error,
			process_was_interrupted(128 + WTERMSIG(status)) ? -EINTR : -ENOTRECOVERABLE,
			"%s: its process was ended by signal %d", stage->name, WTERMSIG(status));
	(void) error_set(error, -ENOMEM,
		"%s: its process was killed by SIGKILL, probably because memory ran out",
		stage->name);
	return error_try(error, -ENOMEM, "run it again with more free memory, or fewer --jobs");
}

static size_t running(const struct execution *execution)
{
	size_t count = 0;

	for (size_t i = 0; i < AT_ONCE; i++)
		count += execution->workers[i].pid != 0;
	return count;
}

static void collect(struct execution *execution, size_t slot)
{
	struct worker *worker = &execution->workers[slot];
	struct outcome *outcome = &execution->shared->outcomes[slot];
	struct stage *stage = worker->stage;
	int status = 0;

	(void) close(worker->notes_fd);
	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		;
	worker->pid = 0;
	if (!outcome->is_known) {
		outcome->result = say_how_it_ended(stage, status, &outcome->error);
		outcome->failure = exit_code_for(outcome->result, EXIT_CODE_INTERNAL);
		progress_table_lost(
			&execution->build->context.progress, &execution->shared->stages[slot]);
	}
	progress_table_end(&execution->build->context.progress, &execution->shared->stages[slot]);
	if (outcome->unwritten) {
		errno = -outcome->unwritten;
		message_lost();
	}
	if (outcome->result < 0) {
		take_failure(execution, outcome->result, outcome->failure, &outcome->error);
		/* It is said again, with cures, when they are finished. */
		if (running(execution) && !execution->is_ending)
			progress_notef(&execution->build->context.progress,
				"%s; finishing the stages that run", outcome->error.text);
		return;
	}
	stage->cached->ran = outcome->ran;
	stage->state = STAGE_THERE;
	execution->missing[number_of(execution, stage)] = false;
}

/* Until one ends; meanwhile the terminal is kept up to date. */
static void wait_for_one(struct execution *execution)
{
	struct progress *progress = &execution->build->context.progress;
	struct pollfd fds[AT_ONCE];
	bool any = false;

	while (!any) {
		for (size_t i = 0; i < AT_ONCE; i++)
			fds[i] = (struct pollfd){ .fd = execution->workers[i].pid
								? execution->workers[i].notes_fd
								: -1,
				.events = POLLIN };
		(void) poll(fds, AT_ONCE, progress->terminal ? REDRAW_MS : LINE_MS);
		for (size_t i = 0; i < AT_ONCE; i++) {
			char text[65536]; /* of whole lines, as much as a pipe holds */
			ssize_t size;

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			size = read(fds[i].fd, text, sizeof(text));
			if (size > 0) {
				progress_table_notes(progress, text, (size_t) size);
			} else if (size == 0 || errno != EINTR) {
				collect(execution, i);
				any = true;
			}
		}
		progress_table(progress, execution->shared->stages, AT_ONCE);
	}
}

/* ---- all of them */

/* A key in a token is not a forked process's: what needs it runs in this one. */
static int make_here(struct execution *execution, struct stage *stage)
{
	int r;

	/* It draws a line of its own. */
	progress_table(&execution->build->context.progress, NULL, 0);
	r = stage_make(execution->build, stage, execution->error);
	if (r == 0)
		execution->missing[number_of(execution, stage)] = false;
	return r;
}

/* --jobs of 1 means one thing at a time; 0: a verb that has no --jobs. */
static size_t at_once(const struct build *build)
{
	unsigned int jobs = build->options.jobs;

	return jobs && jobs < AT_ONCE ? jobs : AT_ONCE;
}

static void start_ready(struct execution *execution)
{
	struct stage *stage;

	while (execution->result == 0 && running(execution) < at_once(execution->build) &&
		(stage = find_ready(execution))) {
		int r = execution->build->plan.rows[stage->kind].in_process
				? make_here(execution, stage)
				: start(execution, stage);

		if (r < 0) {
			struct error error = *execution->error;

			take_failure(execution, r, execution->build->context.failure, &error);
		}
	}
}

int stages_execute(struct build *build, bool *missing, struct error *error)
{
	struct execution execution = { .build = build, .missing = missing, .error = error };
	struct progress *progress = &build->context.progress;

	execution.shared = mmap(NULL, sizeof(*execution.shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (execution.shared == MAP_FAILED)
		out_of_memory();
	progress->to_make = progress->made = 0;
	for (size_t i = 0; i < build->plan.count; i++)
		progress->to_make += missing[i];
	start_ready(&execution);
	while (running(&execution)) {
		wait_for_one(&execution);
		start_ready(&execution);
	}
	if (execution.is_ending)
		(void) signal(SIGTERM, SIG_DFL);
	progress->to_make = 0;
	(void) munmap(execution.shared, sizeof(*execution.shared));
	return execution.result;
}

int stages_make(struct build *build, unsigned int kinds, stage_filter_function *is_wanted,
	struct error *error)
{
	_cleanup_free_ bool *missing = NULL;
	int r = stages_look(build, kinds, is_wanted, &missing, error);

	if (r == 0)
		r = preflight(build, missing, error);
	return r < 0 ? r : stages_execute(build, missing, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"

/* One that was up for so long is not failing in a row. */
#define STABLE_MS 60000u

/* A line of the state file: names and numbers, and why it ended. */
#define LINE_SIZE 768

static const char *const states[] = {
	[DAEMON_OFF] = "off",
	[DAEMON_STARTING] = "starting",
	[DAEMON_UP] = "up",
	[DAEMON_DONE] = "done",
	[DAEMON_WAITING] = "waiting",
	[DAEMON_STOPPING] = "stopping",
};

/* When it is started again, on the clock that other processes have too. */
static int64_t again(const struct daemon *daemon)
{
	if (daemon->state != DAEMON_WAITING)
		return 0;
	return daemon->since + (int64_t) (daemon->again_ms - daemon->since_ms + 999) / 1000;
}

static size_t print_line(const struct daemon *daemon, char *text)
{
	size_t length = (size_t) snprintf(text, LINE_SIZE, "%.63s %d %s %u %lld %s %lld %s",
		daemon->name, (int) (daemon->pid ? daemon->pid : daemon->program),
		states[daemon->state], daemon->restarts, (long long) daemon->since,
		*daemon->last_exit ? daemon->last_exit : "-", (long long) again(daemon),
		daemon->why);

	/* A daemon's words may hold anything. */
	for (size_t i = 0; i < length; i++)
		if ((unsigned char) text[i] < ' ')
			text[i] = ' ';
	text[length] = '\n';
	return length + 1;
}

static void write_state(const struct supervisor *supervisor)
{
	char text[SUPERVISOR_DAEMONS * LINE_SIZE];
	size_t used = 0;
	int r;

	for (size_t i = 0; i < supervisor->count; i++)
		used += print_line(&supervisor->daemons[i], text + used);
	r = fs_write_atomic(supervisor->root_fd, supervisor->state_file, text, used, 0644);
	if (r < 0)
		(void) fprintf(stderr, "/%s cannot be written: %s\n", supervisor->state_file,
			strerror(-r));
}

static void change(struct supervisor *supervisor, struct daemon *daemon, enum daemon_state state)
{
	daemon->state = state;
	daemon->since_ms = clock_monotonic_ms();
	daemon->since = (int64_t) time(NULL);
	write_state(supervisor);
}

static void tell(const struct supervisor *supervisor, const struct daemon *daemon,
	const char *event, uint64_t took_ms, const char *message)
{
	log_event(supervisor->log, event, daemon->name, took_ms * 1000, REASON_NONE, message);
}

static void hear(void *context, pid_t pid, int status)
{
	struct supervisor *supervisor = context;

	for (size_t i = 0; i < supervisor->count; i++)
		if (daemon_hear(&supervisor->daemons[i], pid, status))
			return;
}

void supervisor_open(struct supervisor *supervisor)
{
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	supervisor->events->child_ended = hear;
	supervisor->events->child_context = supervisor;
}

void supervisor_close(struct supervisor *supervisor)
{
	supervisor->events->child_ended = NULL;
	for (size_t i = 0; i < supervisor->count; i++)
		strv_free(&supervisor->daemons[i].argv);
	supervisor->count = 0;
}

struct daemon *supervisor_add(struct supervisor *supervisor, const char *name)
{
	struct daemon *daemon;

	if (supervisor->count == SUPERVISOR_DAEMONS)
		return NULL;
	daemon = &supervisor->daemons[supervisor->count++];
	*daemon = (struct daemon){ .name = name };
	return daemon;
}

const struct daemon *supervisor_lacks(const struct supervisor *supervisor)
{
	for (size_t i = 0; i < supervisor->count; i++) {
		const struct daemon *daemon = &supervisor->daemons[i];

		if (daemon->needed && daemon->state != DAEMON_UP && daemon->state != DAEMON_DONE)
			return daemon;
	}
	return NULL;
}

static void note_exit(struct daemon *daemon, const char *otherwise)
{
	if (otherwise)
		(void) snprintf(daemon->last_exit, sizeof(daemon->last_exit), "%s", otherwise);
	else if (WIFSIGNALED(daemon->status))
		(void) snprintf(daemon->last_exit, sizeof(daemon->last_exit), "signal:%d",
			WTERMSIG(daemon->status));
	else
		(void) snprintf(daemon->last_exit, sizeof(daemon->last_exit), "exit:%d",
			WEXITSTATUS(daemon->status));
}

/* Nothing of it may stay behind: what it left would keep the next one from its pid file. */
static void sweep(const struct supervisor *supervisor, struct daemon *daemon)
{
	daemon_find(daemon, supervisor->root_fd);
	daemon_signal(daemon, SIGKILL);
	daemon->program = daemon->pid = 0;
}

/* A command belongs to the start: later it could do harm (resetting GPUs that work by then). */
static bool gives_up_on(const struct daemon *daemon)
{
	return daemon->once && !daemon->needed;
}

/* It ended or was late: told with its last words, and started again in a while. */
static void fail(struct supervisor *supervisor, struct daemon *daemon, const char *how,
	const struct error *error)
{
	uint64_t now_ms = clock_monotonic_ms();
	bool was_stable = daemon->state == DAEMON_UP && now_ms >= daemon->since_ms + STABLE_MS;
	char words[256];
	struct error text;

	note_exit(daemon, how);
	sweep(supervisor, daemon);
	daemon->failures = was_stable ? 1 : daemon->failures + 1;
	daemon->again_ms = now_ms + daemon_backoff_ms(daemon->failures);
	/* One that could not be started wrote nothing: the log is the one before. */
	*words = '\0';
	if (!how || strcmp(how, "unable") != 0)
		daemon_last_words(daemon, supervisor->root_fd, words);
	(void) snprintf(daemon->why, sizeof(daemon->why), "%.240s%s%s%s", error->text,
		*words ? ": \"" : "", words, *words ? "\"" : "");
	if (gives_up_on(daemon))
		(void) error_set(&text, 0, "%s; not tried again", daemon->why);
	else
		(void) error_set(&text, 0, "%s; started again in %u s", daemon->why,
			daemon_backoff_ms(daemon->failures) / 1000);
	change(supervisor, daemon, gives_up_on(daemon) ? DAEMON_DONE : DAEMON_WAITING);
	tell(supervisor, daemon, "daemon failed", 0, text.text);
}

static void spawn(struct supervisor *supervisor, struct daemon *daemon)
{
	struct error error = { "" };

	if (daemon->state == DAEMON_WAITING)
		daemon->restarts++;
	if (daemon_spawn(daemon, supervisor->root_fd, &error) < 0) {
		fail(supervisor, daemon, "unable", &error);
		return;
	}
	/* The pid file and the socket come while nothing else happens. */
	if (daemon->pid_file)
		(void) events_watch_file(supervisor->events, daemon->pid_file);
	if (daemon->socket)
		(void) events_watch_file(supervisor->events, daemon->socket);
	write_state(supervisor);
}

static void look_starting(struct supervisor *supervisor, struct daemon *daemon)
{
	uint64_t begun_ms = daemon->since_ms;
	struct error error = { "" };
	char text[64];
	int r = daemon_check(daemon, supervisor->root_fd, clock_monotonic_ms(), &error);

	if (r < 0)
		fail(supervisor, daemon, r == -ETIMEDOUT ? "late" : NULL, &error);
	if (r <= 0)
		return;
	if (!daemon->once)
		(void) snprintf(text, sizeof(text), "process %d", (int) daemon->pid);
	change(supervisor, daemon, daemon->once ? DAEMON_DONE : DAEMON_UP);
	tell(supervisor, daemon, daemon->once ? "daemon done" : "daemon up",
		daemon->since_ms - begun_ms, daemon->once ? "" : text);
}

static void look_up(struct supervisor *supervisor, struct daemon *daemon)
{
	struct error error;
	char how[64];

	if (daemon->pid)
		return;
	daemon_explain(daemon, how);
	(void) error_set(&error, 0, "%s ended with %s", daemon->name, how);
	fail(supervisor, daemon, NULL, &error);
}

/* Moves one on as far as it goes now. Returns when to look again. */
static uint64_t look(struct supervisor *supervisor, struct daemon *daemon)
{
	if (daemon->state == DAEMON_STARTING)
		look_starting(supervisor, daemon);
	else if (daemon->state == DAEMON_UP)
		look_up(supervisor, daemon);
	if (daemon->state == DAEMON_WAITING && clock_monotonic_ms() >= daemon->again_ms)
		spawn(supervisor, daemon);
	if (daemon->state == DAEMON_STARTING)
		return daemon_check_at(daemon);
	return daemon->state == DAEMON_WAITING ? daemon->again_ms : EVENTS_NEVER;
}

void supervisor_look(struct supervisor *supervisor, uint64_t *wake_ms)
{
	for (size_t i = 0; i < supervisor->count; i++) {
		uint64_t again_ms = look(supervisor, &supervisor->daemons[i]);

		if (again_ms < *wake_ms)
			*wake_ms = again_ms;
	}
}

/* May the one after it start? */
static bool lets_next(const struct daemon *daemon)
{
	return daemon->state == DAEMON_UP || daemon->state == DAEMON_DONE ||
	       (!daemon->needed && daemon->failures);
}

/* Nobody waits for one that is not needed and that none comes after: the watch looks after it. */
static bool is_waited_for(const struct supervisor *supervisor, size_t i)
{
	const struct daemon *daemon = &supervisor->daemons[i];

	return daemon->needed || daemon->once || i + 1 < supervisor->count;
}

static int given_up(const struct daemon *daemon, struct error *error)
{
	return error_set(error, -ECHILD,
		"%s does not come up: tried %d times: %s: see /" DAEMON_LOG_FOLDER
		"/%s.log on the node",
		daemon->name, SUPERVISOR_TRIES, daemon->why, daemon->name);
}

int supervisor_start(struct supervisor *supervisor, struct error *error)
{
	uint64_t wake_ms = EVENTS_NEVER;

	for (size_t i = 0; i < supervisor->count; i++) {
		struct daemon *daemon = &supervisor->daemons[i];
		uint64_t again_ms;

		if (daemon->state == DAEMON_OFF)
			spawn(supervisor, daemon);
		again_ms = look(supervisor, daemon);
		wake_ms = again_ms < wake_ms ? again_ms : wake_ms;
		events_alarm(supervisor->events, wake_ms);
		if (daemon->needed && daemon->failures >= SUPERVISOR_TRIES)
			return given_up(daemon, error);
		if (!lets_next(daemon) && is_waited_for(supervisor, i))
			return error_set(error, 1, "%s is starting: it is given %u s%s",
				daemon->name, daemon->start_ms / 1000,
				daemon->failures ? ", and tried again" : "");
	}
	return 0;
}

/* Signals every child that is no worker of ours. Returns how many there are; *ret_pid is one. */
static size_t signal_children(const struct supervisor *supervisor, int signal, pid_t *ret_pid)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv pids = { 0 };
	size_t count = 0;
	char path[64];

	(void) snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int) getpid());
	if (fs_read(AT_FDCWD, path, 65536, &text, NULL) < 0 || strv_split(&pids, text, " \n") < 0)
		return 0;
	for (size_t i = 0; i < pids.count; i++) {
		pid_t pid = (pid_t) strtol(pids.items[i], NULL, 10);

		if (pid <= 1 || pid == supervisor->events->worker_pid)
			continue;
		if (signal)
			(void) kill(pid, signal);
		*ret_pid = pid;
		count++;
	}
	return count;
}

/*
 * What forked away and is named by no pid file yet, all that is left of ours once the daemons
 * ended: SIGTERM may have met a program between its fork and its child's first line, and that child
 * holds the driver. 1: they have not ended yet.
 */
static int stop_orphans(struct supervisor *supervisor, struct error *error)
{
	uint64_t now_ms = clock_monotonic_ms();
	int signal = 0;
	pid_t pid = 0;
	uint64_t kill_ms;
	size_t count;

	if (!supervisor->orphans_since_ms) {
		supervisor->orphans_since_ms = now_ms;
		signal = SIGTERM;
	}
	kill_ms = supervisor->orphans_since_ms + SUPERVISOR_ORPHANS_MS;
	if (now_ms >= kill_ms)
		signal = SIGKILL;
	count = signal_children(supervisor, signal, &pid);
	if (!count || now_ms >= kill_ms + SUPERVISOR_KILL_MS) {
		supervisor->orphans_since_ms = 0;
		return 0;
	}
	events_alarm(supervisor->events, kill_ms + (signal == SIGKILL ? SUPERVISOR_KILL_MS : 0));
	return error_set(error, 1,
		"%zu process(es) that a daemon left behind (one is %d) got %s and have not ended "
		"yet",
		count, (int) pid, signal == SIGKILL ? "SIGKILL" : "SIGTERM");
}

static int not_ended(const struct daemon *daemon, struct error *error)
{
	int pid = (int) (daemon->pid ? daemon->pid : daemon->program);

	if (daemon->killed)
		return error_set(error, 1,
			"%s (process %d) got SIGKILL and has not ended yet: left to the kernel "
			"after %u s",
			daemon->name, pid, SUPERVISOR_KILL_MS / 1000);
	return error_set(error, 1,
		"%s (process %d) got SIGTERM and has not ended yet: SIGKILL after %u s",
		daemon->name, pid, (daemon->stop_ms + 999) / 1000);
}

/* 1: it has not ended yet. */
static int stop_one(struct supervisor *supervisor, struct daemon *daemon, struct error *error)
{
	uint64_t now_ms = clock_monotonic_ms();

	if (daemon->state == DAEMON_OFF || daemon->state == DAEMON_DONE)
		return 0;
	if (daemon->state != DAEMON_STOPPING) {
		daemon_find(daemon, supervisor->root_fd);
		daemon_signal(daemon, SIGTERM);
		change(supervisor, daemon, DAEMON_STOPPING);
	}
	if (!daemon->pid && !daemon->program) {
		tell(supervisor, daemon, "daemon stopped", now_ms - daemon->since_ms, "");
		change(supervisor, daemon, DAEMON_OFF);
		return 0;
	}
	if (!daemon->killed && now_ms >= daemon->since_ms + daemon->stop_ms) {
		tell(supervisor, daemon, "daemon killed", 0, "SIGTERM was not enough");
		daemon_signal(daemon, SIGKILL);
		daemon->killed = true;
	}
	if (daemon->killed && now_ms >= daemon->since_ms + daemon->stop_ms + SUPERVISOR_KILL_MS) {
		tell(supervisor, daemon, "daemon stuck", 0, "the kernel holds it: it is left");
		change(supervisor, daemon, DAEMON_OFF);
		return 0;
	}
	events_alarm(supervisor->events,
		daemon->since_ms + daemon->stop_ms + (daemon->killed ? SUPERVISOR_KILL_MS : 0));
	return not_ended(daemon, error);
}

int supervisor_stop(struct supervisor *supervisor, struct error *error)
{
	for (size_t i = supervisor->count; i-- > 0;)
		if (stop_one(supervisor, &supervisor->daemons[i], error))
			return 1;
	return stop_orphans(supervisor, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/supervisor_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/engine/spawn.h"
#include "entrypoint/role/pci.h"

#define BACKOFF_FIRST_MS 1000u
#define BACKOFF_MOST_MS  60000u

/* One that was up for so long is not failing in a row. */
#define STABLE_MS 60000u

/* A line of the state file: names and numbers, and why it ended. */
#define LINE_SIZE 768

#define LOG_FILE_SIZE 128

static const char *const states[] = {
	[DAEMON_OFF] = "off",
	[DAEMON_STARTING] = "starting",
	[DAEMON_UP] = "up",
	[DAEMON_DONE] = "done",
	[DAEMON_WAITING] = "waiting",
	[DAEMON_STOPPING] = "stopping",
};

uint32_t supervisor_backoff_ms(unsigned failures)
{
	uint32_t wait_ms = BACKOFF_FIRST_MS;

	while (failures-- > 1 && wait_ms < BACKOFF_MOST_MS)
		wait_ms *= 2;
	return wait_ms < BACKOFF_MOST_MS ? wait_ms : BACKOFF_MOST_MS;
}

/* ---- processes and their files */

/*
 * Is it a living child of ours? A daemon that forked is: the init is its subreaper. A number that
 * some file names can by now be any process.
 */
static bool is_child(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0;
}

/* Returns the process id in the daemon's pid file, or 0. */
static pid_t read_pid(const struct daemon *daemon, int root_fd)
{
	_cleanup_free_ char *line = NULL;
	long pid;

	if (!daemon->pid_file || fs_read_line(root_fd, daemon->pid_file, &line) < 0)
		return 0;
	pid = strtol(line, NULL, 10);
	return pid > 1 && pid <= INT32_MAX ? (pid_t) pid : 0;
}

/* The same daemon with the same pid file, run by another: on the host, or in another pod. */
static pid_t find_foreign(const struct daemon *daemon, int root_fd)
{
	pid_t pid = read_pid(daemon, root_fd);
	char program[256];
	char path[64];

	if (!pid || is_child(pid))
		return 0;
	(void) snprintf(path, sizeof(path), "proc/%d/exe", (int) pid);
	sysfs_link_name(root_fd, path, program, sizeof(program));
	return strcmp(program, basename(daemon->argv.items[0])) == 0 ? pid : 0;
}

/* Makes the folder of a file that the daemon makes, and removes one that is left from before. */
static int clear_file(int root_fd, const char *path, struct error *error)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	_cleanup_free_ char *folder = NULL;
	int r;

	if (!slash)
		return 0;
	folder = strndup(path, (size_t) (slash - path));
	r = folder ? fs_mkdir_parents(root_fd, folder, 0755) : -ENOMEM;
	if (r < 0)
		return error_set_errno(error, r, "folder of /%s", path);
	(void) unlinkat(root_fd, path, 0);
	return 0;
}

static void log_file(const struct daemon *daemon, char path[LOG_FILE_SIZE])
{
	(void) snprintf(path, LOG_FILE_SIZE, DAEMON_LOG_FOLDER "/%s.log", daemon->name);
}

/* A new log; the one before is kept as ".1". Without one the output goes where the init's goes. */
static int open_log(const struct daemon *daemon, int root_fd)
{
	char previous[LOG_FILE_SIZE + 4];
	char path[LOG_FILE_SIZE];
	int fd = -1;

	log_file(daemon, path);
	(void) snprintf(previous, sizeof(previous), "%s.1", path);
	if (fs_mkdir_parents(root_fd, DAEMON_LOG_FOLDER, 0755) == 0) {
		(void) renameat(root_fd, path, root_fd, previous);
		fd = openat(
			root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	}
	return fd < 0 ? dup(STDERR_FILENO) : fd;
}

/* The last line of its log, "" when there is none. */
static void read_last_line(const struct daemon *daemon, int root_fd, char text[256])
{
	_cleanup_close_ int fd = -1;
	char path[LOG_FILE_SIZE];
	ssize_t size = -1;
	char end[512];
	off_t length;
	char *line;

	text[0] = '\0';
	log_file(daemon, path);
	fd = fs_open(root_fd, path, O_RDONLY);
	length = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (length > 0)
		size = pread(fd, end, sizeof(end) - 1,
			length > (off_t) sizeof(end) ? length - (off_t) sizeof(end) + 1 : 0);
	if (size <= 0)
		return;
	while (size && (end[size - 1] == '\n' || end[size - 1] == '\0'))
		size--;
	end[size] = '\0';
	line = strrchr(end, '\n');
	(void) snprintf(text, 256, "%.255s", line ? line + 1 : end);
}

/*
 * Starts the program: its own session, no signal blocked, output in its log. -EBUSY when such a
 * daemon runs already that is not this container's.
 */
static int start_program(struct daemon *daemon, int root_fd, struct error *error)
{
	pid_t foreign = find_foreign(daemon, root_fd);
	_cleanup_close_ int log_fd = -1;
	struct spawn program = {
		.program = daemon->argv.items[0],
		.argv = daemon->argv.items,
		.variable = daemon->variable,
		.detached = true,
	};
	int r;

	if (foreign)
		return error_set(error, -EBUSY,
			"%s already runs on this node as process %d, outside this container: disable the host's service, because the driver container runs its own",
			daemon->name, (int) foreign);
	r = clear_file(root_fd, daemon->pid_file, error);
	if (r == 0)
		r = clear_file(root_fd, daemon->socket, error);
	if (r < 0)
		return r;
	log_fd = open_log(daemon, root_fd);
	program.output_fd = log_fd;
	r = spawn_start(&program, &daemon->program);
	if (r < 0)
		return error_set_errno(error, r, "%s", program.program);
	if (!daemon->forks)
		daemon->pid = daemon->program;
	return 0;
}

/* Signals all that is known of it, also what has not come so far as to return. */
static void signal_daemon(struct daemon *daemon, int root_fd, int signal)
{
	pid_t pid = daemon->pid ? 0 : read_pid(daemon, root_fd);

	if (pid && is_child(pid))
		daemon->pid = pid;
	if (daemon->program)
		(void) kill(-daemon->program, signal);
	if (daemon->pid && daemon->pid != daemon->program)
		(void) kill(daemon->pid, signal);
}

/* That of the daemon, before it is known of its program; 0: none runs. */
static int process_of(const struct daemon *daemon)
{
	return daemon->pid ? daemon->pid : daemon->program;
}

/* How its last process ended; @when stands in the middle. Returns -ECHILD. */
static int describe_exit(const struct daemon *daemon, const char *when, struct error *error)
{
	if (WIFSIGNALED(daemon->status))
		return error_set(error, -ECHILD, "%s %s with signal %d (%s)", daemon->name, when,
			WTERMSIG(daemon->status), strsignal(WTERMSIG(daemon->status)));
	return error_set(error, -ECHILD, "%s %s with exit code %d", daemon->name, when,
		WEXITSTATUS(daemon->status));
}

/* ---- the state file */

static size_t print_line(const struct daemon *daemon, char *text)
{
	int64_t again = 0;
	size_t length;

	if (daemon->state == DAEMON_WAITING)
		again = daemon->since + supervisor_backoff_ms(daemon->failures) / 1000;
	length = (size_t) snprintf(text, LINE_SIZE, "%.63s %d %s %u %lld %s %lld %s", daemon->name,
		process_of(daemon), states[daemon->state], daemon->restarts,
		(long long) daemon->since, *daemon->last_exit ? daemon->last_exit : "-",
		(long long) again, daemon->why);
	/* A daemon's log may hold anything. */
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

static void report(const struct supervisor *supervisor, const struct daemon *daemon,
	const char *event, uint64_t took_ms, const char *message)
{
	log_event(supervisor->log, event, daemon->name, took_ms * 1000, REASON_NONE, message);
}

/* ---- start and serve */

static void child_ended(void *context, pid_t pid, int status)
{
	struct supervisor *supervisor = context;

	for (size_t i = 0; i < supervisor->count; i++) {
		struct daemon *daemon = &supervisor->daemons[i];

		if (pid != daemon->program && pid != daemon->pid)
			continue;
		daemon->status = status;
		if (pid == daemon->program)
			daemon->program = 0;
		if (pid == daemon->pid)
			daemon->pid = 0;
		return;
	}
}

void supervisor_open(struct supervisor *supervisor)
{
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	supervisor->events->child_ended = child_ended;
	supervisor->events->child_context = supervisor;
}

void supervisor_close(struct supervisor *supervisor)
{
	supervisor->events->child_ended = NULL;
	for (size_t i = 0; i < supervisor->count; i++)
		strv_free(&supervisor->daemons[i].argv);
	*supervisor = (struct supervisor){ .count = 0 };
}

struct daemon *supervisor_add(struct supervisor *supervisor, const char *name)
{
	struct daemon *daemon = &supervisor->daemons[supervisor->count++];

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

/*
 * It ended (@how is NULL), was "late", or "unable" to start: reported with the last line of its
 * log, and started again in a while. Nothing of it may stay behind: that would keep the next one
 * from its pid file. A command belongs to the start: later it could do harm (resetting GPUs that
 * work by then), so that one that is not needed is not tried again.
 */
static void fail(struct supervisor *supervisor, struct daemon *daemon, const char *how,
	const struct error *error)
{
	uint64_t now_ms = clock_monotonic_ms();
	bool was_stable = daemon->state == DAEMON_UP && now_ms >= daemon->since_ms + STABLE_MS;
	bool again = !daemon->once || daemon->needed;
	bool signaled = WIFSIGNALED(daemon->status);
	char last_line[256] = "";
	uint32_t wait_ms;
	struct error text = { 0 };

	(void) snprintf(daemon->last_exit, sizeof(daemon->last_exit), "%s", how ? how : "");
	if (!how)
		(void) snprintf(daemon->last_exit, sizeof(daemon->last_exit), "%s:%d",
			signaled ? "signal" : "exit",
			signaled ? WTERMSIG(daemon->status) : WEXITSTATUS(daemon->status));
	signal_daemon(daemon, supervisor->root_fd, SIGKILL);
	daemon->program = daemon->pid = 0;
	daemon->failures = was_stable ? 1 : daemon->failures + 1;
	wait_ms = supervisor_backoff_ms(daemon->failures);
	/* One that could not be started wrote nothing: the log is the one before. */
	if (!how || strcmp(how, "unable") != 0)
		read_last_line(daemon, supervisor->root_fd, last_line);
	(void) snprintf(daemon->why, sizeof(daemon->why), "%.240s%s%s%s", error->text,
		*last_line ? ": \"" : "", last_line, *last_line ? "\"" : "");
	if (again)
		(void) error_set(
			&text, 0, "%s; started again in %u s", daemon->why, wait_ms / 1000);
	else
		(void) error_set(&text, 0, "%s; not tried again", daemon->why);
	change(supervisor, daemon, again ? DAEMON_WAITING : DAEMON_DONE);
	report(supervisor, daemon, "daemon failed", 0, text.text);
}

static void start_daemon(struct supervisor *supervisor, struct daemon *daemon)
{
	struct error error = { 0 };

	if (daemon->state == DAEMON_WAITING)
		daemon->restarts++;
	daemon->program = daemon->pid = 0;
	daemon->killed = false;
	daemon->state = DAEMON_STARTING;
	daemon->since_ms = clock_monotonic_ms();
	daemon->since = (int64_t) time(NULL);
	if (start_program(daemon, supervisor->root_fd, &error) < 0) {
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

/* Is it up? 1: yes. 0: not yet. Negative: it failed, and @error says how. */
static int check_starting(struct daemon *daemon, int root_fd, uint64_t now_ms, struct error *error)
{
	bool settled = now_ms >= daemon->since_ms + daemon->settle_ms;

	if (!process_of(daemon)) {
		pid_t pid = read_pid(daemon, root_fd);

		if (!WIFEXITED(daemon->status) || WEXITSTATUS(daemon->status) != 0 ||
			(!daemon->once && !daemon->forks))
			return describe_exit(daemon, "ended while it started,", error);
		if (daemon->once)
			return 1;
		/* The program went to the background: its pid file names the daemon. */
		if (pid && is_child(pid))
			daemon->pid = pid;
		else if (settled)
			return error_set(error, -ESRCH,
				"%s went to the background, but /%s names no process of it",
				daemon->name, daemon->pid_file);
	}
	if (daemon->pid && !daemon->once &&
		(settled || (daemon->socket ? fs_exists(root_fd, daemon->socket) : daemon->forks)))
		return 1;
	if (now_ms >= daemon->since_ms + daemon->start_ms)
		return error_set(error, -ETIMEDOUT, "%s is not up after %u s", daemon->name,
			daemon->start_ms / 1000);
	return 0;
}

static void look_starting(struct supervisor *supervisor, struct daemon *daemon)
{
	uint64_t begun_ms = daemon->since_ms;
	struct error error = { 0 };
	char text[64] = "";
	int r = check_starting(daemon, supervisor->root_fd, clock_monotonic_ms(), &error);

	if (r < 0)
		fail(supervisor, daemon, r == -ETIMEDOUT ? "late" : NULL, &error);
	if (r <= 0)
		return;
	if (!daemon->once)
		(void) snprintf(text, sizeof(text), "process %d", (int) daemon->pid);
	change(supervisor, daemon, daemon->once ? DAEMON_DONE : DAEMON_UP);
	report(supervisor, daemon, daemon->once ? "daemon done" : "daemon up",
		daemon->since_ms - begun_ms, text);
}

/* Returns when a waiting daemon is started again (CLOCK_MONOTONIC). */
static uint64_t again_ms(const struct daemon *daemon)
{
	return daemon->since_ms + supervisor_backoff_ms(daemon->failures);
}

/* Moves one on as far as it goes now. Returns when to look again. */
static uint64_t look(struct supervisor *supervisor, struct daemon *daemon)
{
	if (daemon->state == DAEMON_STARTING) {
		look_starting(supervisor, daemon);
	} else if (daemon->state == DAEMON_UP && !daemon->pid) {
		struct error error;

		(void) describe_exit(daemon, "ended", &error);
		fail(supervisor, daemon, NULL, &error);
	}
	if (daemon->state == DAEMON_WAITING && clock_monotonic_ms() >= again_ms(daemon))
		start_daemon(supervisor, daemon);
	if (daemon->state == DAEMON_STARTING) {
		/* A command that runs once is done when it ends, and not before. */
		bool settles =
			!daemon->once && (daemon->pid || (daemon->forks && !daemon->program));
		bool settles_first = settles && daemon->settle_ms < daemon->start_ms;

		return daemon->since_ms + (settles_first ? daemon->settle_ms : daemon->start_ms);
	}
	return daemon->state == DAEMON_WAITING ? again_ms(daemon) : EVENTS_NEVER;
}

void supervisor_look(struct supervisor *supervisor, uint64_t *wake_ms)
{
	for (size_t i = 0; i < supervisor->count; i++) {
		uint64_t next_ms = look(supervisor, &supervisor->daemons[i]);

		*wake_ms = next_ms < *wake_ms ? next_ms : *wake_ms;
	}
}

/* May the one after it start? */
static bool lets_next(const struct daemon *daemon)
{
	return daemon->state == DAEMON_UP || daemon->state == DAEMON_DONE ||
	       (!daemon->needed && daemon->failures);
}

int supervisor_start(struct supervisor *supervisor, struct error *error)
{
	for (size_t i = 0; i < supervisor->count; i++) {
		struct daemon *daemon = &supervisor->daemons[i];

		if (daemon->state == DAEMON_OFF)
			start_daemon(supervisor, daemon);
		/* The earliest alarm counts. */
		events_alarm(supervisor->events, look(supervisor, daemon));
		if (daemon->needed && daemon->failures >= SUPERVISOR_TRIES)
			return error_set(error, -ECHILD,
				"%s did not start in %d attempts: %s: see /" DAEMON_LOG_FOLDER
				"/%s.log on the node",
				daemon->name, SUPERVISOR_TRIES, daemon->why, daemon->name);
		/* One that is not needed and that none comes after is left to the watch. */
		if (!lets_next(daemon) &&
			(daemon->needed || daemon->once || i + 1 < supervisor->count))
			return error_set(error, 1, "%s is starting%s: it has %u s to come up",
				daemon->name, daemon->failures ? " again" : "",
				daemon->start_ms / 1000);
	}
	return 0;
}

/* ---- stop */

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
 * Stops processes that forked away and that no pid file names yet: all that is left of ours once
 * the daemons ended. SIGTERM may have reached a program between its fork and its child's first
 * line, and that child holds the driver. 1: they have not ended yet.
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

/* 1: it has not ended yet. */
static int stop_one(struct supervisor *supervisor, struct daemon *daemon, struct error *error)
{
	uint64_t now_ms = clock_monotonic_ms();
	uint64_t kill_ms;
	int pid;

	if (daemon->state == DAEMON_OFF || daemon->state == DAEMON_DONE)
		return 0;
	if (daemon->state != DAEMON_STOPPING) {
		signal_daemon(daemon, supervisor->root_fd, SIGTERM);
		change(supervisor, daemon, DAEMON_STOPPING);
	}
	pid = process_of(daemon);
	kill_ms = daemon->since_ms + daemon->stop_ms;
	if (!pid) {
		report(supervisor, daemon, "daemon stopped", now_ms - daemon->since_ms, "");
		change(supervisor, daemon, DAEMON_OFF);
		return 0;
	}
	if (!daemon->killed && now_ms < kill_ms) {
		events_alarm(supervisor->events, kill_ms);
		return error_set(error, 1,
			"%s (process %d) got SIGTERM and has not ended yet: SIGKILL after %u s",
			daemon->name, pid, (daemon->stop_ms + 999) / 1000);
	}
	if (!daemon->killed) {
		report(supervisor, daemon, "daemon killed", 0, "SIGTERM was not enough");
		signal_daemon(daemon, supervisor->root_fd, SIGKILL);
		daemon->killed = true;
	}
	if (now_ms >= kill_ms + SUPERVISOR_KILL_MS) {
		report(supervisor, daemon, "daemon stuck", 0,
			"the kernel does not let it end: giving up on it");
		change(supervisor, daemon, DAEMON_OFF);
		return 0;
	}
	events_alarm(supervisor->events, kill_ms + SUPERVISOR_KILL_MS);
	return error_set(error, 1,
		"%s (process %d) got SIGKILL and has not ended yet: giving up on it after %u s",
		daemon->name, pid, SUPERVISOR_KILL_MS / 1000);
}

int supervisor_stop(struct supervisor *supervisor, struct error *error)
{
	for (size_t i = supervisor->count; i-- > 0;)
		if (stop_one(supervisor, &supervisor->daemons[i], error))
			return 1;
	return stop_orphans(supervisor, error);
}

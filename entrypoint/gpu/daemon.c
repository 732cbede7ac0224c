/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"

#define BACKOFF_FIRST_MS 1000u
#define BACKOFF_MOST_MS  60000u

uint32_t daemon_backoff_ms(unsigned failures)
{
	uint32_t wait_ms = BACKOFF_FIRST_MS;

	while (failures-- > 1 && wait_ms < BACKOFF_MOST_MS)
		wait_ms *= 2;
	return wait_ms < BACKOFF_MOST_MS ? wait_ms : BACKOFF_MOST_MS;
}

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

static pid_t read_pid(int root_fd, const char *path)
{
	_cleanup_free_ char *line = NULL;
	long pid;

	if (!path || fs_read_line(root_fd, path, &line) < 0)
		return 0;
	pid = strtol(line, NULL, 10);
	return pid > 1 && pid <= INT32_MAX ? (pid_t) pid : 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Of a daemon that someone else runs, with the same pid file: on the host, or in another pod. */
static pid_t find_rival(const struct daemon *daemon, int root_fd)
{
	pid_t pid = read_pid(root_fd, daemon->pid_file);
	char program[256];
	char path[64];
	ssize_t length;

	if (!pid || is_child(pid))
		return 0;
	(void) snprintf(path, sizeof(path), "proc/%d/exe", (int) pid);
	length = readlinkat(root_fd, path, program, sizeof(program) - 1);
	if (length < 0)
		return 0;
	program[length] = '\0';
	return strcmp(base_name(program), base_name(daemon->argv.items[0])) == 0 ? pid : 0;
}

static int make_folder_of(int root_fd, const char *path)
{
	_cleanup_free_ char *folder = path ? strdup(path) : NULL;
	char *slash = folder ? strrchr(folder, '/') : NULL;

	if (!slash)
		return 0;
	*slash = '\0';
	return fs_mkdir_parents(root_fd, folder, 0755);
}

static int make_way(const struct daemon *daemon, int root_fd, struct error *error)
{
	pid_t rival = find_rival(daemon, root_fd);
	int r;

	if (rival)
		return error_set(error, -EBUSY,
			"%s runs already on this node as process %d, not in this container: the "
			"driver container runs its own: disable the host's service",
			daemon->name, (int) rival);
	r = make_folder_of(root_fd, daemon->pid_file);
	if (r == 0)
		r = make_folder_of(root_fd, daemon->socket);
	if (r < 0)
		return error_set_errno(error, r, "folder of /%s", daemon->pid_file);
	if (daemon->pid_file)
		(void) unlinkat(root_fd, daemon->pid_file, 0);
	if (daemon->socket)
		(void) unlinkat(root_fd, daemon->socket, 0);
	return 0;
}

static void log_path(const struct daemon *daemon, char path[128])
{
	(void) snprintf(path, 128, DAEMON_LOG_FOLDER "/%s.log", daemon->name);
}

/* Without a log the output goes where the init's own goes. */
static int open_log(const struct daemon *daemon, int root_fd)
{
	char previous[132];
	char path[128];
	int fd;

	log_path(daemon, path);
	(void) snprintf(previous, sizeof(previous), "%s.1", path);
	if (fs_mkdir_parents(root_fd, DAEMON_LOG_FOLDER, 0755) < 0)
		return dup(STDERR_FILENO);
	(void) renameat(root_fd, path, root_fd, previous);
	fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	return fd < 0 ? dup(STDERR_FILENO) : fd;
}

static _Noreturn void become_daemon(const struct daemon *daemon, int log_fd, int error_fd)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;
	int r;

	(void) setsid();
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) dup2(null_fd, STDIN_FILENO);
	(void) dup2(log_fd, STDOUT_FILENO);
	(void) dup2(log_fd, STDERR_FILENO);
	if (daemon->variable)
		(void) putenv(strdup(daemon->variable));
	(void) execv(daemon->argv.items[0], daemon->argv.items);
	r = errno;
	(void) !write(error_fd, &r, sizeof(r));
	_exit(127);
}

static void change_state(struct daemon *daemon, enum daemon_state state)
{
	daemon->state = state;
	daemon->since_ms = clock_monotonic_ms();
	daemon->since = (int64_t) time(NULL);
}

static int start_program(struct daemon *daemon, int log_fd, struct error *error)
{
	_cleanup_close_ int our_end = -1;
	int exec_errno = 0;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "pipe");
	our_end = ends[0];
	pid = fork();
	if (pid == 0)
		become_daemon(daemon, log_fd, ends[1]);
	(void) close(ends[1]);
	if (pid < 0)
		return error_set_errno(error, -errno, "fork");
	daemon->program = pid;
	if (!daemon->forks)
		daemon->pid = pid;
	/* The pipe closes with a successful exec: this takes no longer than that. */
	if (read(our_end, &exec_errno, sizeof(exec_errno)) == (ssize_t) sizeof(exec_errno))
		return error_set_errno(error, -exec_errno, "%s", daemon->argv.items[0]);
	return 0;
}

int daemon_spawn(struct daemon *daemon, int root_fd, struct error *error)
{
	_cleanup_close_ int log_fd = -1;
	int r;

	daemon->program = daemon->pid = 0;
	daemon->ended = daemon->killed = false;
	change_state(daemon, DAEMON_STARTING);
	r = make_way(daemon, root_fd, error);
	if (r < 0)
		return r;
	log_fd = open_log(daemon, root_fd);
	return start_program(daemon, log_fd, error);
}

bool daemon_hear(struct daemon *daemon, pid_t pid, int status)
{
	if (pid != daemon->program && pid != daemon->pid)
		return false;
	daemon->status = status;
	daemon->ended = true;
	if (pid == daemon->program)
		daemon->program = 0;
	if (pid == daemon->pid)
		daemon->pid = 0;
	return true;
}

static bool is_settled(const struct daemon *daemon, int root_fd, uint64_t now_ms)
{
	if (daemon->socket && fs_exists(root_fd, daemon->socket))
		return true;
	if (!daemon->socket && daemon->forks)
		return true;
	return now_ms >= daemon->since_ms + daemon->settle_ms;
}

/* The program went to the background: what its pid file names has to be the daemon. */
static int check_forked(struct daemon *daemon, int root_fd, uint64_t now_ms, struct error *error)
{
	pid_t pid = read_pid(root_fd, daemon->pid_file);

	if (pid && is_child(pid)) {
		daemon->pid = pid;
		daemon->ended = false;
		return is_settled(daemon, root_fd, now_ms);
	}
	if (now_ms < daemon->since_ms + daemon->settle_ms)
		return 0;
	return error_set(error, -ESRCH, "%s went to the background, but /%s names no process of it",
		daemon->name, daemon->pid_file);
}

static int check_ended(struct daemon *daemon, int root_fd, uint64_t now_ms, struct error *error)
{
	char how[64];

	if (WIFEXITED(daemon->status) && WEXITSTATUS(daemon->status) == 0) {
		if (daemon->once)
			return 1;
		if (daemon->forks && !daemon->program)
			return check_forked(daemon, root_fd, now_ms, error);
	}
	daemon_explain(daemon, how);
	return error_set(error, -ECHILD, "%s ended while it started, with %s", daemon->name, how);
}

int daemon_check(struct daemon *daemon, int root_fd, uint64_t now_ms, struct error *error)
{
	int r = 0;

	if (daemon->pid && !daemon->once)
		r = is_settled(daemon, root_fd, now_ms);
	else if (daemon->ended)
		r = check_ended(daemon, root_fd, now_ms, error);
	if (r == 0 && now_ms >= daemon->since_ms + daemon->start_ms)
		return error_set(error, -ETIMEDOUT, "%s is not up after %u s", daemon->name,
			daemon->start_ms / 1000);
	return r;
}

uint64_t daemon_check_at(const struct daemon *daemon)
{
	bool settles = daemon->pid || (daemon->ended && daemon->forks);
	uint32_t wait_ms = settles && daemon->settle_ms < daemon->start_ms ? daemon->settle_ms
									   : daemon->start_ms;

	return daemon->since_ms + wait_ms;
}

void daemon_find(struct daemon *daemon, int root_fd)
{
	pid_t pid = daemon->pid ? 0 : read_pid(root_fd, daemon->pid_file);

	if (pid && is_child(pid))
		daemon->pid = pid;
}

void daemon_signal(const struct daemon *daemon, int signal)
{
	if (daemon->program)
		(void) kill(-daemon->program, signal);
	if (daemon->pid && daemon->pid != daemon->program)
		(void) kill(daemon->pid, signal);
}

void daemon_explain(const struct daemon *daemon, char text[64])
{
	if (WIFSIGNALED(daemon->status))
		(void) snprintf(text, 64, "signal %d (%s)", WTERMSIG(daemon->status),
			strsignal(WTERMSIG(daemon->status)));
	else
		(void) snprintf(text, 64, "exit code %d", WEXITSTATUS(daemon->status));
}

void daemon_last_words(const struct daemon *daemon, int root_fd, char text[256])
{
	_cleanup_close_ int fd = -1;
	char end[512];
	char path[128];
	ssize_t size = -1;
	off_t length;
	char *line;

	text[0] = '\0';
	log_path(daemon, path);
	fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
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

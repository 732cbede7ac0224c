/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/events.h"

#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"

/* Multicast group of the kernel's own uevents (1); udev's re-broadcasts go to group 2. */
#define UEVENT_GROUP_KERNEL 1

static int open_signals(void)
{
	/*
	 * Faults of our own must still kill us, with a core where the node keeps them: they are
	 * raised by the kernel at the instruction and a blocked one would loop or be lost.
	 */
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	sigset_t set;

	(void) sigfillset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		(void) sigdelset(&set, faults[i]);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int open_uevents(void)
{
	const struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = UEVENT_GROUP_KERNEL,
	};
	_cleanup_close_ int fd = socket(
		AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		return -1;
	return TAKE_FD(fd);
}

int events_open(struct events *events, struct error *error)
{
	*events = (struct events){
		.signal_fd = -1,
		.inotify_fd = -1,
		.uevent_fd = -1,
		.worker_fd = -1,
		.alarm_ms = EVENTS_NEVER,
	};
	events->signal_fd = open_signals();
	if (events->signal_fd < 0)
		return error_set_errno(error, -errno, "signalfd");
	events->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (events->inotify_fd < 0)
		return error_set_errno(error, -errno,
			"inotify (is fs.inotify.max_user_instances of the node used up?)");
	events->uevent_fd = open_uevents();
	return 0;
}

void events_close(struct events *events)
{
	cleanup_close(&events->signal_fd);
	cleanup_close(&events->inotify_fd);
	cleanup_close(&events->uevent_fd);
	events_forget_pids(events);
}

int events_watch_file(struct events *events, const char *path)
{
	const uint32_t mask = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE |
			      IN_ATTRIB | IN_ONLYDIR;
	_cleanup_free_ char *folder = strdup(path);
	char *slash;

	if (!folder)
		return -ENOMEM;
	while ((slash = strrchr(folder, '/'))) {
		*slash = '\0';
		if (inotify_add_watch(events->inotify_fd, *folder ? folder : "/", mask) >= 0)
			return 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	return -ENOENT;
}

void events_watch_pid(struct events *events, pid_t pid)
{
	int fd;

	if (events->pid_count == EVENTS_PIDS)
		return;
	fd = (int) syscall(SYS_pidfd_open, pid, 0);
	if (fd >= 0)
		events->pid_fds[events->pid_count++] = fd;
}

void events_forget_pids(struct events *events)
{
	while (events->pid_count)
		(void) close(events->pid_fds[--events->pid_count]);
}

/* SIGCHLDs merge: one signal may stand for many ended children. */
static void reap(struct events *events)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == events->worker_pid) {
			events->worker_pid = 0;
			events->worker_status = status;
		} else if (events->child_ended) {
			events->child_ended(events->child_context, pid, status);
		}
	}
}

static unsigned read_signals(struct events *events)
{
	struct signalfd_siginfo info;
	unsigned happened = 0;

	while (read(events->signal_fd, &info, sizeof(info)) == (ssize_t) sizeof(info)) {
		const int signal = (int) info.ssi_signo;

		/* Daemons get others from the supervisor, by its plan. */
		if (signal == SIGTERM || signal == SIGINT || signal == SIGQUIT) {
			if (events->stop_count++ == 0)
				events->stopped_ms = clock_monotonic_ms();
			happened |= EVENT_STOP;
		} else if (signal == SIGCHLD) {
			reap(events);
			happened |= EVENT_CHILD;
		}
	}
	return happened;
}

static unsigned read_uevents(const struct events *events)
{
	unsigned happened = 0;
	char message[4096];
	ssize_t size;

	while ((size = recv(events->uevent_fd, message, sizeof(message) - 1, 0)) >= 0) {
		const char *path;

		/* "add@/module/ib_core": up to the first NUL are the action and the device path. */
		message[size] = '\0';
		path = strchr(message, '@');
		if (path && strncmp(path, "@/module/", strlen("@/module/")) == 0)
			happened |= EVENT_KERNEL;
	}
	/* The queue ran over: what was lost may be what is waited for. */
	return errno == ENOBUFS ? EVENT_KERNEL : happened;
}

static unsigned read_inotify(const struct events *events)
{
	char buffer[4096];
	unsigned happened = 0;

	while (read(events->inotify_fd, buffer, sizeof(buffer)) > 0)
		happened |= EVENT_FILE;
	return happened;
}

static int timeout_until(uint64_t deadline_ms)
{
	uint64_t now_ms = clock_monotonic_ms();

	if (deadline_ms == EVENTS_NEVER)
		return -1;
	if (deadline_ms <= now_ms)
		return 0;
	return deadline_ms - now_ms > INT32_MAX ? INT32_MAX : (int) (deadline_ms - now_ms);
}

void events_alarm(struct events *events, uint64_t when_ms)
{
	if (when_ms < events->alarm_ms)
		events->alarm_ms = when_ms;
}

unsigned events_wait(struct events *events, uint64_t deadline_ms)
{
	uint64_t wake_ms = events->alarm_ms < deadline_ms ? events->alarm_ms : deadline_ms;
	struct pollfd fds[4 + EVENTS_PIDS] = {
		{ .fd = events->signal_fd, .events = POLLIN },
		{ .fd = events->inotify_fd, .events = POLLIN },
		/* A worker that loads is no news; they stay in the queue until it is done. */
		{ .fd = events->worker_fd < 0 ? events->uevent_fd : -1, .events = POLLIN },
		{ .fd = events->worker_fd, .events = POLLIN },
	};
	unsigned happened = 0;

	for (unsigned i = 0; i < events->pid_count; i++)
		fds[4 + i] = (struct pollfd){ .fd = events->pid_fds[i], .events = POLLIN };
	(void) poll(fds, 4 + events->pid_count, timeout_until(wake_ms));
	if (timeout_until(events->alarm_ms) == 0)
		events->alarm_ms = EVENTS_NEVER;
	/* A flood of events does not put a deadline off. */
	if (timeout_until(deadline_ms) == 0)
		happened |= EVENT_TIME;
	if (fds[0].revents)
		happened |= read_signals(events);
	if (fds[1].revents)
		happened |= read_inotify(events);
	if (fds[2].revents)
		happened |= read_uevents(events);
	if (fds[3].revents)
		happened |= EVENT_WORKER;
	for (unsigned i = events->pid_count; i-- > 0;) {
		if (!fds[4 + i].revents)
			continue;
		happened |= EVENT_PID;
		/* A pidfd stays readable for ever once its process ended. */
		(void) close(events->pid_fds[i]);
		events->pid_fds[i] = events->pid_fds[--events->pid_count];
	}
	events->pending |= happened & (EVENT_FILE | EVENT_KERNEL);
	return happened;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program that gets ready and stays, and prints in microseconds of CLOCK_MONOTONIC how long
 * it took to get ready and how long to go after SIGTERM, and its memory. It runs where its subject
 * runs and is the same for all subjects, so that what it costs itself cancels out of their ratios.
 * It polls nothing while it measures: inotify and a pidfd wake it.
 */
#include <fcntl.h>
#include <getopt.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"

static const char usage[] =
	"usage: stopwatch --ready FILE --text TEXT --log FILE [OPTION...] -- PROGRAM [ARG...]\n"
	"       stopwatch --module NAME --log FILE [OPTION...] -- PROGRAM [ARG...]\n"
	"  --ready FILE, --text TEXT  PROGRAM is ready when FILE begins with TEXT; a FILE of an\n"
	"                             earlier run is removed first\n"
	"  --module NAME              PROGRAM is ready when the kernel says that it added this\n"
	"                             module: since Linux 5.11 once the module's init has run\n"
	"  --log FILE                 where PROGRAM's output goes\n"
	"  --flag FILE, --after MS    make the empty FILE some time after the start; removed "
	"first\n"
	"  --settle MS                between ready and SIGTERM (500)\n"
	"  --sample MS                look at PROGRAM's peak memory that often while it stops: "
	"its\n"
	"                             stop then takes longer than it would\n"
	"  --kill                     end PROGRAM by SIGKILL instead, and measure no stop\n"
	"  --timeout SECONDS          for each half (120)\n"
	"Prints key=value lines. Exit status 1 when PROGRAM did not get ready, or did not end with "
	"0.\n";

struct options {
	const char *ready;
	const char *text;
	const char *module; /* instead of a file */
	const char *log;
	const char *flag;
	uint64_t after_us;
	uint64_t settle_us;
	uint64_t timeout_us;
	int sample_ms;
	bool kill;
	char **command;
};

struct subject {
	const struct options *options;
	pid_t pid;
	int pid_fd;
	int ready_fd; /* inotify, on the folder of the ready file; or the kernel's uevents */
	uint64_t start_us;
	uint64_t flag_us; /* 0: not made yet */
	uint64_t ready_us;
	unsigned long peak_kib;
};

static _Noreturn void die(const char *what)
{
	(void) fprintf(stderr, "stopwatch: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void print_number(const char *key, uint64_t value)
{
	(void) printf("%s=%llu\n", key, (unsigned long long) value);
}

/* One "Name:   123 kB" of /proc/<pid>/<file>; 0 when it is not there, as for a zombie. */
static unsigned long proc_kib(pid_t pid, const char *file, const char *field)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	const char *line;

	(void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
	if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return 0;
	line = strstr(text, field);
	return line ? strtoul(line + strlen(field), NULL, 10) : 0;
}

static void note_peak(struct subject *subject, unsigned long kib)
{
	if (kib > subject->peak_kib)
		subject->peak_kib = kib;
}

/*
 * VmHWM and VmRSS come from counters that a task brings up to date every 64 page faults only:
 * smaps_rollup, which walks the page tables, is exact, for what is resident at the moment.
 */
static void print_memory(struct subject *subject)
{
	unsigned long resident_kib = proc_kib(subject->pid, "smaps_rollup", "\nRss:");

	note_peak(subject, resident_kib);
	note_peak(subject, proc_kib(subject->pid, "status", "\nVmHWM:"));
	print_number("ready_resident_kib", resident_kib);
	print_number("ready_anonymous_kib", proc_kib(subject->pid, "smaps_rollup", "\nAnonymous:"));
}

static bool is_ready(const struct options *options)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, options->ready, 4096, &text, NULL) == 0 &&
	       strncmp(text, options->text, strlen(options->text)) == 0;
}

static int watch_folder_of(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (!slash || fd < 0)
		die(path);
	*slash = '\0';
	if (inotify_add_watch(fd, folder, IN_CREATE | IN_MOVED_TO | IN_MODIFY) < 0)
		die(folder);
	return fd;
}

/* Multicast group 1: the kernel's own (lib/kobject_uevent.c). */
static int watch_uevents(void)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(
		AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		die("uevents");
	return fd;
}

static bool module_came(int fd, const char *name)
{
	char wanted[128];
	char message[4096];
	ssize_t size;
	bool came = false;

	(void) snprintf(wanted, sizeof(wanted), "add@/module/%s", name);
	while ((size = recv(fd, message, sizeof(message) - 1, 0)) >= 0) {
		message[size] = '\0';
		came = came || strcmp(message, wanted) == 0;
	}
	return came;
}

static bool readiness_came(const struct subject *subject)
{
	char events[4096];

	if (subject->options->module)
		return module_came(subject->ready_fd, subject->options->module);
	return read(subject->ready_fd, events, sizeof(events)) > 0 && is_ready(subject->options);
}

static _Noreturn void run_command(const struct options *options)
{
	int fd = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		die(options->log);
	(void) execv(options->command[0], options->command);
	die(options->command[0]);
}

static void start(struct subject *subject)
{
	const struct options *options = subject->options;

	if (options->ready)
		(void) unlink(options->ready);
	if (options->flag)
		(void) unlink(options->flag);
	subject->ready_fd = options->module ? watch_uevents() : watch_folder_of(options->ready);
	subject->start_us = clock_monotonic_us();
	subject->pid = fork();
	if (subject->pid < 0)
		die("fork");
	if (subject->pid == 0)
		run_command(options);
	subject->pid_fd = (int) syscall(SYS_pidfd_open, subject->pid, 0);
	if (subject->pid_fd < 0)
		die("pidfd_open");
}

static void make_flag(struct subject *subject)
{
	int fd;

	subject->flag_us = clock_monotonic_us();
	fd = open(subject->options->flag, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		die(subject->options->flag);
	(void) close(fd);
}

/* Milliseconds until @then_us, rounded up so that the time is over after the wait. */
static int until_ms(uint64_t then_us)
{
	uint64_t now_us = clock_monotonic_us();

	return now_us >= then_us ? 0 : (int) ((then_us - now_us + 999) / 1000);
}

static void give_up(const struct subject *subject, const char *why)
{
	(void) fprintf(stderr, "stopwatch: %s %s\n", subject->options->command[0], why);
	(void) kill(subject->pid, SIGKILL);
	exit(1);
}

/* Waits for the ready file, making the flag when its time has come. */
static void wait_ready(struct subject *subject)
{
	const struct options *options = subject->options;
	uint64_t give_up_us = subject->start_us + options->timeout_us;
	struct pollfd fds[] = {
		{ .fd = subject->ready_fd, .events = POLLIN },
		{ .fd = subject->pid_fd, .events = POLLIN },
	};

	for (;;) {
		bool to_flag = options->flag && !subject->flag_us;
		uint64_t next_us = to_flag ? subject->start_us + options->after_us : give_up_us;
		int count = poll(fds, ARRAY_SIZE(fds), until_ms(next_us));

		subject->ready_us = clock_monotonic_us();
		if (count == 0 && to_flag)
			make_flag(subject);
		else if (count == 0)
			give_up(subject, "did not get ready in time");
		if (fds[1].revents)
			give_up(subject, "ended before it was ready");
		if (fds[0].revents && readiness_came(subject))
			return;
	}
}

static void wait_end(struct subject *subject)
{
	const struct options *options = subject->options;
	uint64_t give_up_us = clock_monotonic_us() + options->timeout_us;
	struct pollfd ended = { .fd = subject->pid_fd, .events = POLLIN };

	for (;;) {
		int left_ms = until_ms(give_up_us);
		bool sampling = options->sample_ms && options->sample_ms < left_ms;

		if (poll(&ended, 1, sampling ? options->sample_ms : left_ms) > 0)
			return;
		if (!sampling)
			give_up(subject, "did not end in time");
		note_peak(subject, proc_kib(subject->pid, "status", "\nVmHWM:"));
	}
}

/* Sends SIGTERM, waits for the end, prints the rest. Returns whether the subject ended with 0. */
static bool stop(struct subject *subject)
{
	uint64_t term_us = clock_monotonic_us();
	struct rusage usage_of_family;
	uint64_t gone_us;
	int status;

	if (kill(subject->pid, SIGTERM) < 0)
		die("kill");
	wait_end(subject);
	gone_us = clock_monotonic_us();
	if (wait4(subject->pid, &status, 0, &usage_of_family) < 0)
		die("wait4");
	print_number("stop_us", gone_us - term_us);
	print_number("peak_kib", subject->peak_kib);
	/* The largest of the subject and of all the processes that it started and waited for. */
	print_number("family_peak_kib", (uint64_t) usage_of_family.ru_maxrss);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	(void) fprintf(stderr, "stopwatch: %s ended with %s %d\n", subject->options->command[0],
		WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return false;
}

static bool kill_it(const struct subject *subject)
{
	int status;

	return kill(subject->pid, SIGKILL) == 0 && waitpid(subject->pid, &status, 0) > 0;
}

static bool measure(const struct options *options)
{
	struct subject subject = { .options = options };

	start(&subject);
	wait_ready(&subject);
	print_number("start_to_ready_us", subject.ready_us - subject.start_us);
	if (options->flag)
		print_number("flag_to_ready_us", subject.ready_us - subject.flag_us);
	(void) usleep((useconds_t) options->settle_us);
	print_memory(&subject);
	return options->kill ? kill_it(&subject) : stop(&subject);
}

static void parse_option(struct options *options, int letter)
{
	uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

	switch (letter) {
	case 'r':
		options->ready = optarg;
		break;
	case 't':
		options->text = optarg;
		break;
	case 'l':
		options->log = optarg;
		break;
	case 'f':
		options->flag = optarg;
		break;
	case 'a':
		options->after_us = number * 1000;
		break;
	case 's':
		options->settle_us = number * 1000;
		break;
	case 'm':
		options->sample_ms = (int) number;
		break;
	case 'o':
		options->module = optarg;
		break;
	case 'k':
		options->kill = true;
		break;
	default:
		options->timeout_us = number * 1000000;
		break;
	}
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "ready", required_argument, NULL, 'r' },
		{ "text", required_argument, NULL, 't' },
		{ "log", required_argument, NULL, 'l' },
		{ "flag", required_argument, NULL, 'f' },
		{ "after", required_argument, NULL, 'a' },
		{ "settle", required_argument, NULL, 's' },
		{ "sample", required_argument, NULL, 'm' },
		{ "module", required_argument, NULL, 'o' },
		{ "kill", no_argument, NULL, 'k' },
		{ "timeout", required_argument, NULL, 'x' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .settle_us = 500000, .timeout_us = 120000000 };
	int letter;

	while ((letter = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		if (letter == '?')
			return fputs(usage, stderr), 2;
		parse_option(&options, letter);
	}
	options.command = argv + optind;
	if (!options.module == !(options.ready && options.text) || !options.log || optind == argc)
		return fputs(usage, stderr), 2;
	return measure(&options) ? 0 : 1;
}

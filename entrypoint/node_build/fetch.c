/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/fetch.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/node_build/host_package.h"

#define TOOL      "/" FETCH_TOOL
#define PROGRAM   TOOL "/slipway"
#define LOADER    TOOL "/lib/loader"
#define AUTHORITY "/etc/ssl/certs/ca-certificates.crt"

/* How the tool begins the line that says why it failed, and how it ends for want of room: see
 * docs/exit-codes.md. */
#define FAILURE        "slipway resolve: "
#define EXIT_DISK_FULL 17

/* ---- what it is */

int fetch_tool_read(int root_fd, struct fetch_tool *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, FETCH_TOOL "/tool.conf", 65536, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, TOOL "/tool.conf");
	conf_value(text, "os", ret->os, sizeof(ret->os));
	conf_value(text, "id", ret->id, sizeof(ret->id));
	conf_value(text, "version_id", ret->version_id, sizeof(ret->version_id));
	conf_value(text, "keyring", ret->keyring, sizeof(ret->keyring));
	return *ret->os ? 0 : error_set(error, -EINVAL, TOOL "/tool.conf names no os");
}

bool fetch_tool_fits(const struct fetch_tool *tool, int host_fd)
{
	size_t length = strlen(tool->version_id);
	char id[64], version_id[64];

	host_release(host_fd, id, version_id);
	if (!*id)
		return true;
	/* RHEL's has a minor version after a dot, which the catalogue has not. */
	return strcmp(id, tool->id) == 0 && strncmp(version_id, tool->version_id, length) == 0 &&
	       (!version_id[length] || version_id[length] == '.');
}

/* ---- how it is run */

static int list_arguments(
	const struct fetch_tool *tool, const char *krel, const char *folder, struct strv *argv)
{
	static const char libraries[] = TOOL "/lib", program[] = PROGRAM;
	const char *const words[] = { "slipway", "--library-path", libraries, program, "resolve",
		"--kernel", krel, "--os", tool->os, "--tree" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = strv_push(argv, words[i]);
	if (r == 0)
		r = strv_pushf(argv, "%s/output", folder);
	if (r == 0 && *tool->keyring)
		r = strv_pushf(argv, "--keyring=%s", tool->keyring);
	return r;
}

/* Clusters name their proxies in capitals, too, and libcurl reads those not of all. */
static int list_proxies(struct strv *environment)
{
	static const char *const names[][2] = { { "http_proxy", "HTTP_PROXY" },
		{ "https_proxy", "HTTPS_PROXY" }, { "no_proxy", "NO_PROXY" } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		const char *value = getenv(names[i][0]);

		if (!value || !*value)
			value = getenv(names[i][1]);
		if (value && *value)
			r = strv_pushf(environment, "%s=%s", names[i][0], value);
	}
	return r;
}

/* Whom to believe: what the pod says, else the image's own; libcurl's is another machine's. */
static int list_authorities(struct strv *environment)
{
	static const char *const names[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR" };
	bool chosen = false;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		chosen = true;
		r = strv_pushf(environment, "%s=%s", names[i], value);
	}
	if (r == 0 && !chosen && fs_exists(AT_FDCWD, AUTHORITY))
		r = strv_push(environment, "SSL_CERT_FILE=" AUTHORITY);
	return r;
}

static int list_environment(const char *folder, struct strv *environment)
{
	static const char *const fixed[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"SLIPWAY_DATADIR=" TOOL "/data", "SLIPWAY_MIRRORS=" TOOL "/mirrors.ini" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fixed) && r == 0; i++)
		r = strv_push(environment, fixed[i]);
	if (r == 0)
		r = strv_pushf(environment, "HOME=%s/work", folder);
	if (r == 0)
		r = strv_pushf(environment, "SLIPWAY_CACHE=%s/work/cache", folder);
	if (r == 0)
		r = list_proxies(environment);
	return r < 0 ? r : list_authorities(environment);
}

int fetch_command(const struct fetch_tool *tool, const char *krel, const char *folder,
	struct strv *argv, struct strv *environment)
{
	int r = list_arguments(tool, krel, folder, argv);

	return r < 0 ? r : list_environment(folder, environment);
}

/* ---- the child */

/*
 * It reads what came over a network: of root's rights it keeps those that unpacking takes. What
 * cannot be dropped is not there in the first place.
 */
static void drop_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	for (int right = 0; prctl(PR_CAPBSET_READ, right, 0, 0, 0) >= 0; right++)
		if (right != CAP_CHOWN && right != CAP_DAC_OVERRIDE && right != CAP_FOWNER)
			(void) prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
	if (syscall(SYS_capget, &header, data) == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(data); i++)
			data[i].inheritable = 0;
		(void) syscall(SYS_capset, &header, data);
	}
	(void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Process 1 of its name space: what it starts, gpgv, ends with it. */
static _Noreturn void fetch_child(
	char *const *argv, char *const *environment, int answer_fd, int told_fd)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(answer_fd, STDOUT_FILENO) < 0 ||
		dup2(told_fd, STDERR_FILENO) < 0)
		_exit(125);
	drop_rights();
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) execve(LOADER, argv, environment);
	(void) fprintf(stderr, FAILURE LOADER ": %s\n", strerror(errno));
	_exit(125);
}

/* Its pid, and where what it tells can be read; its answer is for @answer_fd. */
static int start(
	const struct strv *argv, const struct strv *environment, int answer_fd, int *ret_fd)
{
	int ends[2];
	pid_t pid;
	int r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	/* As nodebuild/workshop.c does it: the child is in a new name space, and we are not. */
	pid = (pid_t) syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		fetch_child(argv->items, environment->items, answer_fd, ends[1]);
	r = pid < 0 ? -errno : pid;
	(void) close(ends[1]);
	if (r < 0)
		(void) close(ends[0]);
	else
		*ret_fd = ends[0];
	return r;
}

/* ---- what it says */

struct hearing {
	struct worker *worker;
	int log_fd;
	char line[2048];
	size_t length;
	struct error reason; /* why it failed, in its own words */
	struct error last;   /* its last line otherwise: a loader's, say, that finds no library */
};

/* What stands in columns, as a sentence has it. */
static void squeeze(char *line)
{
	char *to = line;

	for (const char *from = line; *from; from++)
		if (*from != ' ' || from[1] != ' ')
			*to++ = *from;
	*to = '\0';
}

static void hear_line(struct hearing *hearing)
{
	char *line = hearing->line;

	squeeze(line);
	if (strncmp(line, FAILURE, strlen(FAILURE)) == 0)
		(void) error_set(&hearing->reason, 0, "%s", line + strlen(FAILURE));
	else if (*line) {
		(void) error_set(&hearing->last, 0, "%s", line);
		worker_report(hearing->worker, WORKER_NOTE, 0, "slipway: %s", line);
	}
}

static void hear_byte(struct hearing *hearing, char byte)
{
	if (byte != '\n' && hearing->length < sizeof(hearing->line) - 1) {
		hearing->line[hearing->length++] = byte;
		return;
	}
	if (byte != '\n')
		return;
	hearing->line[hearing->length] = '\0';
	hear_line(hearing);
	hearing->length = 0;
}

/* To the end of what it tells: then it has ended. */
static int hear_all(struct hearing *hearing, int fd)
{
	uint64_t until_ms = clock_monotonic_ms() + FETCH_DEADLINE_MS;
	char buffer[4096];

	for (;;) {
		struct pollfd output = { .fd = fd, .events = POLLIN };
		uint64_t now_ms = clock_monotonic_ms();
		ssize_t size;

		if (now_ms >= until_ms)
			return -ETIMEDOUT;
		if (poll(&output, 1, (int) (until_ms - now_ms)) <= 0)
			continue;
		size = read(fd, buffer, sizeof(buffer));
		if (size <= 0)
			return size < 0 ? -errno : 0;
		(void) !write(hearing->log_fd, buffer, (size_t) size);
		for (ssize_t i = 0; i < size; i++)
			hear_byte(hearing, buffer[i]);
	}
}

static int ended_badly(const struct hearing *hearing, int status, struct error *error)
{
	if (WIFSIGNALED(status))
		return error_set(error, -EIO, PROGRAM " was ended by signal %d (%s)%s",
			WTERMSIG(status), strsignal(WTERMSIG(status)),
			WTERMSIG(status) == SIGKILL ? ": has the container enough memory?" : "");
	if (WEXITSTATUS(status) == EXIT_DISK_FULL)
		return error_set(error, -ENOSPC, "%.400s", hearing->reason.text);
	if (*hearing->reason.text)
		return error_set(error, -EIO, "%.500s", hearing->reason.text);
	return error_set(error, -EIO, PROGRAM " ended with exit status %d: %.300s",
		WEXITSTATUS(status),
		*hearing->last.text ? hearing->last.text : "it did not say why");
}

static int outcome(const struct hearing *hearing, int heard, int status, struct error *error)
{
	if (heard == -ETIMEDOUT)
		return error_set(error, heard, "no end after %d s: ended. Are its mirrors slow?",
			(int) (FETCH_DEADLINE_MS / 1000));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return ended_badly(hearing, status, error);
}

int fetch_headers(const struct fetch_tool *tool, const char *krel, const char *folder, int log_fd,
	struct worker *worker, struct error *error)
{
	struct hearing hearing = { .worker = worker, .log_fd = log_fd };
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_close_ int fd = -1;
	int status;
	int heard;
	int pid;
	int r = fetch_command(tool, krel, folder, &argv, &environment);

	pid = r < 0 ? r : start(&argv, &environment, log_fd, &fd);
	if (pid < 0)
		return error_set_errno(error, pid, PROGRAM);
	heard = hear_all(&hearing, fd);
	if (heard < 0)
		(void) kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, PROGRAM);
	return outcome(&hearing, heard, status, error);
}

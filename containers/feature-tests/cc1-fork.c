/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the compiler by feature-tests.c: where its input includes $FEATURE_TESTS_STOP, the
 * compiler stops, and for each request on the socket $FEATURE_TESTS_FD a copy of it goes on with
 * another file in that place. So all feature tests that begin with the same headers cost reading
 * those headers once, and each is compiled by the real compiler in the very state in which it would
 * have been after them.
 *
 * In: four strings, each with its NUL: the file to go on with, where the assembly goes, where the
 * messages go, and where the copy stops in its turn: "" for never. One that does comes with a
 * socket of its own. The end of the socket is the end of the compiler. Out: a byte when it has
 * stopped; one with the exit status of each copy that does not stop (255: it crashed).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int open_function(const char *path, int flags, ...);

/* Where it stops, and who is told; NULL and -1 in a copy that does not stop. */
static const char *stop;
static int server = -1;

/* The text written so far belongs to each copy's file. */
static void move_output(int fd, const char *path)
{
	char buffer[8192];
	off_t length = lseek(fd, 0, SEEK_CUR);
	off_t done = 0;
	int before = dup(fd);
	int after = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (length < 0 || before < 0 || after < 0)
		_exit(255);
	while (done < length) {
		size_t left = (size_t) (length - done);
		ssize_t n =
			pread(before, buffer, left < sizeof(buffer) ? left : sizeof(buffer), done);

		if (n <= 0 || write(after, buffer, (size_t) n) != n)
			_exit(255);
		done += n;
	}
	if (dup2(after, fd) < 0)
		_exit(255);
	close(before);
	close(after);
}

static ssize_t receive(char *request, size_t size, int *ret_fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec data = { .iov_base = request, .iov_len = size - 1 };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(server, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*ret_fd = -1;
	if (header)
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	if (n > 0)
		request[n] = '\0';
	return n;
}

/* Returns in the copies only: the file to go on with. */
static int serve(int flags, open_function *real_open)
{
	static char request[4 * 4096];

	if (send(server, "", 1, MSG_NOSIGNAL) != 1)
		_exit(255);
	for (;;) {
		int fd;
		ssize_t n = receive(request, sizeof(request), &fd);
		const char *output = request + strlen(request) + 1;
		const char *messages = output + strlen(output) + 1;
		const char *next = messages + strlen(messages) + 1;
		unsigned char answer = 255;
		int status;
		pid_t pid;

		if (n <= 0)
			_exit(0);
		pid = fork();
		if (pid == 0) {
			close(server);
			server = fd;
			stop = *next ? strdup(next) : NULL;
			move_output(STDOUT_FILENO, output);
			move_output(STDERR_FILENO, messages);
			return real_open(request, flags);
		}
		if (fd >= 0) {
			close(fd);
			continue;
		}
		if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
			answer = (unsigned char) WEXITSTATUS(status);
		if (send(server, &answer, 1, MSG_NOSIGNAL) != 1)
			_exit(255);
	}
}

__attribute__((constructor)) static void begin(void)
{
	const char *fd = getenv("FEATURE_TESTS_FD");

	stop = getenv("FEATURE_TESTS_STOP");
	server = fd ? atoi(fd) : -1;
}

static int open_or_serve(const char *name, const char *path, int flags, mode_t mode)
{
	open_function *real_open = (open_function *) dlsym(RTLD_NEXT, name);

	if (stop && strcmp(path, stop) == 0)
		return serve(flags, real_open);
	return real_open(path, flags, mode);
}

/* The compiler may have been built with either. */
#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list arguments;                                                                 \
                                                                                                   \
		if (flags & (O_CREAT | O_TMPFILE)) {                                               \
			va_start(arguments, flags);                                                \
			mode = va_arg(arguments, mode_t);                                          \
			va_end(arguments);                                                         \
		}                                                                                  \
		return open_or_serve(#name, path, flags, mode);                                    \
	}

OPEN(open)
OPEN(open64)

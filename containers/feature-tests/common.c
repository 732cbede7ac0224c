/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

void fail(const char *format, ...)
{
	va_list arguments;

	(void) fputs("feature-tests: ", stderr);
	va_start(arguments, format);
	(void) vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void) fputc('\n', stderr);
	exit(1);
}

char *text_of(const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	int n;

	va_start(arguments, format);
	n = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (n < 0 || !text)
		fail("no memory");
	return text;
}

char *copy_of(const char *text)
{
	return text_of("%s", text);
}

void *allocate(size_t count, size_t size)
{
	void *p = calloc(count + 1, size);

	if (!p)
		fail("no memory");
	return p;
}

char *read_file(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	size_t size = 0;
	ssize_t n = 0;
	char *text;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) < 0) {
		close(fd);
		return NULL;
	}
	text = allocate((size_t) status.st_size, 1);
	while (size < (size_t) status.st_size &&
		(n = read(fd, text + size, (size_t) status.st_size - size)) > 0)
		size += (size_t) n;
	close(fd);
	if (n < 0) {
		free(text);
		return NULL;
	}
	if (ret_size)
		*ret_size = size;
	return text;
}

bool write_fd(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, text, size);

		if (n < 0)
			return false;
		text += n;
		size -= (size_t) n;
	}
	return true;
}

bool write_file(const char *path, const char *text, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool written = fd >= 0 && write_fd(fd, text, size);

	return fd >= 0 && close(fd) == 0 && written;
}

int run(char **argv, const char *cwd, char **environment, const char *messages)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return 255;
	if (pid == 0) {
		if (messages) {
			int fd = open(messages, O_WRONLY | O_CREAT | O_APPEND, 0644);

			if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
				_exit(255);
			close(fd);
		}
		if (cwd && chdir(cwd) < 0)
			_exit(255);
		environ = environment;
		(void) execvp(argv[0], argv);
		_exit(255);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 255;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

bool has_content(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && status.st_size > 0;
}

void forget_server(void)
{
	const char *path = getenv(ENV_PATH);

	if (path)
		(void) setenv("PATH", path, 1);
	(void) unsetenv(ENV_FOLDER);
	(void) unsetenv(ENV_PATH);
	(void) unsetenv(ENV_CAPTURE);
}

uint64_t hash_text(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char) *text) * 0x100000001b3;
	while (*text++);
	return hash;
}

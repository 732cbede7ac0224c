/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "entrypoint/engine/spawn.h"

struct question {
	void (*ask)(int root_fd, void *answer);
	int root_fd;
	void *answer; /* shared with the child */
};

static void answer_question(void *context)
{
	const struct question *question = context;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* If it hangs, the reader of our output would wait for its end. */
	for (int i = 0; fd >= 0 && i <= STDERR_FILENO; i++)
		(void) dup2(fd, i);
	question->ask(question->root_fd, question->answer);
}

/* The pipe closes with the child. */
static int wait_for_child(pid_t pid, int pipe_fd, int timeout_ms)
{
	struct pollfd end = { .fd = pipe_fd };

	if (poll(&end, 1, timeout_ms) > 0)
		return spawn_wait(pid) == 0 ? 0 : -EPIPE;
	(void) kill(pid, SIGKILL);
	(void) waitpid(pid, NULL, WNOHANG);
	return -ETIMEDOUT;
}

int ask_in_child(void (*ask)(int root_fd, void *answer), int root_fd, void *answer, size_t size,
	int timeout_ms)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct question question = { ask, root_fd, shared };
	const struct spawn child = { .run = answer_question, .context = &question };
	_cleanup_close_ int read_fd = -1;
	int ends[2];
	pid_t pid;
	int r;

	if (shared == MAP_FAILED)
		return -errno;
	memcpy(shared, answer, size);
	(void) fflush(NULL);
	r = pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0) {
		read_fd = ends[0];
		r = spawn_start(&child, &pid);
		(void) close(ends[1]);
	}
	if (r == 0)
		r = wait_for_child(pid, read_fd, timeout_ms);
	memcpy(answer, shared, size);
	(void) munmap(shared, size);
	return r;
}

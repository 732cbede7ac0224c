/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void answer_one(int fd, const char *answer, FILE *log)
{
	char request[4096] = "";
	size_t size = 0;

	while (size + 1 < sizeof(request) && !strstr(request, "\r\n\r\n")) {
		ssize_t got = read(fd, request + size, sizeof(request) - 1 - size);

		if (got <= 0)
			break;
		size += (size_t) got;
		request[size] = '\0';
	}
	(void) fprintf(log, "%s", request);
	(void) fflush(log);
	for (size_t left = strlen(answer); left;) {
		ssize_t put = write(fd, answer, left);

		if (put <= 0)
			break;
		answer += put;
		left -= (size_t) put;
	}
}

static void serve(int listener, const char *const *answers, const char *log_path)
{
	FILE *log = fopen(log_path, "we");

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void) signal(SIGPIPE, SIG_IGN);
	for (; log && *answers; answers++) {
		int fd = accept(listener, NULL, NULL);

		/* An answer of nothing is a server that says nothing. */
		answer_one(fd, *answers, log);
		if (**answers)
			(void) close(fd);
	}
	for (;;)
		(void) pause();
}

void server_start(const struct folder *folder, const char *const *answers, struct server *ret)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char log[96];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *) &address, &size), 0);
	(void) snprintf(log, sizeof(log), "%s/log", folder->path);
	(void) snprintf(
		ret->url, sizeof(ret->url), "http://127.0.0.1:%u/file", ntohs(address.sin_port));
	ret->pid = fork();
	if (ret->pid == 0)
		serve(listener, answers, log);
	(void) close(listener);
}

void server_stop(struct server *server)
{
	(void) kill(server->pid, SIGKILL);
	(void) waitpid(server->pid, NULL, 0);
}

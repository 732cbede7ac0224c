/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure N COMMAND…: runs the command N times, its output thrown away, and prints one JSON object:
 * wall times in microseconds and the highest peak of memory of it and of what it ran, in KiB. Its
 * stderr is ours. Ends with 1 as soon as the command fails.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

static void child(char **argv)
{
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null_fd >= 0)
		(void) dup2(null_fd, STDOUT_FILENO);
	(void) execvp(argv[0], argv);
	perror(argv[0]);
	_exit(127);
}

/* Returns the time that it took, or 0 when it failed. */
static uint64_t run(char **argv, long *peak_kib)
{
	uint64_t start = clock_monotonic_us();
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		child(argv);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		return 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return 0;
	if (usage.ru_maxrss > *peak_kib)
		*peak_kib = usage.ru_maxrss;
	return clock_monotonic_us() - start;
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	long peak_kib = 0;

	if (count < 1) {
		fprintf(stderr, "usage: measure N COMMAND…\n");
		return 2;
	}
	printf("{\"us\":[");
	for (long i = 0; i < count; i++) {
		uint64_t us = run(argv + 2, &peak_kib);

		if (us == 0) {
			fprintf(stderr, "measure: %s failed\n", argv[2]);
			return 1;
		}
		printf("%s%" PRIu64, i ? "," : "", us);
	}
	printf("],\"peak_kib\":%ld}\n", peak_kib);
	return 0;
}

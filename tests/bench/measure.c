/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure [--evict FOLDER] N COMMAND…: runs the command N times, its output thrown away, and prints
 * one JSON object: wall and processor times in microseconds and the highest peak of memory of it
 * and of what it ran, in KiB. Its stderr is ours. Ends with 1 as soon as the command fails. With
 * --evict, what the page cache has of the files below FOLDER is dropped before each run; names and
 * inodes stay.
 */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static uint64_t processor_us(const struct rusage *usage)
{
	return (uint64_t) (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
	       (uint64_t) (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

struct result {
	uint64_t wall_us;
	uint64_t processor_us;
	long peak_kib;
};

static int run(char **argv, struct result *ret)
{
	uint64_t start = clock_monotonic_us();
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		child(argv);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		return -1;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -1;
	ret->wall_us = clock_monotonic_us() - start;
	ret->processor_us = processor_us(&usage);
	ret->peak_kib = usage.ru_maxrss;
	return 0;
}

static int evict(const char *path, const struct stat *status, int type, struct FTW *where)
{
	int fd;

	(void) where;
	if (type != FTW_F || !S_ISREG(status->st_mode))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	(void) close(fd);
	return 0;
}

static int measure(const char *evicted, long count, char **argv, struct result *results)
{
	for (long i = 0; i < count; i++) {
		if (evicted && nftw(evicted, evict, 16, FTW_PHYS) != 0) {
			perror(evicted);
			return -1;
		}
		if (run(argv, &results[i]) < 0) {
			fprintf(stderr, "measure: %s failed\n", argv[0]);
			return -1;
		}
	}
	return 0;
}

static void print(const struct result *results, long count)
{
	long peak_kib = 0;

	printf("{\"us\":[");
	for (long i = 0; i < count; i++)
		printf("%s%" PRIu64, i ? "," : "", results[i].wall_us);
	printf("],\"cpu_us\":[");
	for (long i = 0; i < count; i++) {
		printf("%s%" PRIu64, i ? "," : "", results[i].processor_us);
		if (results[i].peak_kib > peak_kib)
			peak_kib = results[i].peak_kib;
	}
	printf("],\"peak_kib\":%ld}\n", peak_kib);
}

int main(int argc, char **argv)
{
	const char *evicted = NULL;
	struct result *results;
	long count;
	int r;

	if (argc > 3 && strcmp(argv[1], "--evict") == 0) {
		evicted = argv[2];
		argc -= 2;
		argv += 2;
	}
	count = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	results = count > 0 ? calloc((size_t) count, sizeof(*results)) : NULL;
	if (!results) {
		fprintf(stderr, "usage: measure [--evict FOLDER] N COMMAND…\n");
		return 2;
	}
	r = measure(evicted, count, argv + 2, results);
	if (r == 0)
		print(results, count);
	free(results);
	return r == 0 ? 0 : 1;
}

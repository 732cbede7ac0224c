/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/limits.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define UNLIMITED UINT64_MAX

/* One version of control groups: where a controller lies and what its files are called. */
struct hierarchy {
	const char *folder;
	const char *controller; /* "" for version 2 */
	const char *limit, *usage, *cache;
	const char *quota, *period; /* version 2 has both in one file */
	const char *events;
};

static const struct hierarchy hierarchies[] = {
	{ "sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file", "cpu.max", NULL,
		"memory.events" },
	{ "sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		"total_inactive_file", NULL, NULL, "memory.oom_control" },
	{ "sys/fs/cgroup/cpu", "cpu", NULL, NULL, NULL, "cpu.cfs_quota_us", "cpu.cfs_period_us",
		NULL },
};

/* The number that follows @key at the beginning of a line, or the file's first; else @otherwise. */
static uint64_t read_number(
	int root_fd, const char *group, const char *file, const char *key, uint64_t otherwise)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", group, file);
	_cleanup_free_ char *text = NULL;
	size_t length = key ? strlen(key) : 0;

	if (fs_read(root_fd, path, 0, &text, NULL) < 0)
		return otherwise;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		unsigned long long number;
		char *end;

		if (key && (strncmp(line, key, length) != 0 || line[length] != ' '))
			continue;
		number = strtoull(line + length, &end, 10);
		return end == line + length || line[length] == '-' ? otherwise : number;
	}
	return otherwise;
}

/* UNLIMITED for "max", for -1, for what is not there, and for version 1's huge number. */
static uint64_t read_limit(int root_fd, const char *group, const char *file)
{
	uint64_t number = read_number(root_fd, group, file, NULL, UNLIMITED);

	return number >= (UINT64_C(1) << 60) ? UNLIMITED : number;
}

/* The tightest limits so far, and their sources. */
struct binding {
	uint64_t memory; /* that is left */
	unsigned processors;
	uint64_t killed; /* for want of memory */
	char memory_of[96];
	char processors_of[96];
};

static void take_memory(
	struct binding *binding, int root_fd, const struct hierarchy *hierarchy, const char *group)
{
	uint64_t limit = read_limit(root_fd, group, hierarchy->limit);
	uint64_t usage = read_number(root_fd, group, hierarchy->usage, NULL, 0);
	uint64_t cache = read_number(root_fd, group, "memory.stat", hierarchy->cache, 0);
	uint64_t killed = read_number(root_fd, group, hierarchy->events, "oom_kill", 0);
	uint64_t left;

	if (killed > binding->killed)
		binding->killed = killed;
	usage -= cache < usage ? cache : usage;
	left = limit > usage ? limit - usage : 0;
	if (limit == UNLIMITED || left >= binding->memory)
		return;
	binding->memory = left;
	(void) snprintf(binding->memory_of, sizeof(binding->memory_of), "%s of %llu MiB",
		hierarchy->limit, (unsigned long long) (limit >> 20));
}

static void take_processors(
	struct binding *binding, int root_fd, const struct hierarchy *hierarchy, const char *group)
{
	uint64_t quota = read_limit(root_fd, group, hierarchy->quota);
	_cleanup_free_ char *path = xasprintf("%s/%s", group, hierarchy->quota);
	_cleanup_free_ char *text = NULL;
	uint64_t period = 0;
	unsigned allowed;

	if (hierarchy->period)
		period = read_limit(root_fd, group, hierarchy->period);
	else if (fs_read_line(root_fd, path, &text) == 0 && strchr(text, ' '))
		period = strtoull(strchr(text, ' '), NULL, 10);
	if (quota == UNLIMITED || period == 0 || period == UNLIMITED)
		return;
	allowed = (unsigned) ((quota + period - 1) / period);
	if (allowed < 1)
		allowed = 1;
	if (allowed >= binding->processors)
		return;
	binding->processors = allowed;
	(void) snprintf(binding->processors_of, sizeof(binding->processors_of), "%s allows %.1f",
		hierarchy->quota, (double) quota / (double) period);
}

/* The cgroup's path in "4:memory:/kubepods/…" or "0::/kubepods/…"; NULL when there is none. */
static char *own_group(const struct strv *lines, const char *controller)
{
	for (size_t i = 0; i < lines->count; i++) {
		const char *list = strchr(lines->items[i], ':');
		const char *end = list ? strchr(list + 1, ':') : NULL;
		_cleanup_free_ char *text =
			end ? xstrndup(list + 1, (size_t) (end - list - 1)) : NULL;
		_cleanup_strv_ struct strv controllers = { 0 };

		if (!text)
			continue;
		xstrv_split(&controllers, text, ",");
		if (*controller ? strv_contains(&controllers, controller) : !*text)
			return xstrdup(end + 1);
	}
	return NULL;
}

/*
 * Ours and all above it. A container usually sees its own cgroup as the top; one with the node's
 * cgroup name space sees the node's, and a path that leads to its own.
 */
static void read_groups(struct binding *binding, int root_fd)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, "proc/self/cgroup", 0, &text, NULL) < 0)
		return;
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		const struct hierarchy *hierarchy = &hierarchies[i];
		_cleanup_free_ char *path = own_group(&lines, hierarchy->controller);

		while (path && *path) {
			_cleanup_free_ char *group = xasprintf("%s%s", hierarchy->folder, path);
			char *slash = strrchr(path, '/');

			if (hierarchy->limit)
				take_memory(binding, root_fd, hierarchy, group);
			if (hierarchy->quota)
				take_processors(binding, root_fd, hierarchy, group);
			if (!slash || strcmp(path, "/") == 0)
				break;
			slash[slash == path ? 1 : 0] = '\0';
		}
	}
}

static unsigned usable_processors(void)
{
	cpu_set_t usable;

	return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? (unsigned) CPU_COUNT(&usable)
								  : 1;
}

void build_limits_find(int root_fd, unsigned processors, unsigned most, struct build_limits *ret)
{
	struct binding binding = { .memory = UNLIMITED };
	char memory[160] = "memory not known";
	uint64_t available, jobs;
	bool scarce;

	if (processors == 0)
		processors = usable_processors();
	binding.processors = processors;
	read_groups(&binding, root_fd);
	available = read_number(root_fd, "proc", "meminfo", "MemAvailable:", 0) << 10;
	if (available && available < binding.memory) {
		binding.memory = available;
		(void) snprintf(binding.memory_of, sizeof(binding.memory_of), "the machine's own");
	}
	scarce = binding.memory < BUILD_BASE_MEMORY + BUILD_JOB_MEMORY;
	jobs = scarce ? 1 : (binding.memory - BUILD_BASE_MEMORY) / BUILD_JOB_MEMORY;
	if (jobs > binding.processors)
		jobs = binding.processors;
	if (most && jobs > most)
		jobs = most;
	if (binding.memory != UNLIMITED)
		(void) snprintf(memory, sizeof(memory), "%llu MiB left (%s)%s",
			(unsigned long long) (binding.memory >> 20), binding.memory_of,
			scarce ? ", perhaps too little for even one" : "");
	*ret = (struct build_limits){
		.jobs = (unsigned) jobs,
		.processors = processors,
		.memory = binding.memory,
		.killed = binding.killed,
	};
	(void) snprintf(ret->why, sizeof(ret->why), "%u processors%s%s, %s%s", processors,
		*binding.processors_of ? ", " : "", binding.processors_of, memory,
		most && jobs == most ? ", as requested" : "");
}

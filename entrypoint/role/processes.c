/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/processes.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"

#define GENERATIONS_MAX 32

#define TCP_LISTEN 0x0a /* Linux include/net/tcp_states.h */

DIR *processes_open(int root_fd)
{
	int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		cleanup_close(&fd);
	return dir;
}

int processes_next(DIR *dir, pid_t *ret_pid)
{
	const struct dirent *entry;

	while ((entry = readdir(dir))) {
		int fd;

		if (!isdigit((unsigned char) entry->d_name[0]))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue; /* it has ended */
		*ret_pid = (pid_t) strtol(entry->d_name, NULL, 10);
		return fd;
	}
	return -1;
}

bool process_opens(int process_fd, process_link_function *is_it, void *context)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		cleanup_close(&fd);
		return false;
	}
	while ((entry = readdir(dir))) {
		char target[PATH_MAX];
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		if (is_it(context, target))
			return true;
	}
	return false;
}

/* Its name; false when it has ended meanwhile. */
static bool read_process(int process_fd, pid_t pid, struct process_seen *ret)
{
	_cleanup_free_ char *command = NULL;

	if (fs_read_line(process_fd, "comm", &command) < 0)
		return false;
	*ret = (struct process_seen){ .pid = pid };
	(void) snprintf(ret->command, sizeof(ret->command), "%s", command);
	return true;
}

size_t processes_of_program(
	int root_fd, const char *name, struct process_seen *seen, size_t capacity)
{
	_cleanup_closedir_ DIR *dir = processes_open(root_fd);
	struct process_seen one;
	size_t count = 0;
	pid_t pid;
	int fd;

	while (dir && count < capacity && (fd = processes_next(dir, &pid)) >= 0) {
		if (read_process(fd, pid, &one) &&
			strncmp(one.command, name, sizeof(one.command) - 1) == 0) {
			one.in_pod = pod_of_process(root_fd, pid, &one.pod);
			seen[count++] = one;
		}
		cleanup_close(&fd);
	}
	return count;
}

/* "501 (a name) S 1 …": the name may hold anything, blanks and parentheses too (proc(5)). */
static pid_t parent_of(int root_fd, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	const char *end;
	char path[64];
	int parent;

	(void) snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
	if (fs_read(root_fd, path, 0, &text, NULL) < 0)
		return 0;
	end = strrchr(text, ')');
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool process_descends(int root_fd, pid_t pid, pid_t ancestor)
{
	/* The processes are not read at one moment: a chain may not end. */
	for (unsigned i = 0; i < GENERATIONS_MAX && pid > 0; i++) {
		pid = parent_of(root_fd, pid);
		if (pid > 0 && pid == ancestor)
			return true;
	}
	return false;
}

/*
 * "   0: 00000000:C350 00000000:0000 0A …  0        0 5167 1 …": local address, remote address,
 * state, queues, timer, retransmits, uid, timeout, inode (Linux
 * Documentation/networking/proc_net_tcp.rst).
 */
static bool parse_listener(const char *line, unsigned port, unsigned long *ret_inode)
{
	unsigned local, state;

	if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu",
		    &local, &state, ret_inode) != 3)
		return false;
	return local == port && state == TCP_LISTEN;
}

/* 1: found, 0: not there, -1: no such table. */
static int find_listener(int root_fd, const char *table, unsigned port, unsigned long *ret_inode)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, table, 0, &text, NULL) < 0)
		return -1;
	for (const char *line = text; *line; line += *line == '\n') {
		if (parse_listener(line, port, ret_inode))
			return 1;
		line += strcspn(line, "\n");
	}
	return 0;
}

static bool is_wanted(void *context, char *target)
{
	return strcmp(target, context) == 0;
}

static void find_owner(int root_fd, unsigned long inode, struct process_seen *ret_owner)
{
	_cleanup_closedir_ DIR *dir = processes_open(root_fd);
	bool found = false;
	char wanted[64];
	pid_t pid;
	int fd;

	(void) snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	while (dir && !found && (fd = processes_next(dir, &pid)) >= 0) {
		found = process_opens(fd, is_wanted, wanted) && read_process(fd, pid, ret_owner);
		cleanup_close(&fd);
	}
	if (found)
		ret_owner->in_pod = pod_of_process(root_fd, pid, &ret_owner->pod);
}

int port_is_listening(int root_fd, unsigned port, struct process_seen *ret_owner)
{
	static const char *const tables[] = { "proc/1/net/tcp", "proc/1/net/tcp6" };
	static const char *const own_tables[] = { "proc/net/tcp", "proc/net/tcp6" };
	unsigned long inode = 0;
	bool readable = false;

	*ret_owner = (struct process_seen){ .pid = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		int r = find_listener(root_fd, tables[i], port, &inode);

		if (r < 0)
			r = find_listener(root_fd, own_tables[i], port, &inode);
		readable = readable || r >= 0;
		if (r <= 0)
			continue;
		find_owner(root_fd, inode, ret_owner);
		return 1;
	}
	return readable ? 0 : -1;
}

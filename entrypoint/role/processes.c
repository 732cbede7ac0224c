/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/processes.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/gpu_modules.h"
#include "entrypoint/role/pci.h"
#include "module/running.h"

#define GENERATIONS_MAX 32

#define TCP_LISTEN 0x0a /* Linux include/net/tcp_states.h */

/* The length to which /proc/<pid>/comm cuts a name. */
#define COMMAND_LENGTH 15

/* A mapped device is a line of /proc/<pid>/maps; no process has more text of it than this. */
#define MAPS_LIMIT (16UL * 1024 * 1024)

#define DELETED " (deleted)"

static DIR *open_folder(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		cleanup_close(&fd);
	return dir;
}

/* Its name; false when it has ended meanwhile. */
static bool read_command(int process_fd, struct process_seen *process)
{
	_cleanup_free_ char *command = NULL;

	if (fs_read_line(process_fd, "comm", &command) < 0)
		return false;
	(void) snprintf(process->command, sizeof(process->command), "%s", command);
	return true;
}

typedef bool match_function(int process_fd, const void *wanted, struct process_seen *process);

/*
 * Puts the first @capacity that match in @seen; @all: and counts the others. Returns how many, or a
 * negative errno.
 */
static int find_processes(int root_fd, match_function *matches, const void *wanted, bool all,
	struct process_seen *seen, size_t capacity)
{
	_cleanup_closedir_ DIR *dir = open_folder(root_fd, "proc");
	const struct dirent *entry;
	size_t count = 0;

	if (!dir)
		return -errno;
	while ((all || count < capacity) && (entry = readdir(dir))) {
		struct process_seen one = { .pid = (pid_t) strtol(entry->d_name, NULL, 10) };
		_cleanup_close_ int fd = -1;

		if (one.pid <= 0)
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		/* It may have ended. */
		if (fd < 0 || !matches(fd, wanted, &one) || count++ >= capacity)
			continue;
		if (!read_command(fd, &one))
			(void) snprintf(one.command, sizeof(one.command), "?");
		one.in_pod = pod_of_process(root_fd, one.pid, &one.pod);
		seen[count - 1] = one;
	}
	return (int) count;
}

static bool is_program(int process_fd, const void *name, struct process_seen *process)
{
	return read_command(process_fd, process) &&
	       strncmp(process->command, name, COMMAND_LENGTH) == 0;
}

size_t processes_of_program(
	int root_fd, const char *name, struct process_seen *seen, size_t capacity)
{
	int count = find_processes(root_fd, is_program, name, false, seen, capacity);

	return count < 0 ? 0 : (size_t) count;
}

/*
 * Does the link text of one of the process's descriptors match? Links are read, never opened or
 * followed: that could block on a dead network file system.
 */
static bool opens(int process_fd, bool (*matches)(char *, const void *, struct process_seen *),
	const void *wanted, struct process_seen *process)
{
	_cleanup_closedir_ DIR *dir = open_folder(process_fd, "fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char target[PATH_MAX];
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		if (matches(target, wanted, process))
			return true;
	}
	return false;
}

bool process_descends(int root_fd, pid_t pid, pid_t ancestor)
{
	/* The processes are not read at one moment: a chain may not end. */
	for (unsigned i = 0; i < GENERATIONS_MAX && pid > 0; i++) {
		_cleanup_free_ char *text = NULL;
		const char *end;
		char path[64];

		(void) snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
		if (fs_read(root_fd, path, 0, &text, NULL) < 0)
			return false;
		/* "501 (a name) S 1 …": the name may hold anything, parentheses too (proc(5)). */
		end = strrchr(text, ')');
		if (!end || sscanf(end + 1, " %*c %d", &pid) != 1)
			return false;
		if (pid > 0 && pid == ancestor)
			return true;
	}
	return false;
}

/* ---- who listens */

/*
 * "   0: 00000000:C350 00000000:0000 0A …  0        0 5167 1 …": local address, remote address,
 * state, queues, timer, retransmits, uid, timeout, inode (Linux
 * Documentation/networking/proc_net_tcp.rst). 1: found, 0: not there, -1: no such table.
 */
static int find_listener(int root_fd, const char *table, unsigned port, unsigned long *ret_inode)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, table, 0, &text, NULL) < 0)
		return -1;
	for (const char *line = text; *line; line += *line == '\n') {
		unsigned local, state;

		if (sscanf(line,
			    " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu",
			    &local, &state, ret_inode) == 3 &&
			local == port && state == TCP_LISTEN)
			return 1;
		line += strcspn(line, "\n");
	}
	return 0;
}

static bool is_text(char *target, const void *wanted, struct process_seen *process)
{
	(void) process;
	return strcmp(target, wanted) == 0;
}

static bool opens_socket(int process_fd, const void *wanted, struct process_seen *process)
{
	return opens(process_fd, is_text, wanted, process);
}

int port_is_listening(int root_fd, unsigned port, struct process_seen *ret_owner)
{
	static const char *const tables[] = { "proc/1/net/tcp", "proc/1/net/tcp6" };
	static const char *const own_tables[] = { "proc/net/tcp", "proc/net/tcp6" };
	unsigned long inode = 0;
	bool readable = false;
	char wanted[64];

	*ret_owner = (struct process_seen){ .pid = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		int r = find_listener(root_fd, tables[i], port, &inode);

		if (r < 0)
			r = find_listener(root_fd, own_tables[i], port, &inode);
		readable = readable || r >= 0;
		if (r <= 0)
			continue;
		(void) snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
		(void) find_processes(root_fd, opens_socket, wanted, false, ret_owner, 1);
		return 1;
	}
	return readable ? 0 : -1;
}

/* ---- who uses a device */

/* The node may be gone from the folder where it was opened; it is the device's nevertheless. */
static bool is_device(char *path, const void *wanted, struct process_seen *user)
{
	const struct strv *patterns = wanted;
	size_t length = strlen(path);
	size_t suffix = strlen(DELETED);

	if (length > suffix && strcmp(path + length - suffix, DELETED) == 0)
		path[length - suffix] = '\0';
	for (size_t i = 0; i < patterns->count; i++) {
		if (fnmatch(patterns->items[i], path, 0) != 0)
			continue;
		(void) snprintf(user->device, sizeof(user->device), "%.63s", path);
		return true;
	}
	return false;
}

static bool opens_device(int process_fd, const void *patterns, struct process_seen *user)
{
	return opens(process_fd, is_device, patterns, user);
}

/* A mapping keeps the device in use after its descriptor was closed. */
static bool maps_device(int process_fd, const void *patterns, struct process_seen *user)
{
	_cleanup_free_ char *text = NULL;
	char *save = NULL;

	if (fs_read(process_fd, "maps", MAPS_LIMIT, &text, NULL) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, '/');

		if (path && is_device(path, patterns, user))
			return true;
	}
	return false;
}

int users_of_devices(
	int root_fd, const struct strv *patterns, struct process_seen *users, size_t capacity)
{
	int count = find_processes(root_fd, opens_device, patterns, true, users, capacity);

	return count ? count
		     : find_processes(root_fd, maps_device, patterns, true, users, capacity);
}

/* Does the module make the DRM nodes of devices that this PCI driver drives? */
static bool makes_drm_nodes(const struct gpu_module *row, const char *module, const char *driver)
{
	if (row)
		return row->drm_driver && strcmp(row->drm_driver, driver) == 0;
	for (; *module && (*module == *driver || (*module == '_' && *driver == '-')); module++)
		driver++;
	return !*module && !*driver;
}

int users_patterns(int root_fd, const char *module, struct strv *patterns)
{
	const struct gpu_module *row = gpu_module_find(module);
	_cleanup_strv_ struct strv nodes = { 0 };
	int r;

	for (const char *const *item = row ? row->devices : NULL; item && *item; item++)
		if (strv_push(patterns, *item) < 0)
			return -ENOMEM;
	r = fs_list(root_fd, "sys/class/drm", &nodes);
	if (r < 0)
		return r == -ENOMEM ? r : 0; /* no graphics on this kernel */
	/* Below /dev/dri: "card0", "renderD128"; not the connectors, "card0-DP-1". */
	for (size_t i = 0; i < nodes.count; i++) {
		char path[PATH_MAX];
		char driver[64];

		if (strchr(nodes.items[i], '-'))
			continue;
		(void) snprintf(
			path, sizeof(path), "sys/class/drm/%s/device/driver", nodes.items[i]);
		sysfs_link_name(root_fd, path, driver, sizeof(driver));
		if (makes_drm_nodes(row, module, driver) &&
			strv_pushf(patterns, "/dev/dri/%s", nodes.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

void user_text(const struct process_seen *user, char text[USER_TEXT_SIZE])
{
	char pod[POD_TEXT_SIZE] = "";

	if (user->in_pod)
		pod_text(&user->pod, pod);
	(void) snprintf(text, USER_TEXT_SIZE, "process %d (%s, %s%s%s)", (int) user->pid,
		user->command, user->device, *pod ? ", " : "", pod);
}

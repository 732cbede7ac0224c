/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/users.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/role/processes.h"

/* A mapped device is a line of /proc/<pid>/maps; no process has more text of it than this. */
#define MAPS_LIMIT (16UL * 1024 * 1024)

#define DELETED " (deleted)"

static bool matches(const char *path, const struct strv *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], path, 0) == 0)
			return true;
	return false;
}

/* The node may be gone from the folder where it was opened; it is the device's nevertheless. */
static void cut_deleted(char *path)
{
	size_t length = strlen(path);
	size_t suffix = strlen(DELETED);

	if (length > suffix && strcmp(path + length - suffix, DELETED) == 0)
		path[length - suffix] = '\0';
}

static bool take(char *path, const struct strv *patterns, struct user *user)
{
	cut_deleted(path);
	if (!matches(path, patterns))
		return false;
	(void) snprintf(
		user->device, sizeof(user->device), "%.*s", (int) sizeof(user->device) - 1, path);
	return true;
}

struct wanted {
	const struct strv *patterns;
	struct user *user;
};

static bool take_link(void *context, char *target)
{
	const struct wanted *wanted = context;

	return take(target, wanted->patterns, wanted->user);
}

static bool opens_device(int process_fd, const struct strv *patterns, struct user *user)
{
	struct wanted wanted = { patterns, user };

	return process_opens(process_fd, take_link, &wanted);
}

/* A mapping keeps the device in use after its descriptor was closed. */
static bool maps_device(int process_fd, const struct strv *patterns, struct user *user)
{
	_cleanup_free_ char *text = NULL;
	char *save = NULL;

	if (fs_read(process_fd, "maps", MAPS_LIMIT, &text, NULL) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, '/');

		if (path && take(path, patterns, user))
			return true;
	}
	return false;
}

typedef bool uses_function(int process_fd, const struct strv *patterns, struct user *user);

static int find_users(int root_fd, uses_function *uses, const struct strv *patterns,
	struct user *users, size_t capacity)
{
	_cleanup_closedir_ DIR *dir = processes_open(root_fd);
	struct user user = { .pid = 0 };
	size_t count = 0;
	int fd;

	if (!dir)
		return -errno;
	while ((fd = processes_next(dir, &user.pid)) >= 0) {
		_cleanup_close_ int process_fd = fd;
		_cleanup_free_ char *command = NULL;

		if (!uses(process_fd, patterns, &user))
			continue;
		if (count++ >= capacity)
			continue;
		(void) snprintf(user.command, sizeof(user.command), "%s",
			fs_read_line(process_fd, "comm", &command) == 0 ? command : "?");
		user.in_pod = pod_of_process(root_fd, user.pid, &user.pod);
		users[count - 1] = user;
	}
	return (int) count;
}

int users_of_devices(int root_fd, const struct strv *patterns, struct user *users, size_t capacity)
{
	int count = find_users(root_fd, opens_device, patterns, users, capacity);

	return count ? count : find_users(root_fd, maps_device, patterns, users, capacity);
}

static const struct {
	const char *module;
	const char *patterns[6];
} known[] = {
	{ "nvidia", { "/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-caps/*",
			    "/dev/nvidia-caps-imex-channels/*", "/dev/nvidia-nvswitch*" } },
	{ "nvidia_uvm", { "/dev/nvidia-uvm*" } },
	{ "nvidia_modeset", { "/dev/nvidia-modeset" } },
	{ "nvidia_fs", { "/dev/nvidia-fs*" } },
	{ "nvidia_peermem", { "/dev/infiniband/uverbs*" } },
	{ "gdrdrv", { "/dev/gdrdrv*" } },
	{ "nvidia_vgpu_vfio", { "/dev/vfio/*" } },
};

/* nvidia_drm makes the nodes of devices that nvidia drives. */
static bool drives(const char *module, const char *driver)
{
	if (strcmp(module, "nvidia_drm") == 0)
		module = "nvidia";
	else if (strcmp(module, "nvidia") == 0)
		return false;
	for (; *module && (*module == *driver || (*module == '_' && *driver == '-')); module++)
		driver++;
	return !*module && !*driver;
}

/* The nodes below /dev/dri: "card0", "renderD128"; not the connectors, "card0-DP-1". */
static int push_drm_nodes(int root_fd, const char *module, struct strv *patterns)
{
	_cleanup_strv_ struct strv nodes = { 0 };
	int r = fs_list(root_fd, "sys/class/drm", &nodes);

	if (r < 0)
		return r == -ENOMEM ? r : 0; /* no graphics on this kernel */
	for (size_t i = 0; i < nodes.count; i++) {
		char path[PATH_MAX];
		char target[PATH_MAX];
		const char *slash;
		ssize_t length;

		if (strchr(nodes.items[i], '-'))
			continue;
		(void) snprintf(
			path, sizeof(path), "sys/class/drm/%s/device/driver", nodes.items[i]);
		length = readlinkat(root_fd, path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		slash = strrchr(target, '/');
		if (drives(module, slash ? slash + 1 : target) &&
			strv_pushf(patterns, "/dev/dri/%s", nodes.items[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

int users_patterns(int root_fd, const char *module, struct strv *patterns)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].module, module) != 0)
			continue;
		for (const char *const *item = known[i].patterns; *item; item++)
			if (strv_push(patterns, *item) < 0)
				return -ENOMEM;
	}
	return push_drm_nodes(root_fd, module, patterns);
}

void user_text(const struct user *user, char text[USER_TEXT_SIZE])
{
	char pod[POD_TEXT_SIZE] = "";

	if (user->in_pod)
		pod_text(&user->pod, pod);
	(void) snprintf(text, USER_TEXT_SIZE, "process %d (%s, %s%s%s)", (int) user->pid,
		user->command, user->device, *pod ? ", " : "", pod);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/workshop.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/fs.h"

/* Linux 5.2; the C library of an older distribution has no names for them. */
#ifndef SYS_open_tree
#define SYS_open_tree  428
#define SYS_move_mount 429
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif

/* Seam 1 of docs/architecture.md. */
#define SEAM "/slipway"

/* Ends the child with a line that buildlog_first_error() finds. */
static _Noreturn _printf_(1, 2) void give_up(const char *format, ...)
{
	int code = errno;
	va_list arguments;

	(void) fputs("Error: ", stderr);
	va_start(arguments, format);
	(void) vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void) fprintf(stderr, ": %s\n", strerror(code));
	_exit(125);
}

/* A mount can be cloned in the mount name space that it belongs to, and nowhere else. */
static int clone_mount(int dir_fd, const char *path)
{
	return (int) syscall(SYS_open_tree, dir_fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static void attach(int tree_fd, const char *path, bool writable)
{
	int r = fs_mkdir_parents(AT_FDCWD, path, 0755);

	if (r < 0) {
		errno = -r;
		give_up("%s cannot be made in the container", path);
	}
	if (syscall(SYS_move_mount, tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		give_up("mount on %s", path);
	if (!writable &&
		mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) < 0)
		give_up("read-only mount on %s", path);
}

static void make_link(const char *target, const char *path)
{
	char folder[PATH_MAX];
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash && slash != folder) {
		*slash = '\0';
		if (fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0)
			give_up("folder %s", folder);
	}
	if (symlink(target, path) < 0 && errno != EEXIST)
		give_up("link %s", path);
}

/* What is taken from other mount name spaces, before ours is a new one. */
struct trees {
	int *folders; /* one for each of the host's */
	int work;
	int output;
	int nvidia;
};

/*
 * What is a mount of this container: of the headers nothing, unless they are its own or the host's
 * folders are mounted here, as in the NIC container. Is that all?
 */
static bool clone_own(const struct workshop *workshop, struct trees *trees)
{
	const struct strv *folders = &workshop->tree->folders;
	bool all = true;

	for (size_t i = 0; i < folders->count; i++) {
		trees->folders[i] = clone_mount(workshop->host_fd, folders->items[i]);
		all = all && trees->folders[i] >= 0;
	}
	trees->work = clone_mount(workshop->work_fd, "work");
	trees->output = clone_mount(workshop->work_fd, "output");
	trees->nvidia = workshop->nvidia ? clone_mount(workshop->root_fd, workshop->nvidia) : -1;
	return all && trees->work >= 0 && trees->output >= 0;
}

/* Of the host's: the folders, and where we work. */
static void clone_in_host(const struct workshop *workshop, struct trees *trees)
{
	const struct strv *folders = &workshop->tree->folders;

	for (size_t i = 0; i < folders->count; i++) {
		if (trees->folders[i] < 0)
			trees->folders[i] = clone_mount(workshop->host_fd, folders->items[i]);
		if (trees->folders[i] < 0)
			give_up("the host's /%s (open_tree(2) is there since Linux 5.2)",
				folders->items[i]);
	}
	if (trees->work < 0) {
		trees->work = clone_mount(workshop->work_fd, "work");
		trees->output = clone_mount(workshop->work_fd, "output");
	}
	if (trees->work < 0 || trees->output < 0)
		give_up("the folder to work in");
}

static void clone_all(const struct workshop *workshop, struct trees *trees)
{
	int own_fd, host_ns_fd;

	if (clone_own(workshop, trees))
		return;
	own_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	host_ns_fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || host_ns_fd < 0)
		give_up("the host's mounts (is hostPID set, and the container privileged?)");
	if (setns(host_ns_fd, CLONE_NEWNS) < 0)
		give_up("the host's mounts (is the container privileged?)");
	clone_in_host(workshop, trees);
	/* Coming back puts us at the top of the container's name space, not into our root. */
	if (setns(own_fd, CLONE_NEWNS) < 0 || fchdir(workshop->root_fd) < 0 || chroot(".") < 0)
		give_up("back to the container");
}

/* Headers at their own paths; a fresh usr/src, for recipes put links there. */
static void place_headers(const struct workshop *workshop, const struct trees *trees)
{
	const struct host_tree *tree = workshop->tree;

	if (mount("slipway", "/usr/src", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m") < 0)
		give_up("/usr/src");
	for (size_t i = 0; i < tree->folders.count; i++) {
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "/%s", tree->folders.items[i]);
		attach(trees->folders[i], path, false);
	}
	for (size_t i = 0; i < tree->links.count; i++) {
		const char *target = strchr(tree->links.items[i], ' ');
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "/%.*s", (int) (target - tree->links.items[i]),
			tree->links.items[i]);
		make_link(target + 1, path);
	}
}

/* @seam: "/slipway", or the folder that stands for it. */
static void link_kernel(const struct workshop *workshop, const char *seam)
{
	const struct {
		const char *name, *target;
	} links[] = { { "build", workshop->tree->build }, { "source", workshop->tree->source } };

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[PATH_MAX];
		char target[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/kernel/lib/modules/%s/%s", seam,
			workshop->krel, links[i].name);
		(void) snprintf(target, sizeof(target), "/%s", links[i].target);
		make_link(target, path);
	}
}

/* OFED's headers in the layout of a module set. */
static void link_ofed(const struct workshop *workshop)
{
	static const char folder[] = "/slipway/ofed/usr/src/ofa_kernel";
	char path[PATH_MAX];
	int r;

	if (!workshop->ofed)
		return;
	(void) snprintf(path, sizeof(path), "%s/x86_64/%s", folder, workshop->krel);
	make_link(workshop->ofed, path);
	(void) snprintf(path, sizeof(path), "%s/default", folder);
	make_link(workshop->ofed, path);
	r = fs_write_atomic(AT_FDCWD, "/slipway/ofed/set.conf", workshop->ofed_conf,
		strlen(workshop->ofed_conf), 0644);
	if (r < 0)
		give_up("/slipway/ofed/set.conf");
}

static void link_kit(const struct workshop *workshop, const char *seam)
{
	static const char *const names[] = { "recipes", "source", "patches" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX];
		char target[PATH_MAX];

		(void) snprintf(path, sizeof(path), "%s/%s", seam, names[i]);
		(void) snprintf(target, sizeof(target), "/%s/%s", workshop->kit, names[i]);
		make_link(target, path);
	}
}

/* Seam 1 of docs/architecture.md. */
static void place_seam(const struct workshop *workshop, const struct trees *trees)
{
	if (mkdir("/slipway", 0755) < 0 && errno != EEXIST)
		give_up("/slipway");
	if (mount("slipway", "/slipway", "tmpfs", MS_NOSUID | MS_NODEV, "size=16m") < 0)
		give_up("/slipway");
	link_kernel(workshop, SEAM);
	link_ofed(workshop);
	link_kit(workshop, SEAM);
	attach(trees->work, "/slipway/work", true);
	attach(trees->output, "/slipway/output", true);
	if (trees->nvidia >= 0)
		attach(trees->nvidia, "/slipway/nvidia", false);
}

static int list_environment(const struct workshop *workshop, const char *seam, struct strv *list)
{
	static const char *const folders[][2] = { { "HOME", "work" },
		{ "SLIPWAY_KERNEL", "kernel" }, { "SLIPWAY_SOURCE", "source" },
		{ "SLIPWAY_PATCHES", "patches" }, { "SLIPWAY_OUTPUT", "output" },
		{ "SLIPWAY_WORK", "work" }, { "SLIPWAY_NVIDIA", "nvidia" } };
	int r = strv_push(
		list, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
		r = strv_pushf(list, "%s=%s/%s", folders[i][0], seam, folders[i][1]);
	if (r == 0)
		r = strv_push(list, "SLIPWAY_ARCH=x86_64");
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_KREL=%s", workshop->krel);
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_CC=%s", workshop->compiler);
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_JOBS=%u", workshop->jobs);
	if (r == 0)
		r = strv_pushf(list, "SLIPWAY_OFED=%s", workshop->ofed ? SEAM "/ofed" : "");
	for (size_t i = 0; i < workshop->settings->count && r == 0; i++)
		r = strv_push(list, workshop->settings->items[i]);
	return r;
}

static void run_recipe(const struct workshop *workshop, const char *seam)
{
	_cleanup_strv_ struct strv environment = { 0 };
	char recipe[PATH_MAX];
	char *const argv[] = { (char[]){ "bash" }, recipe, NULL };
	sigset_t none;

	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	(void) snprintf(recipe, sizeof(recipe), "%s/work", seam);
	if (chdir(recipe) < 0)
		give_up("%s", recipe);
	(void) snprintf(recipe, sizeof(recipe), "%s/recipes/%s.sh", seam, workshop->recipe);
	if (list_environment(workshop, seam, &environment) < 0)
		give_up("memory");
	(void) execve("/usr/bin/bash", argv, environment.items);
	give_up("/usr/bin/bash");
}

/* The headers are this container's own, at their own paths already. */
static void run_in_place(const struct workshop *workshop)
{
	char link[64], seam[PATH_MAX];
	ssize_t size;

	(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", workshop->work_fd);
	size = readlink(link, seam, sizeof(seam) - 1);
	seam[size < 0 ? 0 : size] = '\0';
	if (!*seam)
		give_up("the folder to work in");
	link_kernel(workshop, seam);
	link_kit(workshop, seam);
	run_recipe(workshop, seam);
}

/* Process 1 of its name space: when it ends, however that comes, all that it started ends. */
static _Noreturn void workshop_child(const struct workshop *workshop, int output_fd)
{
	size_t count = workshop->tree->folders.count;
	struct trees trees = { .folders = calloc(count ? count : 1, sizeof(int)) };
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
		dup2(output_fd, STDERR_FILENO) < 0)
		_exit(125);
	if (!trees.folders)
		give_up("memory");
	if (workshop->in_place)
		run_in_place(workshop);
	clone_all(workshop, &trees);
	/* No network: what is compiled is in the image and on the host. */
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ||
		mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		give_up("name spaces of our own");
	place_headers(workshop, &trees);
	place_seam(workshop, &trees);
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		give_up("/proc");
	free(trees.folders);
	run_recipe(workshop, SEAM);
	_exit(125);
}

int workshop_start(
	const struct workshop *workshop, pid_t *ret_pid, int *ret_fd, struct error *error)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "pipe");
	/* A fork(2) whose child is in a new name space, and we are not: later children stay ours.
	 */
	pid = (pid_t) syscall(
		SYS_clone, (workshop->in_place ? 0 : CLONE_NEWPID) | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0) {
		int r = -errno;

		(void) close(ends[0]);
		(void) close(ends[1]);
		return error_set_errno(error, r,
			"a process name space for the build (is the container privileged?)");
	}
	if (pid == 0)
		workshop_child(workshop, ends[1]);
	(void) close(ends[1]);
	*ret_pid = pid;
	*ret_fd = ends[0];
	return 0;
}

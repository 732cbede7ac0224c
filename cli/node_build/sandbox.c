/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/fs.h"
#include "common/xalloc.h"

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
static _Noreturn _printf_(1, 2) void fail(const char *format, ...)
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

/* ---- mounts that are taken from other name spaces, before ours is a new one */

struct trees {
	int *folders; /* one for each of the headers' */
	int work;
	int output;
	int nvidia;
};

/* A mount can be cloned in the mount name space that it belongs to, and nowhere else. */
static int clone_mount(int dir_fd, const char *path)
{
	return (int) syscall(SYS_open_tree, dir_fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/*
 * What is a mount of this container: of the headers nothing, unless they are its own or the host's
 * folders are mounted here, as in the NIC container. The rest is the host's.
 */
static void clone_all(const struct sandbox *sandbox, struct trees *trees)
{
	const struct node_build *build = sandbox->build;
	const struct strv *folders = &build->headers.folders;
	bool all = true;
	int own_fd, host_ns_fd;

	for (size_t i = 0; i < folders->count; i++) {
		trees->folders[i] = clone_mount(build->headers.root_fd, folders->items[i]);
		all = all && trees->folders[i] >= 0;
	}
	trees->work = clone_mount(sandbox->work_fd, "work");
	trees->output = clone_mount(sandbox->work_fd, "output");
	trees->nvidia = *build->nvidia ? clone_mount(build->request->root_fd, build->nvidia) : -1;
	if (all && trees->work >= 0 && trees->output >= 0)
		return;
	own_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	host_ns_fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || host_ns_fd < 0)
		fail("the host's mounts (is hostPID set, and the container privileged?)");
	if (setns(host_ns_fd, CLONE_NEWNS) < 0)
		fail("the host's mounts (is the container privileged?)");
	for (size_t i = 0; i < folders->count; i++) {
		if (trees->folders[i] < 0)
			trees->folders[i] = clone_mount(build->headers.root_fd, folders->items[i]);
		if (trees->folders[i] < 0)
			fail("the host's /%s (open_tree(2) is there since Linux 5.2)",
				folders->items[i]);
	}
	if (trees->work < 0) {
		trees->work = clone_mount(sandbox->work_fd, "work");
		trees->output = clone_mount(sandbox->work_fd, "output");
	}
	if (trees->work < 0 || trees->output < 0)
		fail("the folder to work in");
	/* Coming back puts us at the top of the container's name space, not into our root. */
	if (setns(own_fd, CLONE_NEWNS) < 0 || fchdir(build->request->root_fd) < 0 ||
		chroot(".") < 0)
		fail("back to the container");
}

/* ---- the recipe's view */

static void attach(int tree_fd, const char *path, bool writable)
{
	int r = fs_mkdir_parents(AT_FDCWD, path, 0755);

	if (r < 0) {
		errno = -r;
		fail("%s cannot be made in the container", path);
	}
	if (syscall(SYS_move_mount, tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail("mount on %s", path);
	if (!writable &&
		mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) < 0)
		fail("read-only mount on %s", path);
}

static void mount_tmpfs(const char *path)
{
	if (mount("slipway", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m") < 0)
		fail("%s", path);
}

/* @format makes the link's path. */
static void _printf_(2, 3) make_link(const char *target, const char *format, ...)
{
	char path[PATH_MAX], folder[PATH_MAX];
	va_list arguments;
	char *slash;

	va_start(arguments, format);
	(void) vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash && slash != folder) {
		*slash = '\0';
		if (fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0)
			fail("folder %s", folder);
	}
	if (symlink(target, path) < 0 && errno != EEXIST)
		fail("link %s", path);
}

/* At their own paths; a fresh usr/src, for recipes put links there. */
static void place_headers(const struct headers *headers, const struct trees *trees)
{
	mount_tmpfs("/usr/src");
	for (size_t i = 0; i < headers->folders.count; i++) {
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "/%s", headers->folders.items[i]);
		attach(trees->folders[i], path, false);
	}
	for (size_t i = 0; i < headers->links.count; i++) {
		const char *link = headers->links.items[i];
		int length = (int) strcspn(link, " ");

		make_link(link + length + 1, "/%.*s", length, link);
	}
}

/* Seam 1 of docs/architecture.md. */
static void place_seam(const struct node_build *build, const struct trees *trees)
{
	static const char *const kit[] = { "recipes", "source", "patches" };
	static const char ofed[] = SEAM "/ofed/usr/src/ofa_kernel";
	_cleanup_free_ char *tree = xasprintf("/%s", build->headers.build);
	_cleanup_free_ char *source = xasprintf("/%s", build->headers.source);

	if (mkdir(SEAM, 0755) < 0 && errno != EEXIST)
		fail(SEAM);
	mount_tmpfs(SEAM);
	make_link(tree, SEAM "/kernel/lib/modules/%s/build", build->request->krel);
	make_link(source, SEAM "/kernel/lib/modules/%s/source", build->request->krel);
	for (size_t i = 0; i < ARRAY_SIZE(kit); i++) {
		char target[128];

		(void) snprintf(target, sizeof(target), "/" NODE_KIT_FOLDER "/%s", kit[i]);
		make_link(target, SEAM "/%s", kit[i]);
	}
	/* OFED's headers in the layout of a module set. */
	if (*build->ofed) {
		make_link(build->ofed, "%s/x86_64/%s", ofed, build->request->krel);
		make_link(build->ofed, "%s/default", ofed);
		if (fs_write_atomic(AT_FDCWD, SEAM "/ofed/set.conf", build->ofed_conf,
			    strlen(build->ofed_conf), 0644) < 0)
			fail(SEAM "/ofed/set.conf");
	}
	attach(trees->work, SEAM "/work", true);
	attach(trees->output, SEAM "/output", true);
	if (trees->nvidia >= 0)
		attach(trees->nvidia, SEAM "/nvidia", false);
}

static _Noreturn void run_recipe(const struct sandbox *sandbox)
{
	static const char *const fixed[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" SEAM "/work",
		"SLIPWAY_KERNEL=" SEAM "/kernel",
		"SLIPWAY_SOURCE=" SEAM "/source",
		"SLIPWAY_PATCHES=" SEAM "/patches",
		"SLIPWAY_OUTPUT=" SEAM "/output",
		"SLIPWAY_WORK=" SEAM "/work",
		"SLIPWAY_NVIDIA=" SEAM "/nvidia",
		"SLIPWAY_ARCH=x86_64",
	};
	const struct node_build *build = sandbox->build;
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		xstrv_push(&environment, fixed[i]);
	xstrv_pushf(&environment, "SLIPWAY_KREL=%s", build->request->krel);
	xstrv_pushf(&environment, "SLIPWAY_CC=%s", build->compiler);
	xstrv_pushf(&environment, "SLIPWAY_JOBS=%u", sandbox->jobs);
	xstrv_pushf(&environment, "SLIPWAY_OFED=%s", *build->ofed ? SEAM "/ofed" : "");
	for (size_t i = 0; i < build->request->settings.count; i++)
		xstrv_push(&environment, build->request->settings.items[i]);
	xstrv_push(&argv, "bash");
	xstrv_pushf(&argv, SEAM "/recipes/%s.sh", build->request->recipe);
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(SEAM "/work") < 0)
		fail(SEAM "/work");
	(void) execve("/usr/bin/bash", argv.items, environment.items);
	fail("/usr/bin/bash");
}

/* Process 1 of its name space: when it ends, however that comes, all that it started ends. */
static _Noreturn void run_child(const struct sandbox *sandbox, int output_fd)
{
	struct trees trees = {
		.folders = xcalloc(sandbox->build->headers.folders.count + 1, sizeof(int)),
	};
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
		dup2(output_fd, STDERR_FILENO) < 0)
		_exit(125);
	clone_all(sandbox, &trees);
	/* No network: what is compiled is in the image and on the host. */
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ||
		mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("name spaces of our own");
	place_headers(&sandbox->build->headers, &trees);
	place_seam(sandbox->build, &trees);
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		fail("/proc");
	free(trees.folders);
	run_recipe(sandbox);
}

int sandbox_start(const struct sandbox *sandbox, pid_t *ret_pid, int *ret_fd, struct error *error)
{
	int ends[2];
	pid_t pid;
	int r;

	(void) fflush(NULL);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set_errno(error, -errno, "pipe");
	/* A fork(2) whose child is in a new name space, and we are not: later children stay ours.
	 */
	pid = (pid_t) syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		run_child(sandbox, ends[1]);
	r = pid < 0 ? -errno : 0;
	(void) close(ends[1]);
	if (r < 0) {
		(void) close(ends[0]);
		return error_set_errno(error, r,
			"a process name space for the build (is the container privileged?)");
	}
	*ret_pid = pid;
	*ret_fd = ends[0];
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/text.h"
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

/* The root that recipes run in: all paths below are in it once it is theirs. */
#define ROOT "/" NODE_KIT_ROOT
/* Seam 1 of docs/architecture.md. */
#define SEAM "/slipway"

/* Ends the child with a line that buildlog_first_error() finds. */
static _Noreturn _printf_(1, 2) void fail(const char *format, ...)
{
	int code = errno;
	va_list arguments;

	(void) fputs("Error: ", stderr);
	va_start(arguments, format);
	text_vprint(stderr, format, arguments);
	va_end(arguments);
	text_print(stderr, ": %s\n", strerror(code));
	_exit(125);
}

/* ---- mounts that are taken from other name spaces, before ours is a new one */

/* A folder that the recipe sees as a mount. */
struct tree {
	int from_fd;
	const char *from;
	const char *to;
	bool writable;
	int mount_fd; /* a clone of the mount that it is in */
};

/* A mount can be cloned in the mount name space that it belongs to, and nowhere else. */
static bool clone_mount(struct tree *tree)
{
	tree->mount_fd = (int) syscall(
		SYS_open_tree, tree->from_fd, tree->from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree->mount_fd >= 0;
}

/*
 * Clones what is mounted in this container, and the rest from the host. Headers are mounted here
 * only if they are the container's own or the host's folders are mounted, as in the NIC container.
 */
static void clone_all(const struct node_build *build, struct tree *trees, size_t count)
{
	bool all = true;
	int own_fd, host_ns_fd;

	for (size_t i = 0; i < count; i++)
		all = clone_mount(&trees[i]) && all;
	if (all)
		return;
	own_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	host_ns_fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || host_ns_fd < 0)
		fail("the host's mounts (is hostPID set, and the container privileged?)");
	if (setns(host_ns_fd, CLONE_NEWNS) < 0)
		fail("the host's mounts (is the container privileged?)");
	for (size_t i = 0; i < count; i++)
		if (trees[i].mount_fd < 0 && !clone_mount(&trees[i]))
			fail("the mount of %s (open_tree(2) needs Linux 5.2)", trees[i].to);
	/* Coming back puts us at the top of the container's name space, not into our root. */
	if (setns(own_fd, CLONE_NEWNS) < 0 || fchdir(build->request->root_fd) < 0 ||
		chroot(".") < 0)
		fail("return to the container's mount name space");
}

/* ---- the recipe's view */

/* A folder below the root to mount on; its memory goes with this process. */
static const char *mount_point(const char *path)
{
	const char *point = xasprintf(ROOT "%s", path);
	int r = fs_mkdir_parents(AT_FDCWD, point, 0755);

	if (r < 0) {
		errno = -r;
		fail("%s cannot be made in the container", point);
	}
	return point;
}

static void make_read_only(const char *point)
{
	if (mount(NULL, point, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL) < 0)
		fail("read-only mount on %s", point);
}

static void attach(const struct tree *tree)
{
	const char *point = mount_point(tree->to);

	if (syscall(SYS_move_mount, tree->mount_fd, "", AT_FDCWD, point, MOVE_MOUNT_F_EMPTY_PATH) <
		0)
		fail("mount on %s", point);
	if (!tree->writable)
		make_read_only(point);
}

static void mount_tmpfs(const char *path)
{
	if (mount("slipway", mount_point(path), "tmpfs", MS_NOSUID | MS_NODEV, "size=16m") < 0)
		fail("%s", path);
}

/* Shows a folder of the container, with what is mounted in it, in the root. */
static void show(const char *from, const char *to)
{
	if (mount(from, mount_point(to), NULL, MS_BIND | MS_REC, NULL) < 0)
		fail("%s", from);
}

/* The folder that recipes see as theirs. */
static void enter(void)
{
	show("/dev", "/dev");
	if (mount("proc", mount_point("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		fail("/proc");
	if (chroot(ROOT) < 0 || chdir("/") < 0)
		fail(ROOT);
}

/* @format makes the link's path. */
static void _printf_(2, 3) make_link(const char *target, const char *format, ...)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *folder = NULL;
	va_list arguments;

	va_start(arguments, format);
	path = xvasprintf(format, arguments);
	va_end(arguments);
	folder = xstrndup(path, (size_t) (strrchr(path, '/') - path));
	if (*folder && fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0)
		fail("folder %s", folder);
	if (symlink(target, path) < 0 && errno != EEXIST)
		fail("link %s", path);
}

/*
 * Makes the root the child's, with seam 1 of docs/architecture.md, and the headers at their own
 * paths.
 */
static void place(const struct node_build *build, const struct tree *trees, size_t count)
{
	static const char *const kit[] = { "recipes", "feature-tests", "source", "patches",
		"addons" };
	static const char ofed[] = SEAM "/ofed/usr/src/ofa_kernel";
	const struct strv *links = &build->headers.links;
	_cleanup_free_ char *headers = xasprintf("/%s", build->headers.build);
	_cleanup_free_ char *source = xasprintf("/%s", build->headers.source);

	mount_tmpfs(SEAM);
	/* A fresh one, for recipes put links there. */
	mount_tmpfs("/usr/src");
	for (size_t i = 0; i < count; i++)
		attach(&trees[i]);
	for (size_t i = 0; i < ARRAY_SIZE(kit); i++) {
		_cleanup_free_ char *from = xasprintf("/" IMAGE_KIT_FOLDER "/%s", kit[i]);
		_cleanup_free_ char *to = xasprintf(SEAM "/%s", kit[i]);

		if (fs_exists(AT_FDCWD, from))
			show(from, to);
	}
	if (*build->ofed)
		show("/" OFED_SOURCES, "/" OFED_SOURCES);
	enter();
	for (size_t i = 0; i < links->count; i++) {
		int length = (int) strcspn(links->items[i], " ");

		make_link(links->items[i] + length + 1, "/%.*s", length, links->items[i]);
	}
	make_link(headers, SEAM "/kernel/lib/modules/%s/build", build->request->krel);
	make_link(source, SEAM "/kernel/lib/modules/%s/source", build->request->krel);
	if (!*build->ofed)
		return;
	/* OFED's headers in the layout of a module set. */
	make_link(build->ofed, "%s/%s/%s", ofed, arch_here()->uname, build->request->krel);
	make_link(build->ofed, "%s/default", ofed);
	if (fs_write_atomic(AT_FDCWD, SEAM "/ofed/set.conf", build->ofed_conf,
		    strlen(build->ofed_conf), 0644) < 0)
		fail(SEAM "/ofed/set.conf");
}

static _Noreturn void run_recipe(const struct node_recipe *recipe)
{
	static const char *const fixed[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" SEAM "/work",
		"SLIPWAY_KERNEL=" SEAM "/kernel",
		"SLIPWAY_SOURCE=" SEAM "/source",
		"SLIPWAY_PATCHES=" SEAM "/patches",
		"SLIPWAY_ADDONS=" SEAM "/addons",
		"SLIPWAY_OUTPUT=" SEAM "/output",
		"SLIPWAY_WORK=" SEAM "/work",
		"SLIPWAY_NVIDIA=" SEAM "/nvidia",
	};
	const struct node_build *build = recipe->build;
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		xstrv_push(&environment, fixed[i]);
	xstrv_pushf(&environment, "SLIPWAY_ARCH=%s", arch_here()->uname);
	xstrv_pushf(&environment, "SLIPWAY_KREL=%s", build->request->krel);
	xstrv_pushf(&environment, "SLIPWAY_CC=%s", build->compiler);
	xstrv_pushf(&environment, "SLIPWAY_JOBS=%u", recipe->limits.jobs);
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

int sandbox_work(void *context)
{
	const struct node_recipe *recipe = context;
	const struct node_build *build = recipe->build;
	const struct headers *headers = &build->headers;
	/* Its memory goes with this process. */
	struct tree *trees = xcalloc(headers->folders.count + 3, sizeof(*trees));
	size_t count = 0;

	for (size_t i = 0; i < headers->folders.count; i++)
		trees[count++] = (struct tree){
			.from_fd = headers->root_fd,
			.from = headers->folders.items[i],
			.to = xasprintf("/%s", headers->folders.items[i]),
		};
	trees[count++] = (struct tree){
		.from_fd = recipe->work_fd, .from = "work", .to = SEAM "/work", .writable = true
	};
	trees[count++] = (struct tree){
		.from_fd = recipe->work_fd, .from = "output", .to = SEAM "/output", .writable = true
	};
	if (*build->nvidia)
		trees[count++] = (struct tree){ .from_fd = build->request->root_fd,
			.from = build->nvidia,
			.to = SEAM "/nvidia" };
	clone_all(build, trees, count);
	/* No network: what is compiled is in the image and on the host. */
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 ||
		mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("new name spaces");
	place(build, trees, count);
	run_recipe(recipe);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/lock.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/engine/pod.h"

/* How long we come back for those who look: a second in all. */
#define LOOKER_TRIES   500
#define LOOKER_WAIT_US 2000

static int make_folder(int root_fd, const char *path)
{
	char folder[PATH_MAX];
	char *slash;

	(void) snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash)
		return 0;
	*slash = '\0';
	return fs_mkdir_parents(root_fd, folder, 0755);
}

/* Between our open and our lock the holder may have removed the file: then ours has no name. */
static bool has_name(int root_fd, const char *path, int fd)
{
	struct stat ours;
	struct stat named;

	return fstat(fd, &ours) == 0 && fstatat(root_fd, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static int write_pid(int fd)
{
	char pid[16];
	int length = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());

	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t) length, 0) != length)
		return -EIO;
	return 0;
}

/*
 * Whose lock it is, as far as the file tells: its number is one of the holder's process ids, which
 * are the host's, and ours, in an operator's pods. "" where that is not known.
 */
static void describe_holder(int root_fd, int fd, char *text, size_t size)
{
	char number[16] = "";
	char where[POD_TEXT_SIZE] = "";
	struct pod pod;
	long pid;

	text[0] = '\0';
	if (pread(fd, number, sizeof(number) - 1, 0) <= 0)
		return;
	pid = strtol(number, NULL, 10);
	if (pid <= 0 || pid > INT32_MAX)
		return;
	if (pod_of_process(root_fd, (pid_t) pid, &pod))
		pod_text(&pod, where);
	(void) snprintf(text, size, " (process %ld%s%s)", pid, *where ? ", " : "", where);
}

static int refuse_held(int root_fd, const char *path, int fd, struct error *error)
{
	char holder[POD_TEXT_SIZE + 64];

	describe_holder(root_fd, fd, holder, sizeof(holder));
	return error_set(error, -EBUSY,
		"another driver container holds /%s%s: two must not drive one node: let the old "
		"pod end, and see that only one DaemonSet selects the node",
		path, holder);
}

static int refuse_file(const char *path, int code, struct error *error)
{
	const char *slash = strrchr(path, '/');

	return error_set_errno(error, code,
		"the lock file /%s cannot be written (the hostPath /%.*s has to be mounted there, "
		"writable, and the pod to be privileged)",
		path, slash ? (int) (slash - path) : 0, path);
}

/*
 * Those who only look hold it shared for a moment (lock_is_held()): where it can be had shared, no
 * driver container has it, and we come a moment later. False: one has it.
 */
static bool lock_alone(int fd)
{
	for (int tries = 0; tries < LOOKER_TRIES; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (flock(fd, LOCK_SH | LOCK_NB) < 0)
			return false;
		(void) flock(fd, LOCK_UN);
		(void) usleep(LOOKER_WAIT_US);
	}
	return false;
}

int lock_take(int root_fd, const char *path, int *ret_fd, struct error *error)
{
	int r = make_folder(root_fd, path);

	if (r < 0)
		return error_set_errno(error, r,
			"the folder of /%s cannot be made (the operator's hostPath has to be "
			"mounted there, writable)",
			path);
	for (;;) {
		_cleanup_close_ int fd = openat(root_fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			return refuse_file(path, -errno, error);
		if (!lock_alone(fd))
			return refuse_held(root_fd, path, fd, error);
		if (!has_name(root_fd, path, fd))
			continue;
		r = write_pid(fd);
		if (r < 0)
			return refuse_file(path, r, error);
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
}

void lock_let_go(int root_fd, const char *path, int fd)
{
	(void) unlinkat(root_fd, path, 0);
	(void) close(fd);
}

bool lock_is_held(int root_fd, const char *path)
{
	_cleanup_close_ int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/lock_file.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/engine/pod.h"

/* How long we come back for readers: a second in all. */
#define READER_TRIES   500
#define READER_WAIT_US 2000

/*
 * Names whose lock it is, as far as known: the number in the file is one of the holder's process
 * ids, which are the host's, and ours, in an operator's pods.
 */
static int refuse_held(int root_fd, const char *path, int fd, struct error *error)
{
	char holder[POD_TEXT_SIZE + 64] = "";
	char where[POD_TEXT_SIZE] = "";
	char number[16] = "";
	struct pod pod;
	long pid = 0;

	if (pread(fd, number, sizeof(number) - 1, 0) > 0)
		pid = strtol(number, NULL, 10);
	if (pid > 0 && pid <= INT32_MAX) {
		if (pod_of_process(root_fd, (pid_t) pid, &pod))
			pod_text(&pod, where);
		(void) snprintf(holder, sizeof(holder), " (process %ld%s%s)", pid,
			*where ? ", " : "", where);
	}
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

bool lock_alone(int fd)
{
	/* If a shared lock is granted, only a reader holds it, no container: try again. */
	for (int tries = 0; tries < READER_TRIES; tries++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (flock(fd, LOCK_SH | LOCK_NB) < 0)
			return false;
		(void) flock(fd, LOCK_UN);
		(void) usleep(READER_WAIT_US);
	}
	return false;
}

int lock_take(int root_fd, const char *path, int *ret_fd, struct error *error)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash ? strndup(path, (size_t) (slash - path)) : NULL;
	int r = folder ? fs_mkdir_parents(root_fd, folder, 0755) : slash ? -ENOMEM : 0;

	if (r < 0)
		return error_set_errno(error, r,
			"the folder of /%s cannot be made (the operator's hostPath has to be "
			"mounted there, writable)",
			path);
	for (;;) {
		_cleanup_close_ int fd = openat(root_fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		struct stat ours, named;
		char pid[16];
		int length = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());

		if (fd < 0)
			return refuse_file(path, -errno, error);
		if (!lock_alone(fd))
			return refuse_held(root_fd, path, fd, error);
		/* Since our open the holder may have removed the file: ours has no name then. */
		if (fstat(fd, &ours) < 0 ||
			fstatat(root_fd, path, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
			ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)
			continue;
		if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t) length, 0) != length)
			return refuse_file(path, -EIO, error);
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
}

void lock_let_go(int root_fd, const char *path, int *fd)
{
	(void) unlinkat(root_fd, path, 0);
	cleanup_close(fd);
}

bool lock_is_held(int root_fd, const char *path)
{
	_cleanup_close_ int fd = fs_open(root_fd, path, O_RDONLY);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/network_journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/owned.h"
#include "common/within.h"
#include "entrypoint/netstate/network.h"

#define PLACE_PATH NIC_STATE_FOLDER "/nic.journal"
#define DONE_PATH  NIC_STATE_FOLDER "/nic.journal-done"

#define MARK_SIZE 128

static char *own_path(const struct nic *nic)
{
	char *path;

	return asprintf(&path, "%s/network.journal", nic->inputs.journal_folder) < 0 ? NULL : path;
}

/* A journal is written by a rename: another one is another file. False when there is none. */
static bool mark_of(int root_fd, const char *path, char mark[MARK_SIZE])
{
	struct stat st;

	if (fstatat(root_fd, path, &st, 0) < 0)
		return false;
	(void) snprintf(mark, MARK_SIZE, "%llu %llu %lld.%09ld %lld",
		(unsigned long long) st.st_dev, (unsigned long long) st.st_ino,
		(long long) st.st_ctim.tv_sec, st.st_ctim.tv_nsec, (long long) st.st_size);
	return true;
}

static bool is_done(int root_fd, const char *path)
{
	_cleanup_free_ char *done = NULL;
	char mark[MARK_SIZE];

	return fs_read_line(root_fd, DONE_PATH, &done) == 0 && mark_of(root_fd, path, mark) &&
	       strcmp(done, mark) == 0;
}

/* The '/' before the last two parts of a path: the journal's folder, and the journal. */
static const char *base_end(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash && slash > path && *--slash != '/')
		;
	return slash > path ? slash : NULL;
}

/*
 * It says what is written to /proc/sys and to devices: the folder that holds it was judged when
 * the life that noted it began, and by who may write to it since.
 */
static int look_who_owns(int root_fd, const char *path, struct error *why)
{
	const char *end = base_end(path);
	_cleanup_free_ char *base = end ? strndup(path, (size_t) (end - path)) : strdup(".");
	_cleanup_close_ int base_fd = -1;
	_cleanup_close_ int fd = -1;

	if (!base)
		return error_set_errno(why, -ENOMEM, "/%s", path);
	base_fd = open_in_root(root_fd, base, O_RDONLY | O_DIRECTORY);
	if (base_fd < 0)
		return error_set_errno(why, base_fd, "/%s", path);
	fd = open_owned(base_fd, end ? end + 1 : path, O_RDONLY, why);
	return fd < 0 ? fd : 0;
}

static bool is_to_do(int root_fd, const char *path)
{
	struct error ignored; /* nic_journal_is_distrusted() */

	return network_is_saved(root_fd, path) && !is_done(root_fd, path) &&
	       look_who_owns(root_fd, path, &ignored) == 0;
}

bool nic_journal_is_distrusted(int root_fd, struct error *why)
{
	_cleanup_free_ char *place = NULL;

	return fs_read_line(root_fd, PLACE_PATH, &place) == 0 && *place &&
	       network_is_saved(root_fd, place) && !is_done(root_fd, place) &&
	       look_who_owns(root_fd, place, why) < 0;
}

char *nic_journal_path(const struct nic *nic)
{
	_cleanup_free_ char *place = NULL;
	int root_fd = nic->role.root_fd;

	if (fs_read_line(root_fd, PLACE_PATH, &place) == 0 && *place && is_to_do(root_fd, place))
		return TAKE_PTR(place);
	return own_path(nic);
}

bool nic_journal_is_there(const struct nic *nic)
{
	_cleanup_free_ char *path = nic_journal_path(nic);

	return path && is_to_do(nic->role.root_fd, path);
}

bool nic_journal_is_for_next_start(const struct nic *nic)
{
	_cleanup_free_ char *path = nic_journal_path(nic);

	return path && is_to_do(nic->role.root_fd, path) &&
	       network_is_owed(nic->role.root_fd, path);
}

int nic_journal_begin(const struct nic *nic, const char *path, struct error *error)
{
	int root_fd = nic->role.root_fd;
	int r;

	if (network_is_saved(root_fd, path) && !is_to_do(root_fd, path) &&
		unlinkat(root_fd, path, 0) < 0)
		return error_set_errno(
			error, -errno, "/%s, of a swap that is over, cannot be removed", path);
	(void) unlinkat(root_fd, DONE_PATH, 0);
	r = fs_write_atomic(root_fd, PLACE_PATH, path, strlen(path), 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", PLACE_PATH) : 0;
}

int nic_journal_end(const struct nic *nic, const char *path, struct error *error)
{
	int root_fd = nic->role.root_fd;
	char mark[MARK_SIZE];
	int r;

	if (!mark_of(root_fd, path, mark)) {
		(void) unlinkat(root_fd, PLACE_PATH, 0);
		return 0;
	}
	r = fs_write_atomic(root_fd, DONE_PATH, mark, strlen(mark), 0644);
	return r < 0 ? error_set_errno(error, r, "/%s", DONE_PATH) : 0;
}

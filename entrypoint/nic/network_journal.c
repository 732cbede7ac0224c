/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/network_journal.h"

#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/network/network.h"

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

static bool is_to_do(int root_fd, const char *path)
{
	return network_is_saved(root_fd, path) && !is_done(root_fd, path);
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

	if (is_done(root_fd, path) && unlinkat(root_fd, path, 0) < 0 && errno != ENOENT)
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

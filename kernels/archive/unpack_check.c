/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting ".." in a link's text says where it leads only as long as no part of its way is a link
 * itself: with "here -> .", the text "here/here/../.." leads out although it looks balanced. So the
 * kernel is asked, when all links are there.
 */
#include "kernels/archive/unpack_check.h"

#include <fcntl.h>
#include <fts.h>
#include <string.h>

#include "common/path.h"

static void fts_done(FTS **tree)
{
	if (*tree)
		(void) fts_close(*tree);
}

/*
 * A link whose target is not there (yet) is no harm; one that would leave the folder is, and one of
 * which it cannot be told might be.
 */
static int check_link(int folder_fd, const char *path, const char *archive, struct error *error)
{
	_cleanup_close_ int fd = open_beneath(folder_fd, path, O_PATH);

	if (fd >= 0 || fd == -ENOENT)
		return 0;
	if (fd == -EXDEV)
		return error_set(error, -EXDEV,
			"%s: %s leads out of the archive by way of other links: it is not used",
			archive, path);
	return error_set_errno(error, fd, "%s: where %s leads cannot be told", archive, path);
}

int unpack_check_links(const char *folder, const char *archive, struct error *error)
{
	_cleanup_free_ char *top = strdup(folder);
	char *const tops[] = { top, NULL };
	_cleanup_(fts_done) FTS *tree =
		top ? fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t skip = strlen(folder) + 1;
	const FTSENT *entry;
	int r = 0;

	if (!tree || fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	while (r == 0 && (entry = fts_read(tree))) {
		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			return error_set_errno(error, -entry->fts_errno, "%s", entry->fts_path);
		if (entry->fts_info == FTS_SL)
			r = check_link(fd, entry->fts_path + skip, archive, error);
	}
	return r;
}

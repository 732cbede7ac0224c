/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "kernels/archive/archive_input.h"

static int read_entry(struct archive_input *input, struct archive_entry *entry, const char *path,
	size_t limit, char **ret_text, size_t *ret_size, struct error *error)
{
	la_int64_t size = archive_entry_size(entry);
	_cleanup_free_ char *text = NULL;

	if (size < 0 || (uint64_t) size > limit)
		return error_set(error, -EBADMSG, "%s: %s has more than %zu bytes: it is none",
			path, archive_input_path(entry), limit);
	text = calloc(1, (size_t) size + 1);
	if (!text)
		return error_set_errno(error, -ENOMEM, "%s", path);
	if (archive_read_data(input->reader, text, (size_t) size) != size)
		return archive_input_damaged(path, input->reader, error);
	*ret_text = TAKE_PTR(text);
	*ret_size = (size_t) size;
	return 0;
}

int archive_member_read(const char *path, const char *name, size_t limit, char **ret_text,
	size_t *ret_size, struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input input;
	int r = archive_input_open(&input, ARCHIVE_KIND_TAR, AT_FDCWD, path, NULL, error);

	while (r == 0) {
		struct archive_entry *entry;
		int state = archive_read_next_header(input.reader, &entry);

		if (state == ARCHIVE_EOF)
			return error_set(error, -ENOENT, "%s: it has no %s", path, name);
		if (state < ARCHIVE_WARN)
			return archive_input_damaged(path, input.reader, error);
		if (archive_input_path(entry) && strcmp(archive_input_path(entry), name) == 0)
			return read_entry(&input, entry, path, limit, ret_text, ret_size, error);
	}
	return r;
}

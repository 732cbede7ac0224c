/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of an archive. */
#include <string.h>

#include "kernels/local/local_scan.h"

#define TEXT_LIMIT ((size_t) 1 << 20)

static int read_text(struct archive_input *input, const char *name, const char *path,
	la_int64_t size, char **ret_text, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	la_ssize_t got;

	if (size < 0 || (uint64_t) size > TEXT_LIMIT)
		return error_set(error, -EBADMSG, "%s: %s is too big to be one", name, path);
	text = calloc(1, (size_t) size + 1);
	if (!text)
		return error_set_errno(error, -ENOMEM, "%s", name);
	got = archive_read_data(input->reader, text, (size_t) size);
	if (got < 0)
		return archive_input_damaged(name, input->reader, error);
	*ret_text = TAKE_PTR(text);
	return 0;
}

/* "a/b/.wh.c" says that a layer removes a/b/c; "a/b/.wh..wh..opq" all that was in a/b. */
static int take_whiteout(const char *path, struct strv *whiteouts, bool *ret_taken)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t length = (size_t) (base - path);

	*ret_taken = strncmp(base, ".wh.", 4) == 0;
	if (!*ret_taken)
		return 0;
	if (strcmp(base, ".wh..wh..opq") == 0)
		return strv_pushf(whiteouts, "%.*s", (int) (length ? length - 1 : 0), path);
	if (strncmp(base, ".wh..wh.", 8) == 0)
		return 0; /* the storage driver's own */
	return strv_pushf(whiteouts, "%.*s%s", (int) length, path, base + 4);
}

static int scan_entry(struct local_scan *scan, struct archive_input *input, const char *name,
	struct archive_entry *entry, struct strv *whiteouts, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	bool content, taken = false;
	int r = 0;

	if (!archive_input_path(entry))
		return 0;
	path = strdup(archive_input_path(entry));
	if (!path)
		return error_set_errno(error, -ENOMEM, "%s", name);
	if (whiteouts)
		r = take_whiteout(path, whiteouts, &taken);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	if (taken || archive_entry_filetype(entry) != AE_IFREG || !local_scan_wants(path, &content))
		return 0;
	if (content)
		r = read_text(input, name, path, archive_entry_size(entry), &text, error);
	if (r < 0)
		return r;
	r = local_scan_add(scan, path, text);
	return r < 0 ? error_set_errno(error, r, "%s", name) : 0;
}

int local_scan_archive(struct local_scan *scan, struct archive_input *input, const char *name,
	struct strv *whiteouts, struct error *error)
{
	for (;;) {
		struct archive_entry *entry;
		int r = archive_read_next_header(input->reader, &entry);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			return archive_input_damaged(name, input->reader, error);
		r = scan_entry(scan, input, name, entry, whiteouts, error);
		if (r < 0)
			return r;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive, loaded by the first archive that is opened: see common/late_library.h. */
#include "kernels/archive/archive_late.h"

#include <archive.h>
#include <archive_entry.h>
#include <pthread.h>
#include <stdarg.h>

#include "common/cleanup.h"
#include "common/late_library.h"

#define ARCHIVE_CALLS(X)                                                                           \
	X(mode_t, archive_entry_filetype, (struct archive_entry * entry), (entry))                 \
	X(void, archive_entry_free, (struct archive_entry * entry), (entry))                       \
	X(const char *, archive_entry_hardlink, (struct archive_entry * entry), (entry))           \
	X(struct archive_entry *, archive_entry_new, (void), ())                                   \
	X(const char *, archive_entry_pathname, (struct archive_entry * entry), (entry))           \
	X(mode_t, archive_entry_perm, (struct archive_entry * entry), (entry))                     \
	X(void, archive_entry_set_filetype, (struct archive_entry * entry, unsigned int type),     \
		(entry, type))                                                                     \
	X(void, archive_entry_set_hardlink, (struct archive_entry * entry, const char *text),      \
		(entry, text))                                                                     \
	X(void, archive_entry_set_mtime,                                                           \
		(struct archive_entry * entry, time_t time, long nanoseconds),                     \
		(entry, time, nanoseconds))                                                        \
	X(void, archive_entry_set_pathname, (struct archive_entry * entry, const char *text),      \
		(entry, text))                                                                     \
	X(void, archive_entry_set_perm, (struct archive_entry * entry, mode_t mode),               \
		(entry, mode))                                                                     \
	X(void, archive_entry_set_size, (struct archive_entry * entry, la_int64_t size),           \
		(entry, size))                                                                     \
	X(void, archive_entry_set_symlink, (struct archive_entry * entry, const char *text),       \
		(entry, text))                                                                     \
	X(la_int64_t, archive_entry_size, (struct archive_entry * entry), (entry))                 \
	X(const char *, archive_entry_symlink, (struct archive_entry * entry), (entry))            \
	X(int, archive_errno, (struct archive * archive), (archive))                               \
	X(const char *, archive_error_string, (struct archive * archive), (archive))               \
	X(la_int64_t, archive_filter_bytes, (struct archive * archive, int number),                \
		(archive, number))                                                                 \
	X(int, archive_read_append_filter, (struct archive * archive, int number),                 \
		(archive, number))                                                                 \
	X(la_ssize_t, archive_read_data, (struct archive * archive, void *data, size_t size),      \
		(archive, data, size))                                                             \
	X(int, archive_read_data_block,                                                            \
		(struct archive * a, const void **buff, size_t *size, la_int64_t *offset),         \
		(a, buff, size, offset))                                                           \
	X(int, archive_read_free, (struct archive * archive), (archive))                           \
	X(struct archive *, archive_read_new, (void), ())                                          \
	X(int, archive_read_next_header,                                                           \
		(struct archive * archive, struct archive_entry * *entry), (archive, entry))       \
	X(int, archive_read_open,                                                                  \
		(struct archive * archive, void *client_data, archive_open_callback *on_open,      \
			archive_read_callback *on_read, archive_close_callback *on_close),         \
		(archive, client_data, on_open, on_read, on_close))                                \
	X(int, archive_read_open_fd, (struct archive * archive, int fd, size_t block_size),        \
		(archive, fd, block_size))                                                         \
	X(int, archive_read_open_filename,                                                         \
		(struct archive * archive, const char *filename, size_t block_size),               \
		(archive, filename, block_size))                                                   \
	X(int, archive_read_support_filter_bzip2, (struct archive * archive), (archive))           \
	X(int, archive_read_support_filter_gzip, (struct archive * archive), (archive))            \
	X(int, archive_read_support_filter_lzma, (struct archive * archive), (archive))            \
	X(int, archive_read_support_filter_rpm, (struct archive * archive), (archive))             \
	X(int, archive_read_support_filter_xz, (struct archive * archive), (archive))              \
	X(int, archive_read_support_filter_zstd, (struct archive * archive), (archive))            \
	X(int, archive_read_support_format_ar, (struct archive * archive), (archive))              \
	X(int, archive_read_support_format_cpio, (struct archive * archive), (archive))            \
	X(int, archive_read_support_format_empty, (struct archive * archive), (archive))           \
	X(int, archive_read_support_format_raw, (struct archive * archive), (archive))             \
	X(int, archive_read_support_format_tar, (struct archive * archive), (archive))             \
	X(int, archive_write_add_filter_zstd, (struct archive * archive), (archive))               \
	X(int, archive_write_close, (struct archive * archive), (archive))                         \
	X(la_ssize_t, archive_write_data,                                                          \
		(struct archive * archive, const void *data, size_t size), (archive, data, size))  \
	X(la_ssize_t, archive_write_data_block,                                                    \
		(struct archive * archive, const void *data, size_t size, la_int64_t size2),       \
		(archive, data, size, size2))                                                      \
	X(struct archive *, archive_write_disk_new, (void), ())                                    \
	X(int, archive_write_disk_set_options, (struct archive * archive, int flags),              \
		(archive, flags))                                                                  \
	X(int, archive_write_finish_entry, (struct archive * archive), (archive))                  \
	X(int, archive_write_free, (struct archive * archive), (archive))                          \
	X(int, archive_write_header, (struct archive * archive, struct archive_entry * entry),     \
		(archive, entry))                                                                  \
	X(struct archive *, archive_write_new, (void), ())                                         \
	X(int, archive_write_open_fd, (struct archive * archive, int fd), (archive, fd))           \
	X(int, archive_write_set_filter_option,                                                    \
		(struct archive * a, const char *m, const char *o, const char *v), (a, m, o, v))   \
	X(int, archive_write_set_format_pax_restricted, (struct archive * archive), (archive))

struct archive_calls {
	ARCHIVE_CALLS(LATE_MEMBER)
	__typeof__(&archive_set_error) archive_set_error;
};

/* Filled once, and the same for all from then on. */
static struct archive_calls table;

static void open_library(void)
{
	const struct late_call all[] = { ARCHIVE_CALLS(LATE_CALL){
		"archive_set_error", (void **) (void *) &table.archive_set_error } };

	late_library_open("libarchive.so.13", all, ARRAY_SIZE(all));
}

static const struct archive_calls *calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void) pthread_once(&once, open_library);
	return &table;
}

void archive_late_load(void)
{
	(void) calls();
}

ARCHIVE_CALLS(LATE_FUNCTION)

void archive_set_error(struct archive *archive, int code, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	calls()->archive_set_error(archive, code, "%s", text);
}

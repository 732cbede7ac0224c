/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives opened for reading by libarchive, whatever wraps them: a tarball, the data.tar of a
 * Debian package (deb(5)), the cpio archive of an RPM package, or a member of a tarball that is an
 * archive itself, as a layer in an OCI archive is. Only compressions that libarchive decodes
 * itself: it starts no program.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "common/error.h"

enum archive_kind {
	ARCHIVE_KIND_TAR, /* and what nobody can tell: opening it says so */
	ARCHIVE_KIND_DEB,
	ARCHIVE_KIND_RPM,
};

struct archive_input {
	struct archive *reader; /* positioned before the first entry */
	struct archive *outer;  /* the archive that it is a member of; NULL: none */
	int fd;
	char block[16384];
};

/* By the first bytes, never by the name. Negative errno when it cannot be read. */
int archive_input_kind(int dir_fd, const char *path, enum archive_kind *ret_kind) _must_check_;

/*
 * Opens a file of that kind; with @member (a tarball only) the archive in the entry of this name.
 * -EBADMSG when it is no such archive, -ENOENT without the member. The caller closes it with
 * archive_input_close(), also after a failure.
 */
int archive_input_open(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct error *error) _must_check_;
void archive_input_close(struct archive_input *input);

/* -EBADMSG, with what @archive says of its failure. */
int archive_input_damaged(const char *name, struct archive *archive, struct error *error);

/* An entry's path without leading "./"; NULL when it has none. Borrowed from the entry. */
const char *archive_input_path(struct archive_entry *entry);

/*
 * Reads the entry @name of the tarball at @path, packed or not. -ENOENT when it has none, -EBADMSG
 * when it is damaged or the entry has more than @limit bytes. The caller frees the text, which ends
 * with a NUL that @ret_size does not count.
 */
int archive_member_read(const char *path, const char *name, size_t limit, char **ret_text,
	size_t *ret_size, struct error *error) _must_check_;

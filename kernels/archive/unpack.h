/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives opened for reading by libarchive, whatever wraps them: a tarball, also one behind a
 * shell script, the data.tar of a Debian package (deb(5)), the cpio archive of an RPM package, or a
 * member of a tarball that is an archive itself, as a layer in an OCI archive is. Only compressions
 * that libarchive decodes itself: it starts no program.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

enum archive_kind {
	ARCHIVE_KIND_TAR, /* in any of these compressions; and all else: opening it fails */
	ARCHIVE_KIND_DEB, /* its data */
	ARCHIVE_KIND_RPM, /* likewise. Its digests are not looked at: hash the whole file first */
	ARCHIVE_KIND_RUN, /* the tarball in NVIDIA's installer, which is checked first (makeself.h)
			   */
	ARCHIVE_KIND_FOLDER, /* no archive: a folder of somebody else's, as a mounted image is */
};

struct archive_input {
	struct archive *reader; /* positioned before the first entry */
	struct archive *outer;  /* the archive that it is a member of; NULL: none */
	struct hash *hash;      /* of the member's bytes as they are read; NULL: not asked for */
	int fd;
	char block[16384];
};

/* Detects the kind by the first bytes, never by the name. Negative errno when it cannot be read. */
int archive_input_kind(int dir_fd, const char *path, enum archive_kind *ret_kind) _must_check_;

/*
 * For a file that cannot be unpacked: does it begin as an archive does, or as a web page, or can it
 * not even be read? Then the error says what is wrong. Otherwise it is no archive at all.
 */
bool archive_looks_damaged(const char *path);

/*
 * Opens a file of that kind; with @member (a tarball only) the archive in the entry of this name.
 * -EBADMSG when it is no such archive, -ENOENT without the member. The caller closes it with
 * archive_input_close(), also after a failure.
 */
int archive_input_open(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct error *error) _must_check_;
void archive_input_close(struct archive_input *input);

/* -EBADMSG, with @archive's own message. */
int archive_input_damaged(const char *name, struct archive *archive, struct error *error);

/* An entry's path without leading "./"; NULL when it has none. Borrowed from the entry. */
const char *archive_input_path(struct archive_entry *entry);

/* Target of a hard link, in the same form; NULL: the entry is no hard link. */
const char *archive_input_hardlink(struct archive_entry *entry);

/*
 * Reads the entry @name of the tarball at @path, packed or not. -ENOENT when it has none, -EBADMSG
 * when it is damaged or the entry has more than @limit bytes. The caller frees the text, which ends
 * with a NUL that @ret_size does not count.
 */
int archive_member_read(const char *path, const char *name, size_t limit, char **ret_text,
	size_t *ret_size, struct error *error) _must_check_;

/*
 * Archives from outside, into a folder and never beyond it. An absolute path, a ".." component, a
 * link that leads out (also by way of other links) and a device are -EXDEV; absolute links, which
 * Debian's packages have, become relative ones to the same place below the folder. Owners are not
 * restored, and set-id bits are dropped. Where a hard link that is wanted leads to what is not, as
 * to the files of OSTree's repository in an image, the archive is read once more, and that is taken
 * as well. What is larger than the limits, or unpacks to hundreds of
 * times its size, is -EFBIG; what is damaged or cut short is -EBADMSG; a full disk is -ENOSPC.
 * After a failure the folder holds a part of it, and is to be thrown away.
 */

#define UNPACK_LIMIT_BYTES   ((uint64_t) 32 << 30)
#define UNPACK_LIMIT_ENTRIES ((uint64_t) 1 << 20)

struct unpack {
	const char *folder; /* absolute or relative to the working directory; must exist */
	enum archive_kind kind;
	const char *member; /* of a tarball: the archive that is this entry of it; or NULL */
	/* Selects the entries to take, by their path without a leading "./"; NULL takes all. */
	bool (*wanted)(void *context, const char *path);
	/* Selects the files of which the name suffices: they become empty files. NULL: none. */
	bool (*name_only)(void *context, const char *path);
	void *context;
	/*
	 * Gets each entry that is not taken, and may read its content; an error ends the unpacking.
	 * NULL: none.
	 */
	int (*look)(void *context, struct archive_entry *entry, struct archive *reader,
		struct error *error);
	void *look_context;
	char *member_digest;  /* gets the member's SHA-256, HASH_HEX_SIZE bytes; NULL: not wanted */
	uint64_t limit_bytes; /* of all that is decoded; 0: UNPACK_LIMIT_BYTES */
	uint64_t limit_entries; /* 0: UNPACK_LIMIT_ENTRIES */
};

int unpack_run(const struct unpack *unpack, int dir_fd, const char *path,
	struct error *error) _must_check_;

/* The same of a Debian or RPM package, whichever its first bytes say. */
int unpack_package(const struct unpack *unpack, int dir_fd, const char *path,
	struct error *error) _must_check_;

/*
 * Does every link in @folder stay below it, by whatever other links it goes? Each archive that is
 * unpacked is asked; where several were put into one folder, so is that one. -EXDEV.
 */
int unpack_check_links(const char *folder, const char *name, struct error *error) _must_check_;

/* Is it absolute, or has it a ".." component? */
bool unpack_leads_out(const char *path);

/* The link text that leads from @path (not empty) to @target, another path in the same root. */
char *unpack_relative_link(const char *path, const char *target);

/*
 * Returns the target of a link at @path with this text, computed from the texts alone, without "."
 * and "..". "" is the top, where absolute targets start. NULL when it leads out; freed by the
 * caller.
 */
char *unpack_link_target(const char *path, const char *target);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of state on disk that has to last: records, one a line, that a person can read and
 * the next run of the container takes up again after SIGKILL or a power loss: the network's state,
 * the journals of the host's files and of a swap of modules, the lists of a role. (Four small files
 * have lines of their own, or of "key=value": gpu.fingerprint, ofed.fingerprint, nic.report,
 * gpu.daemons. They only report, or save work: one that is lost or damaged costs nothing that was
 * there before us.)
 *
 *   link device=pci/0000:3b:00.0 name=ens1f0 mtu=9000 …
 *
 * A record is a kind and fields. A value is printable ASCII; '%', space, newline and whatever else
 * is not are written as %XX. The first line is the journal's own word and "1", the last "end": a
 * file without it was never finished and is not read. It is written beside its place, synced with
 * its folder, and renamed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct record_field {
	char *name;
	char *value;
};

struct record {
	char *kind;
	struct record_field *fields;
	size_t count;
};

/* In the order in which they were added. Owned: statefile_free(). */
struct statefile {
	const char *word; /* which journal it is; NULL: the network's, "slipway-network" */
	struct record *items;
	size_t count;
};

void statefile_free(struct statefile *records);

/* A new record at the end; NULL without memory. Valid until the next one is added. */
struct record *statefile_add(struct statefile *records, const char *kind);
/* Takes out the one that was added last. */
void statefile_drop(struct statefile *records);
/* Takes out those that @is_kept does not want. */
void statefile_keep(struct statefile *records, bool (*is_kept)(const struct record *record));
/* Strings are copied. -ENOMEM. */
int record_set(struct record *record, const char *name, const char *value) _must_check_;
int record_setf(struct record *record, const char *name, const char *format, ...)
	_printf_(3, 4) _must_check_;
/* Bytes as hexadecimal digits. */
int record_set_hex(
	struct record *record, const char *name, const void *data, size_t size) _must_check_;

/* NULL when there is no such field. */
const char *record_get(const struct record *record, const char *name);
/* Decimal or 0x…; -ENOENT without the field, -EINVAL when it is no number. */
int record_get_u64(const struct record *record, const char *name, uint64_t *ret);
/* Returns how many bytes, at most @size; -ENOENT, -EINVAL, or -EOVERFLOW when there are more. */
int record_get_hex(const struct record *record, const char *name, void *data, size_t size);

/*
 * Can it be one part of a path, a name of fewer than @size bytes? Not "", "..", nor with a slash.
 */
bool record_is_part(const char *text, size_t size);

/* Writes and syncs file and folder, which is made. -EFBIG: more than statefile_read() takes. */
int statefile_write(
	int root_fd, const char *path, const struct statefile *records, struct error *error);
/* -ENOENT: there is none. -EBADMSG: damaged or unfinished, @error names the line. */
int statefile_read(int root_fd, const char *path, struct statefile *records, struct error *error);

/* The same in memory. statefile_render(): a new string; -EINVAL for a name that is none. */
int statefile_render(
	const struct statefile *records, char **ret_text, size_t *ret_size) _must_check_;
/* @path: what @error calls it. */
int statefile_parse(const char *text, size_t size, const char *path, struct statefile *records,
	struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a .tar.zst, or a .tar, with nothing but libzstd, for a program that runs on nodes:
 * POSIX.1-2001 tar (pax headers where a name is too long for ustar's), no owners, no times.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

struct pack;

/* Starts an archive at @fd, which stays the caller's. */
struct pack *pack_new(int fd);
/* The same of an archive that is not compressed. */
struct pack *pack_new_plain(int fd);
/* Before the first entry: @look gets all bytes of the tar file, before they are compressed. */
void pack_watch(struct pack *pack, void (*look)(void *context, const void *data, size_t size),
	void *context);
/* Each adds one entry. Negative errno when it cannot be read, or not be written. */
int pack_folder(struct pack *pack, const char *path) _must_check_;
int pack_text(struct pack *pack, const char *path, const void *data, size_t size) _must_check_;
int pack_file(struct pack *pack, const char *path, const char *from) _must_check_;
/* @read returns bytes, 0 at the end, or a negative errno, which is then the result. */
int pack_stream(struct pack *pack, const char *path, uint64_t size,
	ssize_t (*read)(void *context, void *buffer, size_t size), void *context) _must_check_;
int pack_link(struct pack *pack, const char *path, const char *target) _must_check_;
/* Ends the archive. */
int pack_finish(struct pack *pack) _must_check_;
void pack_free(struct pack **pack);
/* Bytes that have been written so far. */
uint64_t pack_size(const struct pack *pack);

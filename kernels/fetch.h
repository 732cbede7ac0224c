/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages of a lock in a content-addressed store: each file lies under its SHA-256, is checked
 * against it when it arrives, and appears by a rename.
 */
#pragma once

#include <stdbool.h>

#include "kernels/apt.h"
#include "kernels/lock.h"

struct fetch {
	const struct apt *apt;
	int store_fd;       /* blobs/sha256 */
	const char *folder; /* where downloads land first: on the store's file system, ours alone */
};

/*
 * Makes the packages present that are @wanted (by purpose; NULL: all). -EBADMSG when a file is not
 * what the lock says; -EHOSTUNREACH when apt cannot fetch it. @on_missing (may be NULL) is called
 * before the first download with how many packages and bytes are to come.
 */
int fetch_packages(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* The packages of a lock, brought into the store (kernels/fetch/store.h). */
#pragma once

#include "common/hash.h"
#include "kernels/catalogue.h"
#include "kernels/fetch/download.h"
#include "kernels/resolve/lock.h"
#include "kernels/repo/mirrors.h"
#include "kernels/fetch/store.h"

struct fetch {
	const struct store *store;
	struct download *download;
	/* Who to be at the mirrors of a lock's repositories. */
	const struct catalogue *os;
	const struct mirrors *mirrors;
	/* For repositories whose packages are signed, and not their lists (kernels/catalogue.h). */
	int scratch_fd; /* a folder for files that are gone when it returns */
	const char *keyring;
	bool allow_unsigned;
	struct strv *without_signature; /* gets the names of what that let pass; or NULL */
	bool trusted;                   /* the maker of the lock has checked the signatures */
};

/*
 * Makes the packages present that are for @purpose (NULL: all). Errors and @on_missing as
 * store_fetch()'s; -EKEYREJECTED for a package that has to carry a good signature and does not:
 * also an .rpm of a repository that the catalogue does not know; -EBADMSG for one whose header has
 * another name, version or architecture than the lock.
 */
int fetch_packages(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error) _must_check_;

/*
 * Adds to a key how a package's own signature is looked at (not, by the maker of the bundle, or
 * with which keys), so that what was made of it under --allow-unsigned is not taken by a run
 * without. Nothing where the list's signature speaks for the package.
 */
void fetch_add_trust(
	const struct fetch *fetch, const struct lock_package *package, struct hash *hash);

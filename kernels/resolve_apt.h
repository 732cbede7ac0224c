/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a kernel release to the exact packages of a build. A kernel release is data: it is compared
 * with the names in the lists, byte by byte, and never becomes part of a pattern.
 */
#pragma once

#include "kernels/apt.h"
#include "kernels/lock.h"
#include "kernels/resolve.h"

/* Of the resolver that this one gives way to. */
#define resolve_extra    apt_resolve_extra
#define resolve_request  apt_resolve_request
#define resolve          apt_resolve
#define resolve_upstream apt_resolve_upstream
#define resolve_newest   apt_resolve_newest
#define resolve_nearest  apt_resolve_nearest

struct resolve_extra {
	const char *name; /* a package that the build needs beside the kernel's */
	const char *purpose;
	/*
	 * Where set: only the packaging of the same upstream version as this package's will do, and
	 * when one extra of the purpose has none, all of the purpose are left out.
	 */
	const char *same_upstream_as;
};

struct resolve_request {
	const char *krel; /* as uname -r prints it, or "newest" */
	const struct catalogue *os;
	const struct resolve_extra *extras;
	size_t extra_count;
};

/*
 * Fills a lock. -ENODATA when no package is for this kernel, with the nearest releases that there
 * are in @error; -ENOENT when an extra package is not in the lists. The caller frees the lock with
 * lock_free().
 */
int resolve(struct apt *apt, const struct resolve_request *request, struct lock *ret,
	struct error *error) _must_check_;

/* The upstream part of a Debian version: without epoch and revision. The caller frees it. */
char *resolve_upstream(const char *version);

/*
 * The newest release of the distribution's series and flavour among package names; NULL when there
 * is none. Borrowed from @names.
 */
const char *resolve_newest(const struct strv *names, const struct catalogue *os);

/* Appends up to six releases next to @krel in order, of its own flavour where there is one. */
int resolve_nearest(const struct strv *names, const char *krel, struct strv *nearest) _must_check_;

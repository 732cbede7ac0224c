/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of resolving over open lists, which kernels/resolve/resolve.c puts together. */
#pragma once

#include "kernels/resolve/resolve.h"
#include "kernels/resolve/resolve_match.h"

/* What a resolution works on. */
struct resolution {
	struct match_scope scope;
	const struct resolve_request *request;
	struct lock lock;
	struct trace *trace;
	const struct index *home;     /* the list that has the headers; NULL: none has */
	const struct package *anchor; /* the headers, whose version and source all else goes by */
	struct found_list headers;    /* all that were taken */
};

/* Adds it to the lock, with its repository; one that is in the lock already is not added again. */
int resolution_add(
	struct resolution *resolution, const struct found *found, const char *purpose) _must_check_;

/*
 * Adds the headers of the newest build of the kernel all of whose packages are there, with what
 * belongs to them, its modules, and the compiler. Modules may be lacking: they are then in no list.
 * -ENODATA when there is no such kernel.
 */
int resolve_kernel(struct resolution *resolution, struct error *error) _must_check_;

/*
 * Adds the packages of the headers' own source that they depend on, and what those depend on.
 * -ENODATA when one is in no list.
 */
int resolve_walk(struct resolution *resolution, struct error *error) _must_check_;

/*
 * Sets the lock's compiler with its evidence: a package that the headers depend on names it, or the
 * catalogue does. Where nothing tells, it is "", and the tree's own configuration decides.
 */
int resolve_compiler(struct resolution *resolution, struct error *error) _must_check_;

/* "gcc-12" of "gcc-12-for-host" and "clang-16"; the caller frees it; NULL for other names. */
char *resolve_compiler_name(const char *package);

/* Adds the request's extras. -ENOENT when one is in no list. */
int resolve_extras(struct resolution *resolution, struct error *error) _must_check_;

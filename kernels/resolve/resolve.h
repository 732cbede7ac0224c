/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a kernel release to the exact packages of a build. A kernel release is data: it is compared
 * with what is in the lists, byte by byte, and never becomes part of a pattern.
 */
#pragma once

#include "kernels/repo/index.h"
#include "kernels/resolve/lock.h"
#include "kernels/repo/mirrors.h"

/* Every place that was looked in for a kernel, and why it was or was not there: for --explain. */
#define TRACE_FOUND   "found"
#define TRACE_ABSENT  "absent"  /* asked, and not there */
#define TRACE_SKIPPED "skipped" /* not asked: no mirror is known, or an earlier place had it */
#define TRACE_FAILED  "failed"  /* could not be asked */

struct trace_entry {
	const char *outcome; /* one of the above */
	char *repository;    /* the catalogue's name of it; "" for what is about all */
	char *url;           /* "" where there is none */
	char *text;          /* what was looked for and what was there instead */
};

struct trace {
	struct trace_entry *entries;
	size_t count;
};

/* Appends an entry; copies the other texts. */
void trace_add(struct trace *trace, const char *outcome, const char *repository, const char *url,
	const char *format, ...) _printf_(5, 6);
void trace_free(struct trace *trace);

struct resolve_extra {
	const char *name; /* a package that the build needs beside the kernel's */
	const char *purpose;
	/*
	 * If set: only the packaging of the same upstream version as this package's is taken; when
	 * a non-optional extra of the purpose has none, all of the purpose are left out.
	 */
	const char *same_upstream_as;
	bool optional;      /* where no list has it, the build does without */
	bool beside_kernel; /* of the version of the headers, where the lists have that */
};

struct resolve_request {
	const char *krel; /* as uname -r prints it, or KREL_NEWEST */
	const char *arch; /* as uname -m prints it */
	/* That of the machine that compiles: catalogue "tools" are for it. NULL: for @arch. */
	const char *machine;
	const struct catalogue *os;
	bool has_headers; /* they come from elsewhere, by --kernel-from: not looked for */
	bool has_modules;
	bool strict; /* resolve_in(): modules of the headers' own build, or -ENODATA; resolve()
		      * itself tries both
		      */
	const struct resolve_extra *extras;
	size_t extra_count;
};

/* The repositories to ask. */
struct resolve_places {
	const struct mirrors *mirrors;
	const struct index_options *options;
	const char *snapshot; /* a time that archives know: "20260901T000000Z"; or NULL */
};

struct resolve_answer {
	struct lock lock;
	struct trace trace;    /* every place; also filled when resolve() fails */
	struct strv warnings;  /* "security: the list is 3 days old: …" */
	struct strv compilers; /* "gcc-12", "clang-16": that the distribution's lists have */
};

/*
 * Asks the distribution's repositories, and its archives when none of those has the kernel. A
 * repository that answered wrongly (its signature, a hash, a broken list) ends it with that error;
 * one that could not be reached is a warning where the others have the answer, and the error else.
 *
 * -ENODATA when all answered and there is no such kernel, with the nearest releases in @error;
 * -ENOENT when an extra package is nowhere; -EILSEQ for a text that is no release; -ENOMEDIUM when
 * no mirror is known for any of the repositories; else the codes of indexes_open(). The caller
 * frees *ret with resolve_answer_free(), also after a failure.
 */
int resolve(const struct resolve_places *places, const struct resolve_request *request,
	struct resolve_answer *ret, struct error *error) _must_check_;
void resolve_answer_free(struct resolve_answer *answer);

/*
 * The same over lists that are open: those whose result is not 0 are skipped. -ENODATA leaves
 * @error empty of nearest releases: resolve() adds them.
 */
int resolve_in(const struct index *indexes, size_t count, const struct resolve_request *request,
	struct lock *ret, struct trace *trace, struct error *error) _must_check_;

/*
 * Are packages of the catalogue's "tools" looked for in lists of their own, those of the machine
 * that compiles?
 */
bool resolve_has_tools(const struct catalogue *os, const struct resolve_request *request);

/* Appends every kernel release that the open lists have packages for, oldest first. */
void resolve_releases(
	const struct index *indexes, size_t count, const struct catalogue *os, struct strv *krels);

/* Opens the distribution's lists and appends every release in them. Errors as resolve()'s. */
int resolve_list(const struct resolve_places *places, const struct resolve_request *request,
	struct strv *krels, struct resolve_answer *ret, struct error *error) _must_check_;

/*
 * The newest of the distribution's series and flavour for a machine, as uname -m calls it, among
 * @krels; or NULL. Borrowed.
 */
const char *resolve_newest(const struct strv *krels, const struct catalogue *os, const char *arch);

/*
 * The release that an update brings to a node that runs @krel: the newest of its flavour among
 * @krels, and of its series unless the distribution has none. NULL where the lists have
 * none that is as new as @krel. Borrowed.
 */
const char *resolve_update(const struct strv *krels, const struct catalogue *os, const char *krel);

/* Appends up to six of @krels next to @krel, of its own flavour where there is one. */
void resolve_nearest(const struct strv *krels, const struct catalogue *os, const char *krel,
	struct strv *nearest);

/*
 * The one of @krels that a mistyped @krel may stand for, or NULL. Only where none has its flavour:
 * a number that is not there is no slip of the hand. Borrowed.
 */
const char *resolve_meant(const struct strv *krels, const struct catalogue *os, const char *krel);

/* The upstream part of a package's version: without epoch and revision. The caller frees it. */
char *resolve_upstream(const char *version);

/* "gcc-12" of "gcc-12-for-host" and "clang-16"; the caller frees it; NULL for other names. */
char *resolve_compiler_name(const char *package);

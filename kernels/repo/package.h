/* SPDX-License-Identifier: Apache-2.0 */
/* A package as the list of a repository has it: what apt's and rpm's lists have in common. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/error.h"

/* Every string is there, "" where the list has none. */
struct package {
	char *name;
	char *version; /* apt's as it stands; rpm's as [epoch:]version-release, epoch 0 left out */
	char *architecture; /* as the list has it: "amd64", "all", "x86_64", "noarch" */
	char *source;       /* source package, without version: "linux", "kernel" */
	/*
	 * As apt writes Depends; rpm's Requires in the same syntax, less what has a parenthesis in
	 * its name: sonames, kernel symbols, rich dependencies.
	 */
	char *depends;
	char *provides; /* "name (= version), …", in the same syntax, with the same exception */
	char *path;     /* below the repository's base URL */
	char *sha256;   /* lower-case hex */
	uint64_t size_bytes;
};

/* A package need not be larger than what it may unpack to: UNPACK_LIMIT_BYTES. */
#define PACKAGE_LIMIT_BYTES ((uint64_t) 32 << 30)

void package_free(struct package *package);

/*
 * Refuses (-EPROTO) what a list must not name: a path that leads out of the repository, a name or
 * version with blanks or control characters, a SHA-256 that is none, a size of 0 bytes or above
 * PACKAGE_LIMIT_BYTES. @list is for messages.
 */
int package_check(
	const struct package *package, const char *list, struct error *error) _must_check_;

/* Is it a relative path of printable characters without blanks, "." or ".."? */
bool package_path_is_safe(const char *path);

/* Writes it as a stanza of apt's Packages, with the fields above and a blank line. */
void package_write(const struct package *package, FILE *file);

/*
 * The kept packages of one list take no more memory than this. A list may come unsigned, or is read
 * before its hash is checked, and a million packages fit into 6 MB of it. Debian 12's main has some
 * 550 packages to keep, in half a megabyte.
 */
#define PACKAGE_LIST_LIMIT_BYTES ((size_t) 64 << 20)

struct package_list {
	struct package *items;
	size_t count;
	size_t capacity;
	size_t bytes; /* that all its packages take */
};

/*
 * Takes over the package's strings; -EFBIG, and they stay the caller's, when the list would grow
 * above PACKAGE_LIST_LIMIT_BYTES. @name is the list's, for messages.
 */
int package_list_push(struct package_list *list, struct package *package, const char *name,
	struct error *error) _must_check_;
/*
 * Sorts by name, then version (version_compare()), then architecture; keeps one of equal packages.
 */
void package_list_sort(struct package_list *list);
void package_list_free(struct package_list *list);

/*
 * Relations between packages, in the syntax of deb-control(5)'s Depends and Provides, in which
 * rpm's are written here too: "name (= version), name | alternative (>= version)
 * [arch]".
 */

struct relation {
	char *name;
	char *sign;       /* "=", ">=" …; "" without a version */
	char *version;    /* "" without */
	bool alternative; /* instead of the one before it */
};

/*
 * Replaces the relation by the next one from *@cursor on, which is moved behind it; false at the
 * end. What is malformed is skipped.
 */
bool relation_next(const char **cursor, struct relation *relation) _must_check_;
void relation_free(struct relation *relation);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock: every input of a build by name, version, URL, size and SHA-256. As a file it is JSON,
 * sorted, so that two of them can be compared with diff; slipway-lock(5) has the schema.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LOCK_SCHEMA 2

/* The purpose of a package in the build. */
#define LOCK_HEADERS          "headers"
#define LOCK_MODULES          "modules"
#define LOCK_OFED_SOURCE      "ofed-source"
#define LOCK_NVIDIA_SOURCE    "nvidia-source"
#define LOCK_NVIDIA_USERSPACE "nvidia-userspace"

/* The longest file that is read as a lock. */
#define LOCK_LIMIT_BYTES ((size_t) 4 << 20)

/* No string of these is NULL in a lock that was resolved or read; "" where there is nothing. */
struct lock_package {
	char *name;
	char *version;
	char *architecture; /* as the list has it: "amd64", "all", "x86_64" */
	char *purpose;      /* one of the above */
	char *repository;   /* name in the lock's repositories, which is the catalogue's */
	char *url;
	char *sha256; /* 64 lower-case hex digits */
	uint64_t size_bytes;
};

/* A package list that packages of the lock were found in. */
struct lock_repository {
	char *name; /* the catalogue's: "security" */
	char *url;  /* base */
	char *suite;
	char *release_sha256; /* of the signed file: InRelease, repomd.xml */
	char *date;           /* that this file gives itself */
	char *signer;         /* fingerprint of the key; "" when nothing signs the list */
};

/* A file or folder of the user's, by --kernel-from. */
struct lock_local {
	char *kind;   /* what kernels/local/local.h found it to be */
	char *name;   /* last part of the path that it was named by */
	char *sha256; /* of its content */
};

/* A package of a build root, what modules or slipway-init were compiled in. */
struct lock_root_package {
	char *root; /* "build-root", "init-root" or "runtime-base" */
	char *name;
	char *version;
	char *architecture;
	char *checksum; /* of the .deb or .rpm, as its repository's list has it */
};

struct lock {
	char *krel;
	char *os;                /* the catalogue's name */
	char *arch;              /* as uname -m prints it: "x86_64" */
	char *compiler;          /* "gcc-12": what the kernel was made with; "": not known */
	char *compiler_evidence; /* where that is from, for people */
	struct lock_repository *repositories;
	size_t repository_count;
	struct lock_local *kernel_from;
	size_t kernel_from_count;
	struct lock_package *packages;
	size_t count; /* of packages; each count stands behind its list (kernels/json_fields.h) */
	struct lock_root_package *root_packages; /* none before a root is made */
	size_t root_package_count;
};

/* Each takes the thing over (it is emptied), keeping its list sorted. A repository of a name that
 * is there already is dropped. */
void lock_add(struct lock *lock, struct lock_package *package);
void lock_add_repository(struct lock *lock, struct lock_repository *repository);
/* In the order of the command line, which decides between them. */
void lock_add_local(struct lock *lock, struct lock_local *local);

/* The first package for @purpose, or of this name, or NULL. */
const struct lock_package *lock_find(const struct lock *lock, const char *purpose);
const struct lock_package *lock_find_name(const struct lock *lock, const char *name);

/*
 * Replaces the lock's list of the packages in a root: @text has a line "NAME VERSION ARCH CHECKSUM"
 * for each. Returns how many differ from the previous list, 0 also if there was none.
 */
size_t lock_set_root(struct lock *lock, const char *root, const char *text);
/* Returns that text, freed by the caller, or NULL: the lock has no list for this root. */
char *lock_root_text(const struct lock *lock, const char *root);

/* Returns the JSON text, freed by the caller. */
char *lock_write(const struct lock *lock);

/* Reads such a text. -EBADMSG with the missing or wrong field in @error. */
int lock_read(const char *text, struct lock *ret, struct error *error) _must_check_;

/* Reads such a file; the path is in front of each message. */
int lock_read_file(
	int dir_fd, const char *path, struct lock *ret, struct error *error) _must_check_;

void lock_package_free(struct lock_package *package);
void lock_free(struct lock *lock);

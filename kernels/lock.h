/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock: every input of a build by name, version, URL, size and SHA-256. As a file it is JSON,
 * sorted, so that two of them can be compared with diff; docs/lock.md has the schema.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* What a package is in the build for. */
#define LOCK_HEADERS          "headers"
#define LOCK_MODULES          "modules"
#define LOCK_COMPILER         "compiler"
#define LOCK_OFED_SOURCE      "ofed-source"
#define LOCK_NVIDIA_SOURCE    "nvidia-source"
#define LOCK_NVIDIA_USERSPACE "nvidia-userspace"

struct lock_package {
	char *name;
	char *version;
	char *architecture;
	char *purpose;
	char *url;
	char *sha256;
	uint64_t size_bytes;
};

struct lock {
	char *krel;
	char *os;
	char *arch;     /* as Debian names it: "amd64" */
	char *compiler; /* "gcc-12": what the headers' packages ask for */
	struct lock_package *packages;
	size_t count;
};

/* Takes the package over (it is emptied), keeping the list sorted by name and version. */
int lock_add(struct lock *lock, struct lock_package *package) _must_check_;

/* The first package for @purpose, or NULL. */
const struct lock_package *lock_find(const struct lock *lock, const char *purpose);

/* Returns the JSON text, freed by the caller, or NULL without memory. */
char *lock_write(const struct lock *lock);

/* Reads such a text. -EBADMSG with the missing or wrong field in @error. */
int lock_read(const char *text, struct lock *ret, struct error *error) _must_check_;

void lock_package_free(struct lock_package *package);
void lock_free(struct lock *lock);

/* SPDX-License-Identifier: Apache-2.0 */
/* A package as the list of a repository has it: what apt's and rpm's lists have in common. */
#pragma once

#include <stdint.h>

#include "common/cleanup.h"

/* Every string is there, "" where the list has none. */
struct package {
	char *name;
	char *version; /* apt's as it stands; rpm's as [epoch:]version-release, epoch 0 left out */
	char *architecture; /* as the list has it: "amd64", "all", "x86_64", "noarch" */
	char *source;       /* source package, without version: "linux", "kernel" */
	char *depends;      /* as apt writes Depends; rpm's Requires in the same syntax */
	char *provides;     /* "name (= version), …", in the same syntax */
	char *path;         /* below the repository's base URL */
	char *sha256;       /* lower-case hex */
	uint64_t size_bytes;
};

void package_free(struct package *package);

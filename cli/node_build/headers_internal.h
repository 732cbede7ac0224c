/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's headers as they lie in a root: the host's, the container's own, or a tree that was
 * fetched. Their makefiles and links name other folders, some by absolute paths: what is named has
 * to be seen at the same path where a recipe runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/strv.h"

struct headers {
	int root_fd;  /* what all paths are relative to, our own copy; -1: none */
	char *build;  /* where lib/modules/<krel>/build leads */
	char *source; /* where …/source leads, or the same */
	/* Folders that a recipe needs at their own paths, sorted. */
	struct strv folders;
	/* Links between them, "path target" each. */
	struct strv links;
};

#define HEADERS_NONE                                                                               \
	{                                                                                          \
		.root_fd = -1                                                                      \
	}

/*
 * Finds the headers of @krel below @root_fd. -ENOENT without them, naming what to install; -EINVAL
 * for a tree that is not prepared, or of another kernel. The caller closes @ret.
 */
int headers_open(int root_fd, const char *krel, struct headers *ret, struct error *error);
void headers_close(struct headers *headers);

/* Reads the kernel's configuration. The caller frees the text. */
int headers_config(const struct headers *headers, char **ret_text, struct error *error);

/* Appends lines that tell these from every other build of a kernel of its name. */
void headers_identity(const struct headers *headers, struct strv *lines);

/*
 * What the distribution of @host_fd calls the package with the headers: "the package
 * linux-headers-… (apt-get install)"; where that cannot be told, the names that there are. @krel:
 * "6.1.0-56-amd64", "5.14.0-503.el9.x86_64+rt", "6.4.0-150600.23.25-default".
 */
void headers_package(int host_fd, const char *krel, char *text, size_t size);

/* Distributions build a kernel again under its name: UTS_VERSION tells one build from the other. */
struct kernel_builds {
	char running[65];  /* uname -v; "": another kernel runs */
	char headers[128]; /* "": they do not say it */
};

/* Of the kernel @krel, whose headers lie below @root_fd as lib/modules/<krel>/build. */
void kernel_builds_read(int root_fd, const char *krel, struct kernel_builds *ret);
/* Are both known, and not the same? Where a distribution's headers are made apart from the kernel,
 * that is no proof that they do not fit. */
bool kernel_builds_differ(const struct kernel_builds *builds);

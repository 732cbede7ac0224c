/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading one module from one file, with options of the caller's choice: for a build that is no
 * tree's own, such as a module that was replaced and comes back. What it depends on is loaded
 * already. Runs in a worker.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/engine/worker.h"

struct insertion {
	int root_fd;
	const char *path;    /* .ko, plain or packed, relative to root_fd */
	const char *name;    /* as the kernel will know it, for messages */
	const char *options; /* "name=value …" */
	bool *ret_taken;     /* set when the kernel took it from this file; NULL: nobody asks */
	int *kmsg_fd;        /* of kmsg_open_at_end(), for one module after the other: opened when
				it is -1, the caller closes it. NULL: opened for this one */
};

/*
 * 0 when it is loaded, or when a module of that name was there already (the caller looks whose
 * build it is). Else what the kernel said, as loader_load() says it.
 */
int insert_file(const struct insertion *insertion, struct worker *worker, enum reason *reason,
	struct error *error);

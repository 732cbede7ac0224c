/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's headers by way of the tool that an image of --sources-image carries: slipway with its
 * libraries, the catalogue, the mirrors and the keys (cli/stage/node_tool.h). It finds and checks
 * them as a build does: signed lists, and packages by the digests in these.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/worker.h"

#define FETCH_TOOL        "usr/lib/slipway/tool"
#define FETCH_DEADLINE_MS UINT64_C(600000)

/* Of its tool.conf. */
struct fetch_tool {
	char os[64]; /* whose lists it asks: a name of the catalogue */
	char id[64]; /* of that distribution's os-release */
	char version_id[64];
	char keyring[256]; /* the keys that count, or "": those that the catalogue names */
};

/* -ENOENT for an image without such a tool; -EINVAL for one whose tool.conf names no os. */
int fetch_tool_read(int root_fd, struct fetch_tool *ret, struct error *error);

/* Is the tool's distribution the host's? Also where the host's os-release tells nothing. */
bool fetch_tool_fits(const struct fetch_tool *tool, int host_fd);

/* What is run, and its whole environment, for a tree as @folder/output. @folder is absolute. */
int fetch_command(const struct fetch_tool *tool, const char *krel, const char *folder,
	struct strv *argv, struct strv *environment);

/*
 * In a worker: runs the tool, tells what it says, and waits for its end, FETCH_DEADLINE_MS at most.
 * Whatever ends the worker ends it, too. It has the network and no right but to the files that it
 * makes. All that it prints is appended to @log_fd. The tree is then @folder/output; -EIO,
 * -ETIMEDOUT, or -ENOSPC where @folder's disk is full, with the tool's own word.
 */
int fetch_headers(const struct fetch_tool *tool, const char *krel, const char *folder, int log_fd,
	struct worker *worker, struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image of --sources-image carries to find a kernel's headers by itself, where its node has
 * none: this program with the libraries and the loader that it runs with here, the distribution's
 * catalogue, where its mirrors are, and the keys that sign its lists. Below NODE_TOOL_FOLDER:
 *   lib/                    the loader, as "loader", and the libraries
 *   slipway, tool.conf      the program; "os=", "id=" and "version_id=" as the catalogue and
 *                           os-release have them and, where the build had --keyring, "keyring="
 *   data/, mirrors.ini      what SLIPWAY_DATADIR and SLIPWAY_MIRRORS name
 * Keys lie where the catalogue says. entrypoint/node_build/fetch.h runs it.
 */
#pragma once

#include "cli/stage/build.h"

#define NODE_TOOL_FOLDER "usr/lib/slipway/tool"

/*
 * Looks where the mirrors are, once the distribution is known; a note says when no node could ask
 * one of them, and the images have no such tool then. An error is one of what says where they are
 * (mirrors.h).
 */
int node_tool_open(struct build *build, struct error *error) _must_check_;

/* Is there a tool that would be of use in the images? */
bool node_tool_applies(const struct build *build);
/* Adds all that it is to an image's key. */
int node_tool_add_inputs(
	const struct build *build, struct hash *hash, struct error *error) _must_check_;
/* Puts it below the image's root. */
int node_tool_stage(const struct build *build, int root_fd, struct error *error) _must_check_;

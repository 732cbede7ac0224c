/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image of --sources-image carries to compile on a node, and to find a kernel's headers
 * where the node has none: this program with the libraries and the loader that it runs with here,
 * the distribution's catalogue, where its mirrors are, and the keys that sign its lists. Below
 * NODE_TOOL_FOLDER:
 *   lib/                    the loader, as "loader", and the libraries
 *   slipway, tool.conf      the program; "os=", "id=" and "version_id=" as the catalogue and
 *                           os-release have them and, where the build had --keyring, "keyring="
 *   data/, mirrors.ini      what SLIPWAY_DATADIR and SLIPWAY_MIRRORS name; no mirrors.ini where no
 *                           mirror is known that a node may ask: such an image fetches nothing
 * Keys lie where the catalogue says. entrypoint/node_build/ runs its verb node-build.
 */
#pragma once

#include "cli/stage/build.h"

#define NODE_TOOL_FOLDER "usr/lib/slipway/tool"

/*
 * Looks where the mirrors are, once the distribution is known; a note says when no node could ask
 * one of them. -EINVAL for images of another architecture; else an error is one of what says where
 * the mirrors are (mirrors.h).
 */
int node_tool_open(struct build *build, struct error *error) _must_check_;

/* Do the images get it? */
bool node_tool_applies(const struct build *build);
/* Is a mirror known that any node may ask? */
bool node_tool_fetches(const struct build *build);
/* Adds all that it is to an image's key. */
int node_tool_add_inputs(
	const struct build *build, struct hash *hash, struct error *error) _must_check_;
/* Puts it below the image's root. */
int node_tool_stage(const struct build *build, int root_fd, struct error *error) _must_check_;

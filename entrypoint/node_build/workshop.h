/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a recipe runs on a node: a child with mount, process and network name spaces of its own,
 * in which the host's headers lie at their own paths and seam 1 of docs/architecture.md holds. All
 * of it ends with the child: a worker that is killed leaves no compiler behind.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"
#include "entrypoint/node_build/host_tree.h"

struct workshop {
	int root_fd; /* of the image */
	int host_fd; /* of the host's root */
	const struct host_tree *tree;
	const char *krel;
	const char *recipe; /* "nvidia", "peermem", "ofed" */
	const char *compiler;
	unsigned jobs;
	const char *kit;             /* the kit's folder, relative to the root */
	const struct strv *settings; /* "NAME=value" of the recipe's environment */
	/*
	 * In a container without privileges, with headers of its own: no name spaces; the recipe
	 * sees links below the folder to work in. What it starts ends with the container.
	 */
	bool in_place;
	int work_fd;           /* a folder with the empty folders "output" and "work" */
	const char *ofed;      /* the folder with OFED's Module.symvers, absolute, or NULL */
	const char *ofed_conf; /* text of its set.conf */
	const char *nvidia;    /* what NVIDIA's modules export, relative to the root, or NULL */
};

/*
 * Starts the recipe. *ret_fd is where its output can be read, to the end. The child dies with its
 * parent. What goes wrong before the recipe runs is a line "Error: …" of that output.
 */
int workshop_start(
	const struct workshop *workshop, pid_t *ret_pid, int *ret_fd, struct error *error);

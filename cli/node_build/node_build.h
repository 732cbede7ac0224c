/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling a driver on a node, in an image of slipway build --sources-image, which carries this
 * program and the kit: recipes, patches and the driver's source (cli/stage/base.c). Headers
 * and what the modules depend on are the host's own, or fetched from its distribution. What was
 * compiled stays on the node.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"
#include "common/strv.h"

struct node_build_request {
	int root_fd;        /* of the image */
	const char *krel;   /* the kernel */
	const char *recipe; /* of the kit: "nvidia", "peermem" or "ofed" */
	const char *host;   /* where the host's root is seen, an absolute path */
	/* The folder that SLIPWAY_NODE_CACHE names, or NULL; it has to serve as the node's cache.
	 */
	const char *chosen_cache;
	/* Else this one, on the host's disk; where that is NULL or cannot be written to, one of the
	 * container's own. */
	const char *usual_cache;
	struct strv settings; /* "NAME=value" of the recipe's environment, and inputs of the set */
	unsigned max_jobs;    /* 0: as many as the container has room for */
	bool host_headers;    /* headers are not fetched, nor are fetched ones used */
	/* The verb resolve, which is called in a child for headers from the distribution. */
	int (*resolve)(char **argv);
	FILE *notes; /* a line "==> …" for whatever is worth one */
};

/*
 * Takes the set from the node's cache, or compiles it and keeps it there; puts the modules, what
 * they depend on and depmod's files below the image's lib/modules, and what the load proof wants to
 * know of the kernel below usr/lib/slipway/kernels. The recipe "peermem" makes nvidia-peermem
 * alone, for the OFED below run/mellanox/drivers/usr/src/ofa_kernel, over the image's. -EOPNOTSUPP:
 * that OFED has no peer-memory interface; any other errno: the build failed, @error says why.
 */
int node_build_run(const struct node_build_request *request, struct error *error);

/* Removes what a build that was killed left in the node's cache. */
void node_build_clear(const struct node_build_request *request);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling on the node, where the image has no modules for the kernel that runs but carries the
 * kit for it: recipes, the driver's source, the distribution's compiler, and the `slipway` tool,
 * whose verb node-build does the work (cli/node_build/). Here: is it wanted, run it, adopt its set.
 */
#pragma once

#include "entrypoint/role/role.h"

/* The modules that a role compiles on a node, and where they are kept. */
struct nodebuild {
	const char *recipe; /* of the kit: its modules go below updates/<recipe> */
	const char *cache;  /* on the host's disk, as this container sees it, or NULL */
	/* If the image's set lacks this module, a set that has it is compiled; or NULL. */
	const char *needs;
	/* "NAME=value" each: what the recipe gets beside its inputs, and part of the key. */
	struct strv settings;
};

/* The GPU roles'. */
extern const struct nodebuild nodebuild_gpu;

/* Has the image no modules for the running kernel (or not all), and the means to make them? */
bool nodebuild_wanted(const void *role);

/* STEP_WORKER, stoppable: has the tool take the modules from the node's cache, or compile them and
 * keep them there, and put them, what they depend on and depmod's files below lib/modules. */
int nodebuild_run(struct action *action);

/* STEP_DIRECT: role_identify(), for the kernel that --kernel names instead of the running one. A
 * role that only compiles notes when there is nothing to compile. */
int nodebuild_identify(struct action *action);

/* STEP_WORKER, its undo: removes what a build that was killed left on the host. */
int nodebuild_clear(struct action *action);

/* Is role_read_image() still to be done, for what nodebuild_run() made? */
bool nodebuild_unread(const void *role);

/* Does the image carry the kit with which the role compiles on a node? */
bool nodebuild_has_kit(const struct role *role);

/*
 * In a worker, a few seconds: the tool compiles nvidia-peermem alone, for role->krel, against the
 * OFED whose headers the NIC container shows below run/mellanox/drivers/usr/src/ofa_kernel (with
 * USE_HOST_MOFED the host's own usr/src/ofa_kernel), or takes it from the node's cache, over
 * lib/modules/<krel>/updates/nvidia/nvidia-peermem.ko, with depmod. 0, or a negative errno with
 * action->reason (REASON_BUILD_FAILED; REASON_NO_PEER_MEMORY for an OFED without the interface) and
 * action->error.
 */
int nodebuild_peermem(struct action *action);

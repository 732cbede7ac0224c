/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling on the node, where the image has no modules for the kernel that runs but carries the
 * kit for it: recipes, the driver's source and the distribution's compiler (kit.h). Headers and
 * what the modules depend on are the host's own. What was compiled stays on the node (cache.h).
 */
#pragma once

#include "entrypoint/role/role.h"

/* What a role compiles on a node, and where that is kept. */
struct nodebuild {
	const char *recipe; /* of the kit: its modules go below updates/<recipe> */
	const char *role;   /* "gpu" or "nic": whose image the modules are for */
	const char *kit;    /* the kit's folder, relative to the root */
	const char
		*cache; /* on the host's disk, as this container sees it, or NULL (node_cache.h) */
	/* Of the image's set: without it one that has it is compiled all the same; or NULL. */
	const char *needs;
	/* "NAME=value" each: what the recipe is told beside its inputs, and part of the key. */
	struct strv settings;
	bool in_place; /* the container has no privileges: the recipe runs in it as it is */
};

/* The GPU roles'. */
extern const struct nodebuild nodebuild_gpu;

/* Has the image no modules for the running kernel (or not all), and the means to make them? */
bool nodebuild_wanted(const void *role);

/* STEP_WORKER, stoppable: takes the modules from the node's cache, or compiles them and keeps them
 * there; puts them, what they depend on and depmod's files below the image's lib/modules. */
int nodebuild_run(struct action *action);

/*
 * In a worker, stoppable: only the set, out of the cache or made now, to @folder, relative to the
 * root, with what the load proof wants to know of the kernel.
 */
int nodebuild_compile(struct action *action, const char *folder);

/* STEP_DIRECT: role_identify(), for the kernel that --kernel names instead of the running one. */
int nodebuild_identify(struct action *action);

/* STEP_WORKER, its undo: removes what a build that was killed left on the host. */
int nodebuild_clear(struct action *action);

/* STEP_DIRECT: reads what nodebuild_run() made, for the steps that follow. */
int nodebuild_adopt(struct action *action);
/* Is that still to be done? */
bool nodebuild_unread(const void *role);

/* Can this image compile nvidia-peermem? */
bool nodebuild_can_peermem(const struct role *role);

/*
 * In a worker, a few seconds: compiles nvidia-peermem alone, for role->krel, against the OFED whose
 * headers the NIC container shows below run/mellanox/drivers/usr/src/ofa_kernel (with
 * USE_HOST_MOFED the host's own usr/src/ofa_kernel), or takes it from the node's cache, and
 * renames it over lib/modules/<krel>/updates/nvidia/nvidia-peermem.ko, with depmod. 0, or a
 * negative errno with action->reason (REASON_BUILD_FAILED) and action->error: -ENOENT without a
 * kit, headers of the kernel or of OFED.
 */
int nodebuild_peermem(struct action *action);

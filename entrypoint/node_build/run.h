/* SPDX-License-Identifier: Apache-2.0 */
/* One recipe on the node, from what it is made of to the set in the node's cache. */
#pragma once

#include "entrypoint/node_build/host_tree.h"
#include "entrypoint/node_build/kit.h"
#include "entrypoint/node_build/node_cache.h"
#include "entrypoint/role/role.h"

struct node_run {
	struct action *action;
	const struct role *role;
	const char *recipe; /* "nvidia", "peermem", "ofed" */
	int host_fd;        /* -1 in a container that sees no host: OpenShift's driver toolkit */
	int tree_fd;        /* of the root that the headers lie in: the host's, or ours */
	struct kit kit;
	struct host_tree tree;
	struct node_cache cache;
	char compiler[32];
	struct strv inputs;
	char name[NAME_MAX];
	/* Peermem only: the folder with OFED's Module.symvers, absolute, and what is said of it. */
	char ofed[PATH_MAX];
	char ofed_conf[256];
	char nvidia[128]; /* what the driver's modules export, relative to the root */
};

/*
 * Opens kit, host and cache, finds the headers and the compiler, and lists the inputs. -errno with
 * the action's reason and error. The caller ends it with node_run_done(), also after a failure.
 */
int node_run_open(struct node_run *run, struct action *action, const char *recipe);
/*
 * The same where another container has headers and compiler (OpenShift's driver toolkit): the
 * running kernel itself stands for them among the inputs. For node_run_find() and node_run_keep().
 */
int node_run_open_away(struct node_run *run, struct action *action, const char *recipe);
void node_run_done(struct node_run *run);

/*
 * To be asked before something is put into the cache: one that is read-only by now is left for the
 * container's own, which is told. Was it? SLIPWAY_NODE_CACHE is not left.
 */
bool node_run_leave_read_only(struct node_run *run);

/* The set's folder out of the cache; -ENOENT when it is not there, or damaged, which is told. */
int node_run_find(struct node_run *run, int *ret_fd);
/* Keeps what another container made, a set below @set_fd. */
int node_run_keep(struct node_run *run, int set_fd);

/* The set's folder, out of the cache or made now. */
int node_run_make(struct node_run *run, int *ret_fd);

/* Puts the set, what it depends on and depmod's files below the image's lib/modules (install.h). */
int node_run_install(struct node_run *run, int set_fd);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to go so that the image's modules can come, and what comes back afterwards: worked out
 * from what the kernel says, before anything is touched.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/plan.h"
#include "module/elf_module.h"

/* Why a module that is not one of the image's is in the plan. */
enum swap_part {
	SWAP_OURS,        /* the image has one of that name */
	SWAP_STORAGE,     /* goes only with UNLOAD_STORAGE_MODULES, and comes back */
	SWAP_THIRD_PARTY, /* goes only with UNLOAD_THIRD_PARTY_RDMA_MODULES, and comes back */
	SWAP_AUXILIARY,   /* goes, and comes back when it will load on ours */
	SWAP_PEERMEM,     /* nvidia_peermem: asked to go, the GPU side loads it again */
	SWAP_OTHER,       /* nobody named it: goes when nobody uses it, and comes back */
};

struct swap_module {
	char name[64];
	char build_id[BUILD_ID_HEX_SIZE]; /* of the loaded one, or "" */
	enum swap_part part;
	char *options; /* "name=value …" that bring its parameters back, or "" */
};

struct swap_plan {
	bool same;              /* all that we would load is live, ours, with the same parameters */
	struct strv load;       /* the image's modules to be loaded, in order, dependencies first */
	struct swap_module *go; /* in order of removal */
	size_t go_count;
};

void swap_plan_free(struct swap_plan *plan);

/*
 * Kept on the node from before the first removal until nothing of it is owed any more, so that the
 * next life knows what to bring back: <state folder>/nic.swap, one record a line
 * (network/record.h).
 */
int swap_plan_write(
	int root_fd, const char *path, const struct swap_plan *plan, struct error *error);
int swap_plan_read(int root_fd, const char *path, struct swap_plan *plan, struct error *error);

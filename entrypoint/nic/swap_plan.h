/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to go so that the image's modules can come, and what comes back afterwards: worked out
 * from what the kernel says, before anything is touched.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/plan.h"
#include "module/elf.h"

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
	bool same; /* all that we would load is live, ours, with the same parameters */
	/*
	 * All that has to be there in the end, in order, dependencies first: also what is live
	 * already, and what the image's modules need of the kernel's own.
	 */
	struct strv load;
	struct swap_module *go; /* in order of removal: every loaded holder of one is in it */
	size_t go_count;
};

/* "ours", "storage", … as the file has it. */
const char *swap_part_name(enum swap_part part);

void swap_plan_free(struct swap_plan *plan);

/* Appends a copy of @module to go; its options may be NULL. -ENOMEM. */
int swap_plan_add(struct swap_plan *plan, const struct swap_module *module);

bool swap_plan_goes(const struct swap_plan *plan, const char *module);
/* Appends the names of go, in order. -ENOMEM. */
int swap_plan_going(const struct swap_plan *plan, struct strv *names);

/* A text file of records, one a line (engine/record.h). swap_plan_read() appends to @plan. */
int swap_plan_write(
	int root_fd, const char *path, const struct swap_plan *plan, struct error *error);
int swap_plan_read(int root_fd, const char *path, struct swap_plan *plan, struct error *error);

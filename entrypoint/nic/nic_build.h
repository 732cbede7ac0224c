/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NIC container compiles on the node when it is called with "sources" and its image has
 * the kit (entrypoint/nodebuild/): OFED for the kernel that runs. It is kept below the inventory,
 * a folder of the host's disk.
 */
#pragma once

#include "entrypoint/nic/inputs.h"
#include "entrypoint/nic/toolkit.h"
#include "entrypoint/node_build/nodebuild.h"

/*
 * A whole OFED with one job takes the better part of an hour. The operator's startup probe may end
 * the container before: the toolkit's goes on, and the next life waits for it again.
 */
#define NIC_BUILD_DEADLINE_MS   (3600 * 1000)
#define NIC_TOOLKIT_DEADLINE_MS (2400 * 1000)

struct nic_build {
	struct nodebuild build;
	char *cache; /* as this container sees it, or NULL: no inventory */
};

/* What the recipe is told (containers/recipes/ofed.sh), by the inputs. */
int nic_build_settings(const struct nic_inputs *inputs, struct strv *settings, struct error *error);

/*
 * By the inputs. Sets *ret_build, what the role's field of that name gets: NULL in the other modes,
 * which compile nothing. -ENOMEM. nic_build_free() in any case.
 */
int nic_build_read(struct nic_build *build, int root_fd, const struct nic_inputs *inputs,
	const struct nodebuild **ret_build, struct error *error);
void nic_build_free(struct nic_build *build);

/* Is it to be compiled, and in this container? */
bool nic_build_here(const void *role);

/* Of a plan, after the kernel was identified: the modules are there, or nothing makes them. */
#define NIC_BUILD_STEPS                                                                            \
	{ .name = "prepare-toolkit",                                                               \
		.wanted = nic_toolkit_wanted,                                                      \
		.kind = STEP_WORKER,                                                               \
		.perform = nic_toolkit_prepare,                                                    \
		.deadline_ms = 300 * 1000,                                                         \
		.stoppable = true,                                                                 \
		.undo_kind = STEP_WORKER,                                                          \
		.undo = nodebuild_clear,                                                           \
		.undo_deadline_ms = 60 * 1000,                                                     \
		.undo_share_ms = 3 * 1000 },                                                       \
		{ .name = "wait-toolkit",                                                          \
			.wanted = nic_toolkit_wanted,                                              \
			.kind = STEP_WAIT,                                                         \
			.perform = nic_toolkit_wait,                                               \
			.deadline_ms = NIC_TOOLKIT_DEADLINE_MS },                                  \
		{ .name = "take-modules",                                                          \
			.wanted = nic_toolkit_wanted,                                              \
			.kind = STEP_WORKER,                                                       \
			.perform = nic_toolkit_take,                                               \
			.deadline_ms = 300 * 1000,                                                 \
			.stoppable = true,                                                         \
			.undo_kind = STEP_WORKER,                                                  \
			.undo = nodebuild_clear,                                                   \
			.undo_deadline_ms = 60 * 1000,                                             \
			.undo_share_ms = 3 * 1000 },                                               \
		{ .name = "build-on-node",                                                         \
			.wanted = nic_build_here,                                                  \
			.kind = STEP_WORKER,                                                       \
			.perform = nodebuild_run,                                                  \
			.deadline_ms = NIC_BUILD_DEADLINE_MS,                                      \
			.stoppable = true,                                                         \
			.undo_kind = STEP_WORKER,                                                  \
			.undo = nodebuild_clear,                                                   \
			.undo_deadline_ms = 60 * 1000,                                             \
			.undo_share_ms = 3 * 1000 },                                               \
	{                                                                                          \
		.name = "read-build", .wanted = nodebuild_unread, .perform = nodebuild_adopt       \
	}

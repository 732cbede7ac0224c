/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NIC container compiles on the node when it is called with "sources" and its image has
 * the kit (entrypoint/node_build/): OFED for the kernel that runs. It is kept below the inventory,
 * a folder of the host's disk.
 */
#pragma once

#include "entrypoint/nic/inputs_internal.h"
#include "entrypoint/node_build/node_build.h"

/* A whole OFED with one job takes the better part of an hour. */
#define NIC_BUILD_DEADLINE_MS (3600 * 1000)

struct nic_build {
	struct nodebuild build;
	char *cache; /* as this container sees it, or NULL: no inventory */
};

/*
 * By the inputs. Sets *ret_build, what the role's field of that name gets: NULL in the other modes,
 * which compile nothing. -ENOMEM. nic_build_free() in any case.
 */
int nic_build_read(struct nic_build *build, int root_fd, const struct nic_inputs *inputs,
	const struct nodebuild **ret_build, struct error *error);
void nic_build_free(struct nic_build *build);

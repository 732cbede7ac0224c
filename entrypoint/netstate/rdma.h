/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of RDMA devices ("mlx5_2", or what udev made of it): the kernel gives them in the order of
 * coming, which is another one after VFs were made side by side, and workloads ask for them by
 * name. In the journal: "rdma device=pci/0000:3b:00.0 name=mlx5_0". Source: Linux
 * drivers/infiniband/core/nldev.c.
 */
#pragma once

#include "entrypoint/netstate/network.h"
#include "entrypoint/engine/statefile.h"

/*
 * Of the devices whose driver is one of network->modules; not those of which several belong to one
 * device. Those that @records has already are as they are there. -ENOMEM.
 */
int rdma_save(const struct network *network, struct statefile *records);

/*
 * Gives the names back, names that cross, too; a device is waited for as long as network->bind_ms
 * says. What cannot be is told as such. Takes its records out of @records.
 */
void rdma_restore(
	const struct network *network, struct statefile *records, struct network_result *result);

/* Of an earlier boot: the node's own udev has named them since. */
void rdma_forget(struct statefile *records);

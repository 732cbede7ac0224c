/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs and NICs of a node, as PCI functions below bridges. */
#pragma once

#include <linux/pci_regs.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/strv.h"
#include "entrypoint/role/pci.h"

/*
 * Words and meaning of `nvidia-smi topo -m`, whose legend has them; the closest first. A pair that
 * meets at a bridge is PIX if each side has at most one port below it, as within one switch.
 */
enum topo_relation { TOPO_PIX, TOPO_PXB, TOPO_PHB, TOPO_NODE, TOPO_SYS };

const char *topo_relation_name(enum topo_relation relation);

struct topo_function {
	struct pci_path path;
	struct pci_link link;
	int numa_node, iommu_group; /* -1: none */
	struct strv rdma_devices, interfaces;
};

/* A bridge's port below a bridge that a GPU and a NIC have in common. */
struct topo_port {
	char address[PCI_ADDRESS_SIZE];
	int acs; /* PCI_ACS_* bits of its control register; negative: not known */
};

struct topo {
	struct topo_function *gpus, *nics;
	size_t gpu_count, nic_count;
	struct topo_port *ports;
	size_t port_count;
};

/* The control bits that send traffic between two ports of a switch up to the host bridge. */
#define TOPO_ACS_REDIRECT (PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_UF)

/*
 * NICs are Mellanox network functions, and whatever else has an RDMA device. Returns 0 or a
 * negative errno; the caller frees it in any case.
 */
int topo_read(int root_fd, struct topo *topo);
void topo_free(struct topo *topo);

/* *ret_common: how many bridges they have in common, counted from the host bridge. */
enum topo_relation topo_relate(
	const struct topo_function *a, const struct topo_function *b, size_t *ret_common);

/*
 * Are there GPUs or NICs, and none of them below a bridge? Virtual machines mostly show their
 * devices so, whatever they are connected to.
 */
bool topo_is_flat(const struct topo *topo);

/*
 * Is the NIC as close to the GPU as any other is? NICs without an RDMA device count only if none
 * has one.
 */
bool topo_is_best(
	const struct topo *topo, const struct topo_function *gpu, const struct topo_function *nic);

/*
 * Calls @take for each port on the way between the two, below their last common bridge, until it
 * returns non-zero; returns that, or 0.
 */
int topo_each_port(const struct topo_function *a, const struct topo_function *b,
	int (*take)(void *context, const char *address), void *context);

/* NULL: it is below no bridge that a GPU and a NIC have in common. */
const struct topo_port *topo_find_port(const struct topo *topo, const char *address);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OFED's state on a node, as the NIC container leaves it for the GPU and the peermem container: its
 * ready flag with the lock that goes with it, and the fingerprint of what it loaded, which shows
 * without a search of the kernel's long list of symbols that the peer-memory interface is there,
 * and with which CRC: a build id identifies a module file.
 */
#pragma once

#include <stdbool.h>

#include "common/strv.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/prove.h"
#include "module/elf.h"

/* STEP_WORKER of the NIC role. An OFED without the interface has none, which is noted. */
int fingerprint_write(struct action *action);
/* STEP_DIRECT, its undo. */
int fingerprint_remove(struct action *action);
bool fingerprint_is_there(int root_fd);
/* True when there is one, of the very module that is loaded now; fingerprint_free() it then. */
bool fingerprint_read(int root_fd, struct fingerprint *ret);
void fingerprint_free(struct fingerprint *fingerprint);

/*
 * The version of the OFED that is loaded, for messages: by the fingerprint, else mlx5_core's own,
 * which OFED's has and the kernel's has not; else "unknown".
 */
void fingerprint_version(int root_fd, char text[64]);

/* role->prove_peer. -ENOMEM. */
int fingerprint_for_proof(const struct role *role, struct prove_peer *ret) _must_check_;

/* Why a stale ready flag is one, in messages. */
#define READY_FLAG_STALE                                                                           \
	"the NIC container died and left its flag (its lock is free): the kubelet starts it "      \
	"again, see that pod's log"

/* Follows "nothing exports " in messages. */
#define NO_PEER_MEMORY                                                                             \
	CONTRACT_PEER_REGISTER                                                                     \
	": this RDMA stack has no peer-memory interface (OFED has; without OFED, use dma-buf, "    \
	"which needs no nvidia-peermem, and leave " CONTRACT_ENV_RDMA " unset)"

/*
 * True when the flag is there and the lock that goes with it is free: NVIDIA's NIC container and
 * ours hold it (flock) as long as they live, and a container that is killed leaves its flag behind.
 * Whether OFED is loaded is another question: it is, until the next NIC container replaces it.
 * False where there is no lock file to judge by.
 */
bool ready_flag_is_stale(int root_fd);

/*
 * STEP_WAIT: 0 once OFED is there (role->peermem->due is set then), 1 with what is missing: the
 * ready flag, which host OFED (USE_HOST_MOFED) has not, or the peer-memory symbols. A node without
 * a Mellanox PCI function is not waited for: 0, noted, and nothing is due. Fails at once
 * (REASON_NO_PEER_MEMORY) when the OFED of a NIC container has no peer-memory interface.
 */
int ofed_wait(struct action *action);

/*
 * Has OFED come, as far as a few system calls show: the NIC container's flag (with USE_HOST_MOFED,
 * and where no NIC container could be: nothing), and a live module that exports, or may export, the
 * peer-memory interface?
 */
bool ofed_is_up(const struct role *role);

/* The module that exports the interface to the image's nvidia-peermem, or most likely does. */
const char *ofed_exporter(const struct role *role);

/*
 * The path, relative to the root, of the Module.symvers that OFED's container (or, with
 * USE_HOST_MOFED, the host) shows; -ENOENT where there is none.
 */
int ofed_find_symvers(const struct role *role, char *path, size_t size);

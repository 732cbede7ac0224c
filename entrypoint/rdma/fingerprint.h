/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which OFED is loaded: written by the NIC role beside its ready flag, read by the GPU and peermem
 * roles. With it they know without searching the kernel's long list of symbols that the peer-memory
 * interface is there, and with which CRC: a build id tells one module file from all others.
 */
#pragma once

#include <stdbool.h>

#include "common/strv.h"
#include "entrypoint/role/prove.h"
#include "module/elf.h"

struct fingerprint {
	char exporter[64];                /* the module that exports the peer-memory interface */
	char build_id[BUILD_ID_HEX_SIZE]; /* of that module, as loaded */
	uint32_t crc;                     /* of CONTRACT_PEER_REGISTER; 0: no MODVERSIONS */
	char version[64];                 /* of the OFED, for people; "" by older ones */
	struct strv
		builds; /* "name build-id" of all of its image that is loaded; none by older ones */
};

/*
 * STEP_WORKER of the NIC role: writes the fingerprint of what it loaded. An OFED without the
 * interface has none, which is told and is no failure.
 */
int fingerprint_write(struct action *action);
/* STEP_DIRECT, its undo. */
int fingerprint_remove(struct action *action);

/* Is there one? Then the OFED that it tells of is the one that a NIC role loaded last. */
bool fingerprint_is_there(int root_fd);

/*
 * True when there is one and the module that is loaded now is the one that it speaks of. The caller
 * frees it with fingerprint_free() then.
 */
bool fingerprint_read(int root_fd, struct fingerprint *ret);
void fingerprint_free(struct fingerprint *fingerprint);

/*
 * The version of the OFED that is loaded, for messages: by the fingerprint, else what mlx5_core
 * says of itself, which OFED's does and the kernel's own does not; "unknown" where nobody tells.
 */
void fingerprint_version(int root_fd, char text[64]);

/* What the load proof wants to know of that OFED: role->prove_peer. -ENOMEM. */
int fingerprint_for_proof(const struct role *role, struct prove_peer *ret) _must_check_;

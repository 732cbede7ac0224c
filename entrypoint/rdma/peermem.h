/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-peermem: loaded once nvidia and OFED are there, released when OFED has to change, and
 * loaded again after. It holds OFED's modules, and belongs to the GPU pod, whose processes the NIC
 * container does not see. Their shared folder has:
 *
 *   peermem.lock     held (flock) by the container that follows OFED for the node: the GPU or the
 *                    peermem container. The kernel releases it when that one is killed.
 *   peermem.release  the NIC container's request: unload nvidia_peermem, and load it no more until
 *                    this file is gone. Counts as long as the NIC container holds its own lock.
 *   peermem.hold     it was unloaded by someone else: it is left alone for a moment, which the
 *                    probe excuses.
 *   peermem.in-use   the follower's answer where it cannot unload it: who uses it. There is no
 *                    other answer: the module goes, which the kernel reports to both sides.
 *
 * An image may have a variant of nvidia-peermem for each of several OFEDs (module/running.h
 * has the layout). The one whose CRC of the peer-memory interface is that of the loaded OFED is put
 * in lib/modules, by a rename, so that a modprobe in the driver's root finds it too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/strv.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/elf.h"
#include "module/running.h"

#define PEERMEM_HOLD    NIC_STATE_FOLDER "/peermem.hold"
#define PEERMEM_LOCK    NIC_STATE_FOLDER "/peermem.lock"
#define PEERMEM_REQUEST NIC_STATE_FOLDER "/peermem.release"
#define PEERMEM_ANSWER  NIC_STATE_FOLDER "/peermem.in-use"

/* A role's state about peermem between two events: role->peermem. All zero to begin with. */
struct peermem_state {
	char without_peer_memory[BUILD_ID_HEX_SIZE]; /* of an RDMA core that lacks the interface */
	bool always;  /* the role is there for peermem: it need not be asked for by a variable */
	bool due;     /* OFED was there when the role started: its plan loads peermem */
	bool follows; /* the lock is ours */
	bool lock_opened;
	int lock_fd;       /* once lock_opened */
	uint32_t root_crc; /* of the OFED for which the container's own tree was looked through */
	/* The exporter for which nothing fits: nothing is tried again until another comes. */
	char refused[BUILD_ID_HEX_SIZE];
	char reported[ERROR_TEXT_SIZE]; /* what was logged last to be missing */
	enum reason reason;             /* of it; REASON_NONE: nothing is wrong */
	uint64_t missing_us; /* CLOCK_REALTIME of the last look that found something missing */
	bool in_use;         /* its release was requested and is refused: the answer is written */
	bool present;     /* it was there when last looked at, and not unloaded from here since */
	uint64_t hold_ms; /* CLOCK_MONOTONIC: someone else unloaded it; not loaded again before */
};

/*
 * STEP_WORKER, once nvidia and OFED are there: sees that lib/modules has the nvidia-peermem that
 * fits the loaded OFED, compiles it where none fits and the image can, and loads it. One that is
 * live stays. Nothing has to go for it, so the kernel judges, unless the CRC is known by the NIC
 * container's fingerprint. Only a refusal is looked into by the load proof.
 */
int peermem_load(struct action *action);

/*
 * In a worker, before the load proof of peermem with other modules: only the choice. What does not
 * fit is left to the proof. -ENOENT, REASON_PEERMEM_OTHER_OFED: the image has none.
 */
int peermem_prepare(struct action *action);

/* In a worker: 1 when lib/modules has a nvidia-peermem for @crc, or a variant took its place; 0
 * when no variant fits. */
int peermem_choose(struct action *action, uint32_t crc);

/*
 * The CRC with which the loaded OFED exports the interface: by the NIC container's fingerprint
 * (*ret_proven: of the very module that is loaded), else by the list that OFED's container or the
 * host shows. 0 where neither has it, and where the kernel has no MODVERSIONS.
 */
uint32_t peermem_wanted_crc(const struct role *role, bool *ret_proven);

/* The file that lib/modules has for role->krel, relative to the root; -ENOENT: there is none. */
int peermem_path(const struct role *role, char *path, size_t size);

/* The CRC in that file; 0 when it has none or cannot be read. */
uint32_t peermem_file_crc(const struct role *role);
/* Does that file ask for the interface at all? True where there is no such file. */
bool peermem_is_bound(const struct role *role);

/*
 * In a worker of the NIC role, before the modules @going are unloaded: asks for nvidia-peermem to
 * go and waits for it, some seconds at most. Where no container follows, or none answers, it is
 * unloaded from here if it is idle. 0 when it is not there (any more); -EBUSY with who uses it, or
 * with what else holds one of @going: then nothing was requested.
 */
int peermem_make_way(struct action *action, const struct strv *going);

/* Takes the request back: OFED is there again, or is gone for good. */
void peermem_allow(int root_fd);
/* Is there a request that counts? */
bool peermem_is_asked_to_go(int root_fd);

/* Has nvidia-peermem references that no module explains? */
bool peermem_has_users(int root_fd);

/* STEP_WORKER of the follower: unloads nvidia-peermem, or answers who uses it (-EBUSY). */
int peermem_release(struct action *action);

/*
 * A watch of the GPU and of the peermem role: nvidia-peermem follows OFED as it comes and goes. One
 * container on a node does so, the one that has the lock; another takes over when that one ends.
 */
void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the NIC container gets nvidia-peermem out of OFED's way. It holds OFED's modules, and lives
 * in the GPU pod, whose processes the NIC container does not see. Their shared folder has:
 *
 *   peermem.lock     held (flock) by who follows OFED for the node: the GPU or the peermem
 *                    container. The kernel gives it back when that one is killed.
 *   peermem.release  the NIC container's request: let nvidia_peermem go, and load it no more until
 *                    this file is gone. Counts as long as the NIC container holds its own lock.
 *   peermem.hold     somebody unloaded it: it is left alone for a moment, which the probe excuses.
 *   peermem.in-use   the follower's answer where it cannot: who uses it. Else it says nothing: the
 *                    module goes, which the kernel tells both sides.
 */
#pragma once

#include "common/strv.h"
#include "entrypoint/engine/plan.h"
#include "entrypoint/role/roles.h"

#define PEERMEM_MODULE  "nvidia_peermem"
#define PEERMEM_HOLD    NIC_STATE_FOLDER "/peermem.hold"
#define PEERMEM_LOCK    NIC_STATE_FOLDER "/peermem.lock"
#define PEERMEM_REQUEST NIC_STATE_FOLDER "/peermem.release"
#define PEERMEM_ANSWER  NIC_STATE_FOLDER "/peermem.in-use"

/*
 * In a worker of the NIC role, before the modules @going are unloaded: asks for nvidia-peermem to
 * go and waits for it, some seconds at most. Where nobody follows, or nobody answers, it is
 * unloaded from here if it is idle. 0 when it is not there (any more); -EBUSY with who uses it, or
 * with what else holds one of @going: then nothing was asked.
 */
int peermem_make_way(struct action *action, const struct strv *going);

/* Takes the request back: OFED is there again, or is gone for good. */
void peermem_allow(int root_fd);

/* Is there a request that counts? */
bool peermem_is_asked_to_go(int root_fd);

/* Has nvidia-peermem references that no module explains? */
bool peermem_has_users(int root_fd);

/* In a worker of the follower: unloads nvidia-peermem, or answers who uses it (-EBUSY). */
int peermem_let_go(struct action *action);

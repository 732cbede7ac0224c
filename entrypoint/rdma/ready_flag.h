/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC container's ready flag, which stays behind when that container is killed. */
#pragma once

#include <stdbool.h>

/* What is true of a stale one, for those who look at it. */
#define READY_FLAG_STALE                                                                           \
	"the NIC container died and left its flag (nobody holds its lock): the kubelet starts it " \
	"again, see that pod's log"

/*
 * True when the flag is there and the lock that goes with it is free: NVIDIA's NIC container and
 * ours hold it (flock) as long as they live. Whether OFED is loaded is another question: it is,
 * until the next NIC container replaces it. False where there is no lock file to judge by.
 */
bool ready_flag_is_stale(int root_fd);

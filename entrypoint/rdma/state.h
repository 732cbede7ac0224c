/* SPDX-License-Identifier: Apache-2.0 */
/* What a role remembers of nvidia-peermem between two events. Zeroed is right to begin with. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "module/elf.h"

struct peermem_state {
	char without_peer_memory[BUILD_ID_HEX_SIZE]; /* of an RDMA core that lacks the interface */
	bool always;  /* the role is there for peermem: it need not be asked for by a variable */
	bool due;     /* OFED was there when the role started: its plan loads peermem */
	bool follows; /* the lock is ours (peermem/follow.h) */
	bool lock_opened;
	int lock_fd;       /* once lock_opened */
	uint32_t root_crc; /* of the OFED for which the container's own tree was looked through */
	/* Of the exporter for which nothing fits: nothing is tried again until another comes. */
	char refused[BUILD_ID_HEX_SIZE];
	char told[160];      /* what was said last to be missing */
	bool detailed;       /* the status file's detail is ours */
	uint64_t missing_us; /* CLOCK_REALTIME of the last look that found something missing */
	bool held;           /* it was asked to go and is in use: the answer was given */
	bool present;      /* it was there when last looked at, and not unloaded from here since */
	uint64_t hold_ms;  /* CLOCK_MONOTONIC: somebody else unloaded it; not loaded again before */
	unsigned loads;    /* how often it was loaded while serving */
	unsigned releases; /* how often it was unloaded because OFED asked */
	uint64_t last_us;  /* from "OFED is ready" to "loaded", of the last load */
	uint64_t slowest_us; /* of all loads */
};

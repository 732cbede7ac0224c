/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many compilers may run at once: by the processors and the memory that this container or
 * session has, not by those of the machine. Sources: Linux Documentation/admin-guide/cgroup-v2.rst,
 * cgroup-v1/memory.rst and scheduler/sched-bwc.rst. A limit of any parent (a pod, a slice) binds as
 * well.
 */
#pragma once

#include <stdint.h>

/*
 * Memory of kbuild, make and the shell themselves, and of one compiler at its peak: twice the
 * largest that was seen, 148 MB (gcc 12, NVIDIA 535's nvidia/nv.c). The first is an estimate:
 * linking nvidia.ko was not measured.
 */
#define BUILD_BASE_MEMORY (UINT64_C(256) << 20)
#define BUILD_JOB_MEMORY  (UINT64_C(320) << 20)

struct build_limits {
	unsigned jobs;
	unsigned processors; /* that this process may run on */
	uint64_t memory;     /* bytes that are left for the build; UINT64_MAX: not known */
	uint64_t killed;     /* how often the kernel has killed in our cgroup for want of memory */
	char why[384];       /* "4 jobs: 16 processors, cpu.max of … allows 4, …" */
};

/*
 * @processors is how many this process may run on, 0 to ask the kernel (tests have their own);
 * @most what the user asked for, 0 for no limit. Never 0 jobs: with too little memory there is one,
 * and @why says so.
 */
void build_limits_find(int root_fd, unsigned processors, unsigned most, struct build_limits *ret);

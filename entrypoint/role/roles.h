/* SPDX-License-Identifier: Apache-2.0 */
/* The roles, and where they keep their state. */
#pragma once

#include <stdint.h>

struct log;
struct role;

/* Hooks by which the program adds its metrics to a role, which knows nothing about them. */
struct role_hooks {
	/* The state, the reason or what is waited for changed. */
	void (*changed)(const struct log *log);
	/* As a watch (role.h), after the role's own. */
	void (*look)(struct role *role, unsigned happened, uint64_t *wake_ms);
};

/*
 * Each runs until it is stopped and returns the exit code. @root_fd is of "/"; @arguments are what
 * follows the verb on the command line, NULL at the end.
 */
typedef int role_main(int root_fd, char *const *arguments, const struct role_hooks *hooks);

role_main gpu_main;         /* gpu/gpu.c: nvidia-driver init */
role_main gds_main;         /* gpu/sidecar.c: nvidia-gds-driver install */
role_main gdrcopy_main;     /* nvidia-gdrcopy-driver install */
role_main nic_main;         /* nic/nic.c: nic-driver precompiled */
role_main nic_sources_main; /* nic-driver sources */
role_main nic_build_main;   /* nic-driver build */
role_main peermem_main;     /* rdma/peermem_role.c: nvidia-driver reload_nvidia_peermem */
role_main peermem_probe;    /* nvidia-driver probe_nvidia_peermem; returns at once */
role_main build_main;       /* node_build/run_node_build.c: nvidia-driver build */

#define GPU_STATE_FOLDER "run/nvidia/slipway"
#define NIC_STATE_FOLDER "run/mellanox/drivers/slipway"

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roles: each runs until it is stopped and returns the exit code. @root_fd is of "/";
 * @arguments are what follows the verb on the command line, NULL at the end.
 */
#pragma once

int gpu_main(int root_fd, char *const *arguments);         /* gpu.c: nvidia-driver init */
int nic_main(int root_fd, char *const *arguments);         /* nic.c: nic-driver precompiled */
int nic_sources_main(int root_fd, char *const *arguments); /* nic-driver sources */
int nic_dtk_main(int root_fd, char *const *arguments);     /* nic/toolkit.c: nic-driver dtk-build */
int nic_build_main(int root_fd, char *const *arguments);   /* nic/build_verb.c: nic-driver build */
int peermem_main(
	int root_fd, char *const *arguments); /* peermem.c: nvidia-driver reload_nvidia_peermem */
int peermem_probe(int root_fd,
	char *const
		*arguments); /* peermem.c: nvidia-driver probe_nvidia_peermem; returns at once */

int build_main(int root_fd, char *const *arguments); /* nodebuild/build.c: nvidia-driver build */

#define GPU_STATE_FOLDER "run/nvidia/slipway"
#define NIC_STATE_FOLDER "run/mellanox/drivers/slipway"

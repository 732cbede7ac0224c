/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenShift: the driver container and the driver toolkit's container, which has headers and
 * compiler of the node's kernel, as a pair. They meet in a folder that both have mounted. Source:
 * NVIDIA gpu-driver-container, rhel9/ocp_dtk_entrypoint, whose flags these are; gpu-operator
 * manifests/state-driver/0500_daemonset.yaml, which waits for the first of them.
 */
#pragma once

/* nv-ctr-run-with-dtk: prepares the folder, waits for the modules, goes on as nvidia-driver init.
 */
int dtk_driver_main(int root_fd, char *const *arguments);
/* dtk-build-driver, in the toolkit's container: compiles, and stays until it is stopped. */
int dtk_build_main(int root_fd, char *const *arguments);

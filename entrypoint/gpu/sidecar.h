/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU pod's containers for GPUDirect Storage and GDRCopy, when their image is ours: their
 * module is loaded as soon as the driver is there, and again when the driver was loaded anew. The
 * driver container loads both itself when its image has them; then there is nothing left to do.
 * Their probes ask `lsmod` (gpu-operator manifests/state-driver/0500_daemonset.yaml).
 */
#pragma once

int gds_main(int root_fd, char *const *arguments);     /* nvidia-gds-driver install */
int gdrcopy_main(int root_fd, char *const *arguments); /* nvidia-gdrcopy-driver install */

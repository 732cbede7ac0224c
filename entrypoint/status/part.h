/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `slipway-init status`. Each has a file of its own, looks at the node by itself
 * (relative to a root descriptor, read-only, without any of the vendor's programs, so that it also
 * tells the truth of a driver that somebody else loaded), and says what it saw in two forms: lines
 * for people on stdout, each with its label in the first nine columns, or members of the open JSON
 * object.
 */
#pragma once

#include "entrypoint/status/json.h"

/* The label's column of a line that goes on with the one above. */
#define STATUS_INDENT "         "

/* roles.c: what each role of Slipway on this node says of itself. Returns how many there are, and
 * in *ret_ready how many of them are ready. @json NULL: for people; so for all below. */
size_t status_roles(int root_fd, struct json *json, size_t *ret_ready);
/* kernel.c: the kernel that runs and what its configuration means for drivers. */
void status_kernel(int root_fd, struct json *json);
/* nic.c: how the NIC role's driver came to run, and what did not come back. */
void status_nic(int root_fd, struct json *json);
/* modules.c: the modules that tell how far a node is. */
void status_modules(int root_fd, struct json *json);
/* driver.c: the NVIDIA driver that is loaded, whoever loaded it. */
void status_driver(int root_fd, struct json *json);
/* devices.c: GPUs, NVSwitches and NICs. */
void status_devices(int root_fd, struct json *json);
/* daemons.c: the vendor's daemons, ours and others. */
void status_daemons(int root_fd, struct json *json);
/* peermem.c: GPUDirect RDMA. */
void status_peermem(int root_fd, struct json *json);
/* imex.c: what the DRA driver's ComputeDomains will find. */
void status_imex(int root_fd, struct json *json);
/* fabric.c: NVLink, NVSwitches and who manages them. */
void status_fabric(int root_fd, struct json *json);

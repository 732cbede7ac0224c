/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as the node that slipway-init status shows. The files of the real node were read from a
 * machine with an H200: open driver 580.159.04, NVLink switched off, a kernel without module
 * versions and without unloading.
 */
#pragma once

#include "tests/unit/support.h"

#include "entrypoint/status/status.h"

#define GPU_FOLDER "sys/bus/pci/devices/0000:00:06.0"

/* Parent folders are made. */
void put_link(const struct folder *node, const char *path, const char *target);
void put_process(
	const struct folder *node, const char *pid, const char *command, const char *cgroup);
void put_real_node(const struct folder *node);

/* Returns the status as it is printed, text or JSON; the caller frees it. Another exit code than
 * @expected fails the test. */
char *status_with(const struct folder *node, const struct status_options *options, int expected);
char *status_of(const struct folder *node, bool json, int expected);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"

/*
 * Opens the kernel's securityfs, which containers do not have below /sys, without mounting it
 * anywhere: fsopen(2), Linux 5.2. Returns a descriptor that the caller closes, or a negative errno.
 */
int securityfs_open(void) _must_check_;

/*
 * Does lockdown, as with Secure Boot, make the kernel refuse unsigned modules
 * (security/lockdown/lockdown.c: the level in force stands in brackets)? False also when it is not
 * known.
 */
bool securityfs_locks_down(int root_fd);

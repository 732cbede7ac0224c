/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opens the kernel's securityfs, which containers do not have below /sys, without mounting it
 * anywhere: fsopen(2), Linux 5.2. Returns a descriptor that the caller closes, or a negative errno.
 */
int securityfs_open(void);

/* SPDX-License-Identifier: Apache-2.0 */
/* Where a kernel's configuration lies, on a node, in its packages and in what it is built in. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define KERNEL_CONFIG_LIMIT ((size_t) 4 << 20) /* bytes; Debian's has 260,000 */

/* The running kernel's own, packed by gzip, where it has CONFIG_IKCONFIG_PROC. */
#define KERNEL_CONFIG_SHOWN "proc/config.gz"

/*
 * Writes to @path where packages put the configuration of the release @krel, relative to a root:
 * place number 0, 1 … in the order in which to look. False after the last.
 */
bool kernel_config_place(size_t number, const char *krel, char *path, size_t size);

/* Below a build folder (lib/modules/<krel>/build), likewise; NULL at the end. */
extern const char *const kernel_config_in_build[];

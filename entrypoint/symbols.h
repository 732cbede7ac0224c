/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which module exports a symbol in the running kernel, by /proc/kallsyms. The kernel formats some
 * 100,000 lines for it (50 ms on a server, 150 ms under emulation) and module symbols come last:
 * ask once, after the cheap sign that the module is live, and never in a loop.
 */
#pragma once

#include <stddef.h>

/*
 * Writes the owner's name ("vmlinux" when it is built in) to @owner. -ENOENT when nobody exports
 * it, other negative errno when the file cannot be read.
 */
int symbols_exporter(int root_fd, const char *symbol, char *owner, size_t size);

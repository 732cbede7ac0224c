/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own words about a module: finit_module() answers with an errno, the cause stands in
 * the log. Format of /dev/kmsg records: Linux Documentation/ABI/testing/dev-kmsg.
 */
#pragma once

#include <stddef.h>

/* Opens the log behind its newest record. -1 where it cannot be read. */
int kmsg_open_at_end(int root_fd);

/* Passes over what came since. */
void kmsg_to_end(int kmsg_fd);

/*
 * Puts into @text the newest records since then that name @module (with '-' or '_'), or NVRM for
 * NVIDIA's, joined by "; ". "" when there are none.
 */
void kmsg_about(int kmsg_fd, const char *module, char *text, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that may hang, as they go to a device: to a library that opens one, or to a driver's
 * file that asks its hardware.
 */
#pragma once

#include <stddef.h>

/*
 * Has @ask fill the @size bytes of @answer in a child, which writes nothing to our output. One that
 * is not done after @timeout_ms is killed, and if it hangs in the kernel, left to the kernel.
 * @answer has what it had written by then. Returns 0 when it was done; -ETIMEDOUT; -EPIPE when the
 * child died of the question (a library's crash); or the negative errno that kept it from starting.
 */
int ask_in_child(void (*ask)(int root_fd, void *answer), int root_fd, void *answer, size_t size,
	int timeout_ms);

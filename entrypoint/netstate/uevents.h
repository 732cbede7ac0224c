/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting in a worker for a device or an interface to come, woken by the kernel's uevents. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Listens from now on: to be opened before what is waited for is set off. -1 where it cannot be
 * had. */
int uevents_open(void);

typedef bool uevents_condition(void *context);

/*
 * True as soon as the condition holds, which is asked at once and after each event; false after
 * @timeout_ms. Twice a second it is asked anew, for what sends no event (a devlink instance).
 */
bool uevents_wait(int fd, uint32_t timeout_ms, uevents_condition *condition, void *context);

/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time in the units that names carry. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_monotonic_us(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

static inline uint64_t clock_monotonic_ms(void)
{
	return clock_monotonic_us() / 1000;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/peermem/follow.h"

void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	(void) role, (void) happened, (void) wake_ms;
}

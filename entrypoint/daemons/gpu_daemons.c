/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/daemons/gpu_daemons.h"

int gpu_daemons_configure(struct action *action)
{
	(void) action;
	return 0;
}

int gpu_daemons_start(struct action *action)
{
	(void) action;
	return 0;
}

int gpu_daemons_stop(struct action *action)
{
	(void) action;
	return 0;
}

void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	(void) role, (void) happened, (void) wake_ms;
}

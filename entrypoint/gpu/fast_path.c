/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/fast_path.h"

int fast_path_recognise(struct action *action)
{
	gpu_of(action->role)->keep = false;
	return 0;
}

int fast_path_remember(struct action *action)
{
	(void) action;
	return 0;
}

int fast_path_forget(struct action *action)
{
	(void) action;
	return 0;
}

void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	(void) role, (void) happened, (void) wake_ms;
}

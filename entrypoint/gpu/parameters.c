/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/parameters.h"

int gpu_parameters(struct action *action)
{
	(void) action;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the stock driver image that are accepted and not needed here, and its variables. */
#pragma once

#include "entrypoint/role/role.h"

/* As unneeded_tell() (entrypoint/ignored_env.h); and where the image is not what a variable asks
 * for.
 */
void gpu_ignored_env_tell(struct role *role);

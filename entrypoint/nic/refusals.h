/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a swap from being done, found before the first module leaves. The container does not
 * see the node's processes (no hostPID), so the kernel's reference counts are the witness, and
 * whatever processes are seen give them a name.
 */
#pragma once

#include "entrypoint/nic/swap_plan.h"

/*
 * -EBUSY (REASON_MODULE_IN_USE) when a module of plan->go may not or cannot go, with all of the
 * reasons in one message; each is also told by itself. 0 else.
 */
int refusals_check(struct action *action, const struct swap_plan *plan);

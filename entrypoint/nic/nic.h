/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC role's own state beside what all roles have. */
#pragma once

#include "entrypoint/nic/inputs.h"
#include "entrypoint/nic/swap_plan.h"
#include "entrypoint/role.h"

struct nic {
	struct role role; /* first: a step's void *role is also a struct nic * */
	struct nic_inputs inputs;
	struct swap_plan swap;
};

static inline struct nic *nic_of(void *role)
{
	return (struct nic *) role;
}

static inline const struct nic *nic_of_const(const void *role)
{
	return (const struct nic *) role;
}

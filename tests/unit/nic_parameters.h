/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters that the NIC role loaded its modules with, as it notes them for the next start. */
#pragma once

#include "tests/unit/support.h"

#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_internal.h"

/* "<module> <parameters>" each, to NULL. */
static inline void write_nic_parameters(const struct folder *folder, const char *const *lines)
{
	const struct role role = {
		.name = "nic", .state_folder = NIC_STATE_FOLDER, .root_fd = folder->fd
	};
	_cleanup_strv_ struct strv items = { 0 };
	struct error error;

	for (; *lines; lines++)
		assert_int_equal(strv_push(&items, *lines), 0);
	assert_int_equal(role_list_write(&role, ROLE_PARAMETERS_LIST, &items, &error), 0);
}

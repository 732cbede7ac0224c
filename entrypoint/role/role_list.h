/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that survive us: <state_folder>/<role>.<list>, one item a line. */
#pragma once

#include "entrypoint/role/role.h"

int role_list_write(
	const struct role *role, const char *list, const struct strv *items, struct error *error);
/* Appends the items. -ENOENT without such a list. */
int role_list_read(const struct role *role, const char *list, struct strv *items);
void role_list_remove(const struct role *role, const char *list);

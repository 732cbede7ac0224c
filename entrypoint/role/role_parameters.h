/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters that the image's modules were loaded with. The kernel shows those of most modules
 * to nobody once they are loaded (NVIDIA's have mode 0), so each load is written down before it is
 * done: <state_folder>/<role>.parameters, "module options" a line.
 */
#pragma once

#include "entrypoint/role/load.h"
#include "entrypoint/role/role.h"

/* To be called in a worker before the first load. */
int role_parameters_remember(const struct role *role, struct loader *loader, struct error *error);

/*
 * Whether one of the @present modules, all of them the image's own, was loaded with other
 * parameters than it would get now; @worker is told which. Of a load that nobody wrote down it
 * cannot be known: it counts as the same.
 */
int role_parameters_changed(const struct role *role, struct loader *loader,
	const struct strv *present, struct worker *worker, bool *ret, struct error *error);

/*
 * In the lines of such a list (role_list_read(role, ROLE_PARAMETERS_LIST)): what the module was
 * loaded with, or NULL when nobody wrote it down. Borrowed.
 */
#define ROLE_PARAMETERS_LIST "parameters"
const char *role_parameters_find(const struct strv *lines, const char *module);

/* After the modules went. */
void role_parameters_forget(const struct role *role);

/*
 * Writes a file of etc/modprobe.d below the role's root, whole: there libkmod finds it, and a
 * modprobe in the driver root. @lines gets an empty one at its end.
 */
int role_parameters_write(const struct role *role, const char *path, struct strv *lines,
	struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* The folder in which the NIC container and the driver toolkit's meet (toolkit.h). */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "entrypoint/nic/inputs.h"
#include "entrypoint/node_build/kit.h"
#include "entrypoint/role/role.h"

/* Paths relative to the root. */
struct toolkit_place {
	char *folder;
	char *kit;
	char *work;
	char *modules;
	char *start;
	char *done;
	char *failed;
	char *version; /* the driver's, as it stands in the name of the flag */
};

/* For the kernel @krel and the driver's version. toolkit_place_free() in any case. */
int toolkit_place_find(struct toolkit_place *place, const struct nic_inputs *inputs,
	const char *krel, const char *version, struct error *error);
void toolkit_place_free(struct toolkit_place *place);

/* Is @flag there, and says @word? */
bool toolkit_flag_says(int root_fd, const char *flag, const char *word);

/*
 * Writes all that the toolkit's container needs to make the set for @krel: kit, program, libraries,
 * dtk.env and the script. The start flag is the caller's to write.
 */
int toolkit_place_fill(int root_fd, const struct toolkit_place *place,
	const struct nic_inputs *inputs, const struct kit *kit, const char *krel,
	struct error *error);

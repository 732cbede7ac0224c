/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kit: what an image carries that can compile on a node. slipway build --sources-image puts it
 * there: recipes, patches and the driver's source below KIT_FOLDER, and KIT_CONF, "key=value"
 * lines.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "entrypoint/image.h"

struct kit {
	char id[80];        /* a hash of all that is in the kit, the compiler included */
	const char *folder; /* relative to the root, borrowed */
	char version[64];   /* of the driver: image.conf's */
};

/*
 * @folder: KIT_FOLDER, or where a copy for a container of another image lies: OpenShift's driver
 * toolkit's (sidecar/dtk.c, nic/dtk.c).
 */
bool kit_is_there(int root_fd, const char *folder);
/* -ENOENT when there is none. The folder's name is borrowed. */
int kit_read(int root_fd, const char *folder, struct kit *kit, struct error *error);
/* Copies it, with what a container without our image.conf has to know. */
int kit_copy(int root_fd, const struct kit *kit, const char *folder);

/*
 * The program to compile with, by the @config (the text of .config) of the kernel: its very
 * compiler when the image has that, else the image's nearest of the same family, which @note then
 * says (else ""). -ENOENT when the image has none of that family.
 */
int kit_compiler(
	int root_fd, const char *config, char name[32], char note[256], struct error *error);

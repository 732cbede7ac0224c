/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that modprobe.d folders have for modules, with the file that says each. As libkmod
 * reads them (libkmod/libkmod-config.c, kmod_config_new()): files by name over all folders, of two
 * with one name that of the first folder, "options MODULE WORDS" lines, '\' at a line's end.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

struct modprobe_options {
	struct strv modules; /* '_' in the names */
	struct strv words;   /* "name=value" of the module at the same index */
	struct strv files;   /* relative to the root */
};

void modprobe_options_free(struct modprobe_options *options);

/*
 * Reads @folders (relative to the root, NULL at the end, first wins); one that is absent is fine.
 * @host: prefix of absolute links in them. A line that cannot be read is passed over and noted.
 */
int modprobe_options_read(int root_fd, const char *const *folders, const char *host,
	struct modprobe_options *options, struct strv *notes, struct error *error);

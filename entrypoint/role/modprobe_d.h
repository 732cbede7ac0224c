/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that the modprobe.d folders give modules: modprobe.d(5), read as libkmod 30 reads it
 * (libkmod-config.c), so that a start need not open libkmod with the libraries that it drags in.
 * Where something stands there that this reader does not take apart it says so, and libkmod is
 * asked.
 */
#pragma once

#include "common/strv.h"

struct modprobe_d {
	struct strv modules; /* of each line "options", '_' in the names */
	struct strv options; /* the rest of that line */
	char *command_line;  /* the kernel's, '_' for '-' */
	bool joined;         /* some line goes on in the next one */
};

/* Reads the folders below @root_fd. -ENOMEM; one that is not there is empty. */
int modprobe_d_read(int root_fd, struct modprobe_d *ret) _must_check_;
void modprobe_d_free(struct modprobe_d *conf);

/*
 * The options of @module, "" for none, to a new string. -EOPNOTSUPP: only libkmod can tell, because
 * the kernel's command line has "module.parameter", or a line goes on in the next one.
 */
int modprobe_d_options(const struct modprobe_d *conf, const char *module, char **ret) _must_check_;

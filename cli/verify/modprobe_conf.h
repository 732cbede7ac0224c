/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that modprobe would give to modules, by the modprobe.d folders of a root:
 * modprobe.d(5) of kmod. libkmod can be told other folders than this machine's, but it opens what
 * they hold as this machine sees it: an absolute link in a stranger's image would lead it to a file
 * of ours. Here a link means what it means in that root.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

/*
 * Appends "module parameter=value" or "module parameter" for each option, '-' in the module's name
 * as '_'. A root without such folders has none.
 */
int modprobe_conf_read(int root_fd, struct strv *options, struct error *error) _must_check_;

/* The same of one file's text. */
int modprobe_conf_parse(const char *text, struct strv *options) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters that a loaded module runs with, so that it can be loaded with the same ones again.
 * The kernel shows them in /sys/module/<m>/parameters, one file each (Linux kernel/params.c:
 * param_attr_show()), without the types: those are the file's ("parmtype"), which may not be at
 * hand before the module goes. So all is recorded, and what is passed back is chosen when the file
 * that will be loaded is known.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/role/parameter.h"
#include "module/elf.h"

/*
 * Writes every parameter of the loaded module that can be read and written on a line as
 * "name=value …" to a new string, "" for none. Left out are those that the kernel shows to nobody,
 * strings that were never set, and values with a '"' or a control character. -ENOMEM.
 */
int parameters_now(int root_fd, const char *module, char **ret_options) _must_check_;

/*
 * Of the @options those that @file takes: parameters that it declares with a type whose values the
 * kernel reads as it shows them. *ret_options is a new string; the words that do not fit are
 * appended to @left_out, which may be NULL. -ENOMEM.
 */
int parameters_for_file(const struct elf_module *file, const char *options, char **ret_options,
	struct strv *left_out) _must_check_;

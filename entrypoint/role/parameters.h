/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module parameters as a user writes them, and what a module declares. The kernel ignores a name
 * that it does not know and refuses a value that it cannot read only when the module is loaded,
 * which is after the driver before it has gone: both are found here instead.
 * Sources: Linux kernel/params.c, lib/cmdline.c (next_arg()), lib/kstrtox.c, and
 * include/linux/moduleparam.h for the .modinfo keys "parm" and "parmtype".
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/worker.h"
#include "entrypoint/role/role.h"
#include "module/elf.h"

struct loader;

/*
 * Appends the "name=value" words of @text, which stand between white space of any kind; a value
 * with blanks has '"' around it. A line that begins with '#' is skipped, and so are the words
 * "options <module>" at a line's start: modprobe.d's form is accepted. -EINVAL for a '"' without
 * its other and for bytes that a line of modprobe.d cannot hold; the message has the line's number.
 */
int parameter_split(
	const char *text, const char *module, struct strv *parameters, struct error *error);

#define PARAMETERS_MODULE_SIZE 64

/*
 * Finds the module that a file of /drivers is about: nvidia_uvm for "nvidia-uvm.conf". False when
 * the name is not that of such a file.
 */
bool parameters_conf_module(const char *file, char module[PARAMETERS_MODULE_SIZE]);

/*
 * Appends the words of all files of /drivers, the operator's kernelModuleConfig, about the module,
 * however they are spelt, and the files to @paths, which may be NULL. -EINVAL as parameter_split().
 */
int parameters_read_conf(int root_fd, const char *module, struct strv *parameters,
	struct strv *paths, struct error *error) _must_check_;

/* Whether @parameter is about the parameter @name ('-' is '_', as for the kernel). */
bool parameter_is(const char *parameter, const char *name);

/* The parameters that a module takes, according to its .modinfo. */
struct parameters_taken {
	struct strv types;     /* "parmtype": "name:int" */
	struct strv described; /* "parm": "name:what it is for" */
};

void parameters_taken_free(struct parameters_taken *taken);

/* Whether the module has a parameter of that name. */
bool parameter_exists(const struct parameters_taken *taken, const char *name);

/*
 * -ENOENT when the module has no such parameter (the message names the nearest that it has), which
 * the kernel ignores; -EINVAL when the kernel could not read the value as one of its type, and
 * would refuse the module. A type of the module's own making takes any value.
 */
int parameter_check(
	const struct parameters_taken *taken, const char *parameter, struct error *error);

/* ---- those that a loaded module has, so that it can be loaded with the same ones again */

/*
 * Writes every parameter of the loaded module that can be read and written on a line as
 * "name=value …" to a new string, "" for none: /sys/module/<m>/parameters has one file each (Linux
 * kernel/params.c: param_attr_show()). Left out are those that the kernel shows to no process,
 * strings that were never set, and values with a '"' or a control character. -ENOMEM.
 */
int parameters_now(int root_fd, const char *module, char **ret_options) _must_check_;

/*
 * Selects the @options that @file takes: parameters that it declares with a type whose values the
 * kernel reads as it shows them. *ret_options is a new string; the words that do not fit are
 * appended to @left_out, which may be NULL. -ENOMEM.
 */
int parameters_for_file(const struct elf_module *file, const char *options, char **ret_options,
	struct strv *left_out) _must_check_;

/*
 * ---- those that the image's modules were loaded with. The kernel shows those of most modules to
 * no process (NVIDIA's have mode 0), so each load is written down before it is done: the role's
 * list of this name has "module options" for each.
 */
#define ROLE_PARAMETERS_LIST "parameters"
/*
 * Options of the GPU image's modules when they are loaded, after a comment with the set of modules:
 * libkmod finds them here, modprobe in the root.
 */
#define PARAMETERS_PATH "etc/modprobe.d/slipway.conf"
/* "MODULE PARAMETER" of each that was given, and that the module does not have. */
#define ROLE_UNKNOWN_LIST "unknown-parameters"
/* Why the modules that run have their earlier parameters: the kernel's words on the new ones. */
#define ROLE_REFUSED_LIST "refused-parameters"

/* To be called in a worker before the first load. */
int role_parameters_remember(
	const struct role *role, struct loader *loader, struct error *error) _must_check_;

/*
 * Whether one of the @present modules, all of them the image's own, was loaded with other
 * parameters than it would get now; which is noted. Of a load that was not written down it cannot
 * be known: it counts as the same.
 */
int role_parameters_changed(const struct role *role, struct loader *loader,
	const struct strv *present, struct worker *worker, bool *ret,
	struct error *error) _must_check_;

/* In such a list: what the module was loaded with, or NULL without an item of it. Borrowed. */
const char *role_parameters_find(const struct strv *lines, const char *module);

/*
 * Writes a file of etc/modprobe.d below the role's root, whole: there libkmod finds it, and a
 * modprobe in the driver root. @lines gets an empty one at its end.
 */
int role_parameters_write(const struct role *role, const char *path, struct strv *lines,
	struct error *error) _must_check_;

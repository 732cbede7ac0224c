/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module parameters as a user writes them, and what a module says that it takes. The kernel passes
 * over a name that it does not know and refuses a value that it cannot read only when the module
 * is loaded, which is after the driver before it has gone: both are found here instead.
 * Sources: Linux kernel/params.c, lib/cmdline.c (next_arg()), lib/kstrtox.c, and
 * include/linux/moduleparam.h for the .modinfo keys "parm" and "parmtype".
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

/*
 * Appends the "name=value" words of @text, which stand between white space of any kind; a value
 * with blanks has '"' around it. A line that begins with '#' is passed over, and so are the words
 * "options <module>" at a line's start: modprobe.d's form is accepted. -EINVAL for a '"' without
 * its other and for bytes that a line of modprobe.d cannot hold; the message has the line's number.
 */
int parameter_split(
	const char *text, const char *module, struct strv *parameters, struct error *error);

/* Whether @parameter is about the parameter @name ('-' is '_', as for the kernel). */
bool parameter_is(const char *parameter, const char *name);

/* What a module takes, as its .modinfo says. */
struct parameters_taken {
	struct strv types;     /* "parmtype": "name:int" */
	struct strv described; /* "parm": "name:what it is for" */
};

void parameters_taken_free(struct parameters_taken *taken);

/*
 * The type of the parameter that @parameter ("name" or "name=value") is about: "int", "array of
 * int"; NULL when the module declares none. Borrowed.
 */
const char *parameter_type(const struct parameters_taken *taken, const char *parameter);

/* Whether the module has a parameter of that name. */
bool parameter_exists(const struct parameters_taken *taken, const char *name);

/*
 * -EINVAL when the module has no such parameter (the message names the nearest that it has) or
 * when the kernel could not read the value as one of its type. A type of the module's own making
 * takes any value.
 */
int parameter_check(
	const struct parameters_taken *taken, const char *parameter, struct error *error);

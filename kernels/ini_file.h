/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .ini files: "[section]", "key = value", lines that begin with a blank go on with the value above,
 * '#' and ';' begin comments. inih cuts a line of more than 199 bytes in two without a word, in the
 * middle of a name: such a line is an error here.
 */
#pragma once

#include "common/error.h"

/* Returns this user's path of a configuration file; freed by the caller; NULL without a home. */
char *ini_file_user_path(const char *name);

/*
 * Takes one line's value; a value that goes on in further lines comes in as many calls. -EINVAL for
 * what cannot be, -ENOMEM.
 */
typedef int (*ini_file_key)(void *context, const char *section, const char *key, const char *value);

/* -EINVAL with file and line for what is wrong in it; what reading the file returned. */
int ini_file_read(
	const char *path, ini_file_key on_key, void *context, struct error *error) _must_check_;

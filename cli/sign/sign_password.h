/* SPDX-License-Identifier: Apache-2.0 */
/* The passphrase of a key file, or a token's PIN: from anywhere but the command line. */
#pragma once

#include "cli/options.h"

struct sign_password_source {
	const char *file;     /* NULL: not this one */
	const char *variable; /* of the environment; NULL: not this one */
	int fd;               /* -1: not this one */
};

/*
 * The rows of a verb's options: of a struct sign_password_source, @member of @type.
 * NOLINTBEGIN(bugprone-macro-parentheses): the name of a member takes none
 */
#define SIGN_PASSWORD_OPTIONS(type, member)                                                        \
	OPTION("password-file", 0, "FILE", OPTION_TEXT, type, member.file, NULL),                  \
		OPTION("password-fd", 0, "N", OPTION_NUMBER, type, member.fd, NULL),               \
		OPTION("password-env", 0, "NAME", OPTION_TEXT, type, member.variable,              \
			"the key's passphrase or the token's PIN: the first line of a file or\n"   \
			"descriptor, or a variable of the environment")
/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * Reads the first line of the one source that is set; *ret is NULL when none is. The caller frees
 * it with sign_password_free(). -EINVAL when it is empty or several sources are set.
 */
int sign_password_read(
	const struct sign_password_source *source, char **ret, struct error *error) _must_check_;

/* Overwrites it first. */
void sign_password_free(char **password);

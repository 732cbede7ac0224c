/* SPDX-License-Identifier: Apache-2.0 */
/* The passphrase of a key file, or a token's PIN: from anywhere but the command line. */
#pragma once

#include "common/error.h"

struct sign_password_source {
	const char *file;     /* NULL: not this one */
	const char *variable; /* of the environment; NULL: not this one */
	int fd;               /* -1: not this one */
};

/* Takes the value of --password-fd. -EINVAL when it is no number. */
int sign_password_take_fd(
	struct sign_password_source *source, const char *value, struct error *error) _must_check_;

/*
 * Reads the first line of the one source that is set; *ret is NULL when none is. The caller frees
 * it with sign_password_free(). -EINVAL when it is empty or several sources are set.
 */
int sign_password_read(
	const struct sign_password_source *source, char **ret, struct error *error) _must_check_;

/* Overwrites it first. */
void sign_password_free(char **password);

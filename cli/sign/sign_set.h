/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a folder that are signed together: every one of them or none, also when the
 * program is killed in between. New files are written beside the old ones; then all are renamed
 * into place, and what was there is kept until the last one is. A later run finds what a killed one
 * left: it puts the old files back, or finishes when all the new ones were in place.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

struct sign_set {
	char *folder;      /* as given, for messages */
	int fd;            /* locked against other runs */
	struct strv paths; /* of the modules, below the folder, sorted */
};

#define SIGN_SET_CLOSED                                                                            \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Opens a folder and repairs what a killed run left. -EBUSY when another run works on it, -EINVAL
 * when a module in it is compressed already, -ENOENT when there is none. Links are passed over. The
 * caller closes @ret with sign_set_close(), which removes what was staged and not committed.
 */
int sign_set_open(const char *folder, struct sign_set *ret, struct error *error) _must_check_;
void sign_set_close(struct sign_set *set);

/* Reads a module, which has to be one. The caller frees it. */
int sign_set_read(const struct sign_set *set, const char *path, char **ret_data, size_t *ret_size,
	struct error *error) _must_check_;

/* Writes what the module shall become beside it, with its mode and owner. */
int sign_set_stage(const struct sign_set *set, const char *path, const void *data, size_t size,
	struct error *error) _must_check_;

/* Puts everything staged in place. On failure every module is as it was. */
int sign_set_commit(const struct sign_set *set, struct error *error) _must_check_;

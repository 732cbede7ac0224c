/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relations between packages, in the syntax of deb-control(5)'s Depends and Provides, in which
 * kernels/repo/package.h has rpm's too: "name (= version), name | alternative (>= version)
 * [arch]".
 */
#pragma once

#include <stdbool.h>

#include "common/cleanup.h"

struct relation {
	char *name;
	char *sign;       /* "=", ">=" …; "" without a version */
	char *version;    /* "" without */
	bool alternative; /* instead of the one before it */
};

/*
 * The next relation from *@cursor on, which is moved behind it. Returns 1, 0 at the end or -ENOMEM.
 * The caller frees the relation with relation_free(). What is malformed is passed over.
 */
int relation_next(const char **cursor, struct relation *ret) _must_check_;
void relation_free(struct relation *relation);

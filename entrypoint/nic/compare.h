/* SPDX-License-Identifier: Apache-2.0 */
/* What runs beside what the image has, one module at a time. Reads .ko files: for workers. */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/role/load.h"

enum compare {
	COMPARE_ABSENT,     /* no module of that name is loaded */
	COMPARE_SAME,       /* the image's very own, with the parameters that it would get */
	COMPARE_OTHER,      /* another build, or built into the kernel */
	COMPARE_PARAMETERS, /* the image's very own, loaded with other parameters */
};

struct comparison {
	int root_fd;
	struct loader *loader; /* of the image's tree */
	/* What an earlier life loaded its modules with (role_parameters.h); may be empty. */
	const struct strv *recorded;
};

/*
 * A module is known by its build id; where the running one or the file has none, by its srcversion;
 * where neither can be compared it is another one. Its parameters are the same when it was loaded
 * with the words that modprobe.d has now, or where nobody wrote that down, when the kernel shows
 * those values. What a person wrote into /sys since does not count. @why says what differs.
 */
int compare_module(const struct comparison *comparison, const char *module, enum compare *ret,
	struct error *why);

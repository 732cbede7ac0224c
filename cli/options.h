/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `slipway build`. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "common/error.h"

struct build_options {
	const char *krel;   /* or "newest" */
	const char *ofed;   /* tree, tarball or "reference"; NULL: no NIC image */
	const char *nvidia; /* tree, tarball, "debian"; "none": no GPU image */
	const char *os;
	const char *output; /* folder, "containers-storage:" or "oci-archive:FILE" */
	const char *base;   /* image that the driver images start from; NULL: one is made */
	const char *cache;  /* NULL: the default */
	unsigned int jobs;
	bool refresh;
	bool json;
	bool help;
};

/* Borrows from @argv. -EINVAL with what is wrong. @argv[0] is the verb. */
int build_options_parse(
	int argc, char **argv, struct build_options *ret, struct error *error) _must_check_;
void build_options_usage(FILE *file);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <getopt.h>

#include "common/error.h"

/*
 * getopt_long(3) without its abbreviations: -EINVAL with what is wrong where only the beginning of
 * an option's name is given. All else is as there.
 */
int option_next(int argc, char **argv, const char *short_options, const struct option *all,
	struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a symbol is: which input of a build brings the module that exports it. */
#pragma once

#include "cli/explain/explain.h"

#define EXPLAIN_NAME_SIZE 128

struct explain_owner {
	enum explain_input input;
	bool guessed;                     /* nothing given tells, so it is by a name's beginning */
	char exporter[EXPLAIN_NAME_SIZE]; /* who exports it by what was given; "" where nobody */
};

/*
 * By the symbols of --with, then by the kernel's, then by what the module says of itself, and only
 * else by the name. @witness may be NULL.
 */
void explain_owner_find(
	const struct explain_witness *witness, const char *symbol, struct explain_owner *ret);

/* The driver source that a module is made of, by the module's name. */
enum explain_input explain_source_of(const char *module);

/* Was the module compiled against the headers of the kernel at hand? */
enum explain_fit {
	EXPLAIN_FIT_UNKNOWN, /* no symbol of vmlinux's is among those that it demands */
	EXPLAIN_FITS,        /* each has the CRC that it was compiled for */
	EXPLAIN_FITS_NOT,
};

/* By the CRCs of what the module takes from vmlinux. Needs the witness's module and symvers. */
enum explain_fit explain_kernel_fit(const struct explain_witness *witness);

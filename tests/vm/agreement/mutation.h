/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to a module to make a mutant of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "dice.h"
#include "image.h"

#define DETAIL_SIZE 160

/* Kernel versions as major << 8 | minor. */
#define VERSION(major, minor) ((major) << 8 | (minor))
#define NEVER                 0xffffU

/*
 * Changes the image, and says in @detail (DETAIL_SIZE) what exactly it did. False: this module has
 * nothing of the kind, and nothing was changed.
 */
typedef bool mutate_function(struct image *image, struct dice *dice, char *detail);

struct mutation {
	const char *name;
	mutate_function *apply;
	bool each; /* every one of its first choices is made, on one module */
	/*
	 * The first kernel that looks before it reads: an older one follows an offset to wherever
	 * it leads, so it does not get this mutant. Our verdict has to be a refusal all the same.
	 */
	unsigned int checked_since;
	Elf64_Half machine; /* only of modules for it; 0: of all */
};

/* Tables end with a name of NULL. */
extern const struct mutation header_mutations[];
extern const struct mutation section_mutations[];
extern const struct mutation info_mutations[];
extern const struct mutation symbol_mutations[];
extern const struct mutation version_mutations[];
extern const struct mutation signature_mutations[];
extern const struct mutation arm64_mutations[];

/* Gives a module another licence, NULL: none; false: it has no .modinfo. */
bool mutate_licence(struct image *image, const char *value);

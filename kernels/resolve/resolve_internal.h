/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What resolving shares between its files: resolve.c opens lists and decides whom to ask,
 * packages.c finds a kernel's packages in open lists, releases.c reads which kernels there are.
 */
#pragma once

#include "kernels/resolve/resolve.h"

/* A package and the list that it is in. */
struct found {
	const struct index *index;
	const struct package *package;
};

struct found_list {
	struct found *items;
	size_t count;
};

void found_list_free(struct found_list *list);

/* Lists whose result is not 0 are skipped. */
struct match_scope {
	const struct index *indexes;
	size_t count;
	const struct catalogue *os;
	const char *arch; /* as uname -m prints it */
	const char *krel; /* NULL: only match_name() may be asked */
};

/* Appends all packages with this name. */
void match_name(const struct match_scope *scope, const char *name, struct found_list *list);

/* Orders versions, epochs first. */
int match_compare_versions(const char *a, const char *b);

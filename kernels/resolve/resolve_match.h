/* SPDX-License-Identifier: Apache-2.0 */
/* Finding packages in open lists: by the catalogue's rules for a kernel, and by name. */
#pragma once

#include "kernels/repo/index.h"

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

/* Where is looked, and for which kernel. */
struct match_scope {
	const struct index *indexes; /* those whose result is not 0 are passed over */
	size_t count;
	const struct catalogue *os;
	const char *arch; /* as uname -m prints it */
	const char *krel; /* NULL: none; then only match_name() can be asked */
};

/*
 * Appends all packages that a word of the rules' headers or modules means; of one with alternatives
 * ("a|b"), those of the first that any list has.
 */
int match_word(
	const struct match_scope *scope, const char *word, struct found_list *list) _must_check_;

/* Appends all packages with this name. */
int match_name(
	const struct match_scope *scope, const char *name, struct found_list *list) _must_check_;

/* What the word means for this kernel, for messages; the caller frees it; NULL without memory. */
char *match_describe(const struct match_scope *scope, const char *word);

/* Orders versions, epochs first. */
int match_compare_versions(const char *a, const char *b);

/* Newest first; of one version those of @home first, then in the order of the lists. */
void match_sort(struct found_list *list, const struct index *home);

/* Are the versions the same, where the catalogue says so less the build counter? */
bool match_same_build(const struct catalogue *os, const char *a, const char *b);

/* SPDX-License-Identifier: Apache-2.0 */
/* The order of Debian versions (deb-version(7)), which also orders kernel releases as people do. */
#pragma once

/*
 * Below, at or above 0 as @a is older than, the same as or newer than @b. "~" sorts before the end,
 * digits by their number, letters before other characters. Epochs are not read: kernel releases and
 * the versions of one source have none.
 */
int version_compare(const char *a, const char *b);

/* The same, epochs first: for versions of packages. */
int version_compare_epochs(const char *a, const char *b);

/* What follows "<epoch>:", or all of it. Borrowed. */
const char *version_without_epoch(const char *version);

/* version_compare() for qsort() over an array of char *. */
int version_compare_items(const void *a, const void *b);

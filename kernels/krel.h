/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of the field: kernel releases, versions, and os-release(5).
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

#define KREL_MAX 64 /* __NEW_UTS_LEN of the kernel's include/uapi/linux/utsname.h */

#define KREL_NEWEST "newest"

/* Can uname -r print it? A digit, then letters, digits and . + _ - ~ ; at most KREL_MAX bytes. */
bool krel_is_valid(const char *krel);

/*
 * 0, or -EILSEQ with the first byte that no release has. Of a package's or a file's name, such as
 * linux-image-6.1.0-56-amd64, the cure is the release in it.
 */
int krel_check(const char *krel, struct error *error) _must_check_;

/*
 * Returns the text after the last part that starts with a digit: "cloud-amd64" of
 * 6.1.0-56-cloud-amd64, "" if there is none. Borrowed.
 */
const char *krel_flavour(const char *krel);

/*
 * A release whose last word is a machine's but for one slip, with that set right: 6.1.0-56-amd64 of
 * 6.1.0-56-amd46. NULL for any other. The caller frees it.
 */
char *krel_with_arch(const char *krel);

/* The machine that a release names, as uname -m prints it; NULL when it names none. */
const char *krel_arch(const char *krel);
/*
 * The release that another machine's kernel of the same build has: 6.1.0-57-arm64 of 6.1.0-57-amd64
 * for aarch64. NULL when @krel names no machine. The caller frees it.
 */
char *krel_for_arch(const char *krel, const char *uname);

/* The value of a key of os-release(5), without its quotes; NULL when it is not there. The caller
 * frees it. */
char *os_release_value(const char *text, const char *key);

/*
 * Below, at or above 0 as kernel release @a is older than, the same as or newer than @b: by the
 * order of Debian versions (deb-version(7)), but for what rpmvercmp() decides otherwise, a digit
 * where the other has a letter: 4.18.0-553.97.1.el8_10 is newer than 4.18.0-553.el8_10.
 */
int krel_compare(const char *a, const char *b);

/*
 * The order of packages' versions, "<epoch>:<version>-<revision>": that of dpkg; @is_rpm: as
 * krel_compare() differs from it.
 */
int version_compare(const char *a, const char *b, bool is_rpm);

/* Returns the version after "<epoch>:", or all of it. Borrowed. */
const char *version_without_epoch(const char *version);

/* krel_compare() for qsort() over an array of char *. */
int krel_compare_items(const void *a, const void *b);

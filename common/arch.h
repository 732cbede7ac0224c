/* SPDX-License-Identifier: Apache-2.0 */
/* Names of machines: the kernel's, and that of Debian and of images. */
#pragma once

#include <stddef.h>

struct arch {
	const char *uname;  /* as uname -m prints it */
	const char *debian; /* as dpkg --print-architecture does */
};

/* All of them, the plainest first; the last one's uname is NULL. */
extern const struct arch archs[];

/* By either name; NULL for one that is not known. */
const struct arch *arch_find(const char *name);

/* "amd64" for "x86_64", as Debian and the OCI call it; a name that is not known as it is. */
const char *arch_debian(const char *uname);

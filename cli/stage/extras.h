/* SPDX-License-Identifier: Apache-2.0 */
/* The packages that a build needs beside a kernel's: the driver sources that are packages. */
#pragma once

#include "kernels/resolve/resolve.h"

struct extras {
	struct resolve_extra *items;
	size_t count;
	struct strv names; /* that the items borrow */
};

/*
 * Lists them: for the reference OFED, and for NVIDIA's modules with the userspace of their version.
 * -EINVAL when the distribution has no such packages. The caller frees it.
 */
int extras_list(const char *data, const struct catalogue *os, bool ofed, bool nvidia,
	struct extras *ret, struct error *error) _must_check_;
void extras_free(struct extras *extras);

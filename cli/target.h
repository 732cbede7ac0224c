/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that images are built for. Made once, when the kernel is locked; const from then on. */
#pragma once

#include "common/arch.h"
#include "kernels/catalogue.h"

struct target {
	const struct catalogue *os; /* the kernel's distribution */
	const struct arch *arch;
	const char *krel;       /* uname -r on the nodes */
	const char *os_version; /* VERSION_ID of the nodes, for tags; NULL where no image is made */
};

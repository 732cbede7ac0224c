/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OFED's headers and Module.symvers as the GPU side finds them: the container's /usr/src, shown
 * below the shared folder. What compiles nvidia-peermem looks for ofa_kernel/default or
 * ofa_kernel/<krel> (nvidia-open-gpu-kernel-modules kernel-open/conftest.sh); the modules' own
 * place is ofa_kernel/<arch>/<krel>.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/* Shows them, in the place of what an earlier life of the container shows: without a gap. */
int nic_export_sources(struct action *action);
/* The end of it; and before the first module goes: what is shown is not what will be loaded. */
int nic_detach_sources(struct action *action);

/*
 * Makes the links ofa_kernel/{default,<krel>} in @sources (relative to the root), which lead to
 * <arch>/<krel> relatively, so that they hold wherever the folder is seen. A folder of such a name
 * is left alone. -ENOENT when there is no Module.symvers for this kernel.
 */
int sources_link(
	int root_fd, const char *sources, const char *arch, const char *krel, struct error *error);

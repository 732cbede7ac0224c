/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the module files that this container loaded, on the node, for the next image: its
 * container does not have them, and should what it loads instead fail, they have to come back. Only
 * the last set is kept, and only of the kernel that runs: they lie in
 * <folder>/<krel>. In a worker.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

/*
 * Makes @folder hold copies of exactly the files at @paths (relative to the root, each with a name
 * of its own) for @krel, in one step: until all are there the old set stays. Nothing is written
 * when @folder says that it has the set @id, one line that differs when the files do. Synced.
 */
int kept_replace(int root_fd, const char *folder, const char *krel, const struct strv *paths,
	const char *id, struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/disk_full.h"

#include <errno.h>

int disk_full(const char *what, struct error *error)
{
	(void) error_set(error, -ENOSPC, "%s%sno space is left on the cache's disk",
		what ? what : "", what ? ": " : "");
	(void) error_try(error, -ENOSPC, "slipway cache prune");
	return error_try(error, -ENOSPC, "use a folder on another disk: --cache DIR");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the way back; for swap_undo.c, swap_back.c and swap_restore.c. In a worker. */
#pragma once

#include "entrypoint/nic/swapper.h"

/*
 * The operator wants the node's own modules back (RESTORE_DRIVER_ON_POD_TERMINATION): proves them,
 * and makes them what is owed. 1: the debt is written, ours may go. 0: there is nothing to do.
 * Negative: refused, and nothing was touched.
 */
int restore_prepare(struct swapper *swapper);

/*
 * Is the module, loaded under a name that we loaded, one of the set: not one of the kernel's own
 * that came along, which others may use by now?
 */
bool undo_is_of_set(struct swapper *swapper, const char *name);

/* Is what is loaded under that name the very build that is owed? */
bool undo_is_owed_build(
	const struct swapper *swapper, const struct swap_plan *debt, const char *name);

/* Those of debt->load that are there: ours, or at least not what is owed. -ENOMEM. */
int undo_list_ours(struct swapper *swapper, const struct swap_plan *debt, struct strv *ours);

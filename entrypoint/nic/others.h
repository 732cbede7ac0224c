/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that leant on what was swapped, and come back after. For workers. */
#pragma once

#include "entrypoint/nic/swapper.h"

/*
 * Loads what of @debt's modules is not there: with @of_image the image's where it has one, else the
 * host's; without, of all but the driver itself, the very build where it is at hand, else the
 * host's. Each is proven before. A line for each that does not come goes to @missing. -ENOMEM.
 */
int others_bring(
	struct swapper *swapper, const struct swap_plan *debt, bool of_image, struct strv *missing);

/* Tells, and keeps in the role's list for the status, what did not come; removes an empty list. */
void others_tell_missing(struct swapper *swapper, const struct strv *missing);

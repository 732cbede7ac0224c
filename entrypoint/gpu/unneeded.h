/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and variables of the stock driver image that are accepted and not needed here. Whoever
 * sets one reads in the log that it was seen, and why nothing comes of it.
 */
#pragma once

#include "entrypoint/role.h"

/* A line for each reason, with the names that it goes for; never a value, which may be a secret. */
void unneeded_tell(struct role *role);

/* SPDX-License-Identifier: Apache-2.0 */
/* Where slipway's data lie: recipes, Containerfiles, catalogue, the sources of slipway-init. */
#pragma once

#include "common/error.h"

/*
 * The data folder: $SLIPWAY_DATADIR; else share/slipway beside the folder that the program is in;
 * else the source tree whose build folder the program is in. -ENOENT with the places tried. The
 * caller frees the path.
 */
int data_find(char **ret_path, struct error *error) _must_check_;

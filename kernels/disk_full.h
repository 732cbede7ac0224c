/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/error.h"

/*
 * Returns -ENOSPC: the cache's disk is full, and how to make room. @what was being written; NULL:
 * the caller names it.
 */
int disk_full(const char *what, struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
/* os-release(5): which distribution a system is. */
#pragma once

#include "common/cleanup.h"

/* The value of a key without its quotes; NULL when it is not there. The caller frees it. */
char *os_release_value(const char *text, const char *key);

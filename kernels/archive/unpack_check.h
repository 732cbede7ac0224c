/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/error.h"

/*
 * Does every link below the folder stay below it, by whatever other links its way leads? -EXDEV
 * with the first one that does not. @archive is for the message.
 */
int unpack_check_links(const char *folder, const char *archive, struct error *error) _must_check_;

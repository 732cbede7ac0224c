/* SPDX-License-Identifier: Apache-2.0 */
/* The text of mirrors' URLs. */
#pragma once

#include "common/cleanup.h"

/*
 * An http, https or file URL without the slashes at its end; a folder's full path becomes a file
 * URL. -EINVAL for anything else. The caller frees it.
 */
int mirror_url_clean(const char *text, char **ret_url) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* URLs for people. */
#pragma once

#include "common/cleanup.h"

/* The URL as it may be shown: "…" for user and password. The caller frees it; NULL without memory.
 */
char *url_shown(const char *url);

/* The userinfo of an URL (RFC 3986, 3.2.1): where it begins, and its length without '@'; or NULL.
 */
const char *url_userinfo(const char *url, size_t *ret_length);

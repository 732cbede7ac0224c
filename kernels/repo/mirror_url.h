/* SPDX-License-Identifier: Apache-2.0 */
/* The text of mirrors' URLs. */
#pragma once

#include "common/cleanup.h"

/*
 * An http, https or file URL without the slashes at its end; a folder's full path becomes a file
 * URL. -EINVAL for anything else. The caller frees it.
 */
int mirror_url_clean(const char *text, char **ret_url) _must_check_;

/*
 * Takes user and password out of an http or https URL: they are for the mirror's server alone, and
 * the URL goes into locks and messages. Both are decoded (RFC 3986, 2.1), NULL where there are
 * none, and the caller frees them. -EINVAL for what cannot be decoded.
 */
int mirror_url_split(char *url, char **ret_user, char **ret_password) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/url.h"

#include <stdio.h>
#include <string.h>

const char *url_userinfo(const char *url, size_t *ret_length)
{
	const char *scheme = strstr(url, "://");
	const char *user = scheme ? scheme + strlen("://") : url;
	const char *at = scheme ? memrchr(user, '@', strcspn(user, "/?#")) : NULL;

	if (!at)
		return NULL;
	*ret_length = (size_t) (at - user);
	return user;
}

char *url_shown(const char *url)
{
	size_t length;
	const char *user = url_userinfo(url, &length);
	char *shown;

	if (!user)
		return strdup(url);
	return asprintf(&shown, "%.*s…%s", (int) (user - url), url, user + length) < 0 ? NULL
										       : shown;
}

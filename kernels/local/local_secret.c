/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a kernel's folder are nobody else's business. */
#include <fnmatch.h>
#include <string.h>

#include "kernels/local/local_files.h"

/*
 * What keys and their containers are called; certs/ is where a kernel's make leaves the key that
 * it made for its modules, in forms of any name. Nothing compiles against them.
 */
bool local_is_secret(const char *path)
{
	static const char *const patterns[] = { "certs", "*.pem", "*.priv", "*.key", "*.p12",
		"*.pfx", "signing_key*" };
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (fnmatch(patterns[i], slash ? slash + 1 : path, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

/* A link by another name brings it no more than the file itself does. */
bool local_leads_to_secret(const char *link, const char *target)
{
	return local_is_secret(target) || (strstr(target, "/certs/") && !strstr(link, "/certs/"));
}

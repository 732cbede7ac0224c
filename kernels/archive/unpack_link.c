/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and links as texts, also for slipway-probe, which is without libarchive. */
#include <string.h>

#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

bool unpack_leads_out(const char *path)
{
	const char *part = path;

	if (*path == '/')
		return true;
	for (;;) {
		size_t length = strcspn(part, "/");

		if (length == 2 && part[0] == '.' && part[1] == '.')
			return true;
		if (!part[length])
			return false;
		part += length + 1;
	}
}

char *unpack_relative_link(const char *path, const char *target)
{
	_cleanup_strv_ struct strv from = { 0 };
	_cleanup_strv_ struct strv to = { 0 };
	_cleanup_strv_ struct strv link = { 0 };
	size_t same = 0;

	xstrv_split(&from, path, "/");
	xstrv_split(&to, target, "/");
	if (from.count == 0)
		return NULL;
	while (same + 1 < from.count && same < to.count &&
		strcmp(from.items[same], to.items[same]) == 0)
		same++;
	for (size_t i = same; i + 1 < from.count; i++)
		xstrv_push(&link, "..");
	for (size_t i = same; i < to.count; i++)
		xstrv_push(&link, to.items[i]);
	return link.count ? xstrv_join(&link, "/") : xstrdup(".");
}

char *unpack_link_target(const char *path, const char *target)
{
	_cleanup_strv_ struct strv parts = { 0 };
	_cleanup_strv_ struct strv kept = { 0 };

	if (*target != '/') {
		xstrv_split(&parts, path, "/");
		if (parts.count)
			strv_remove(&parts, parts.count - 1);
	}
	xstrv_split(&parts, target, "/");
	for (size_t i = 0; i < parts.count; i++) {
		if (strcmp(parts.items[i], ".") == 0)
			continue;
		if (strcmp(parts.items[i], "..") != 0)
			xstrv_push(&kept, parts.items[i]);
		else if (kept.count == 0)
			return NULL;
		else
			strv_remove(&kept, kept.count - 1);
	}
	return xstrv_join(&kept, "/");
}

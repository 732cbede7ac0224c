/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tag.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"

/* Formats a tag, with "_" in place of characters that no tag may have. */
static char *_printf_(1, 2) make_tag(const char *format, ...)
{
	va_list arguments;
	char *tag;
	int length;

	va_start(arguments, format);
	length = vasprintf(&tag, format, arguments);
	va_end(arguments);
	if (length < 0)
		return NULL;
	for (char *c = tag; *c; c++)
		if (!isalnum((unsigned char) *c) && !strchr("-_.", *c))
			*c = '_';
	return tag;
}

char *tag_kernel(const char *krel)
{
	char *tag = make_tag("%s", krel + strspn(krel, "-_."));
	size_t length = tag ? strlen(tag) : 0;

	while (length && strchr("-_.", tag[length - 1]))
		tag[--length] = '\0';
	return tag;
}

char *tag_nic(const char *version, const char *krel, const char *os_id, const char *os_version,
	const char *arch)
{
	_cleanup_free_ char *kernel = tag_kernel(krel);

	return kernel ? make_tag("%s-%s-%s%s-%s", version, kernel, os_id, os_version, arch) : NULL;
}

char *tag_nic_sources(
	const char *version, const char *os_id, const char *os_version, const char *arch)
{
	return make_tag("%s-%s%s-%s", version, os_id, os_version, arch);
}

char *tag_branch(const char *version)
{
	const char *revision = strchrnul(version, '-');
	char *branch;

	return asprintf(&branch, "%.*s%s", (int) strcspn(version, ".-"), version, revision) < 0
		       ? NULL
		       : branch;
}

char *tag_gpu_os(const char *os_id, const char *os_version)
{
	bool major_only = strcmp(os_id, "rhel") == 0 || strcmp(os_id, "rocky") == 0 ||
			  strcmp(os_id, "ol") == 0;
	size_t length = major_only ? strcspn(os_version, ".") : strlen(os_version);
	char *tag;

	return asprintf(&tag, "%s%.*s", os_id, (int) length, os_version) < 0 ? NULL : tag;
}

char *tag_gpu_os_old(const char *os_id, const char *os_version)
{
	char *tag;

	return asprintf(&tag, "%s%s", os_id, os_version) < 0 ? NULL : tag;
}

char *tag_gpu(const char *version, const char *krel, const char *os_tag)
{
	_cleanup_free_ char *branch = tag_branch(version);
	_cleanup_free_ char *kernel = tag_kernel(krel);

	return branch && kernel ? make_tag("%s-%s-%s", branch, kernel, os_tag) : NULL;
}

char *tag_gpu_sources(const char *version, const char *os_tag)
{
	return make_tag("%s-%s", version, os_tag);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tag.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"

static bool is_tag_character(char c)
{
	return isalnum((unsigned char) c) || c == '-' || c == '_' || c == '.';
}

static void sanitise(char *text)
{
	for (char *c = text; *c; c++)
		if (!is_tag_character(*c))
			*c = '_';
}

char *tag_kernel(const char *krel)
{
	size_t length;
	char *tag;

	krel += strspn(krel, "-_.");
	tag = strdup(krel);
	if (!tag)
		return NULL;
	sanitise(tag);
	length = strlen(tag);
	while (length && strchr("-_.", tag[length - 1]))
		tag[--length] = '\0';
	return tag;
}

char *tag_nic(const char *version, const char *krel, const char *os_id, const char *os_version,
	const char *arch)
{
	_cleanup_free_ char *kernel = tag_kernel(krel);
	char *tag;

	if (!kernel ||
		asprintf(&tag, "%s-%s-%s%s-%s", version, kernel, os_id, os_version, arch) < 0)
		return NULL;
	sanitise(tag);
	return tag;
}

char *tag_nic_sources(
	const char *version, const char *os_id, const char *os_version, const char *arch)
{
	char *tag;

	if (asprintf(&tag, "%s-%s%s-%s", version, os_id, os_version, arch) < 0)
		return NULL;
	sanitise(tag);
	return tag;
}

char *tag_branch(const char *version)
{
	return strndup(version, strcspn(version, "."));
}

char *tag_gpu_os(const char *os_id, const char *os_version)
{
	static const char *const major_only[] = { "rhel", "rocky", "ol" };
	size_t length = strlen(os_version);
	char *tag;

	for (size_t i = 0; i < ARRAY_SIZE(major_only); i++)
		if (strcmp(os_id, major_only[i]) == 0)
			length = strcspn(os_version, ".");
	return asprintf(&tag, "%s%.*s", os_id, (int) length, os_version) < 0 ? NULL : tag;
}

char *tag_gpu(const char *version, const char *krel, const char *os_id, const char *os_version)
{
	_cleanup_free_ char *branch = tag_branch(version);
	_cleanup_free_ char *kernel = tag_kernel(krel);
	_cleanup_free_ char *os = tag_gpu_os(os_id, os_version);
	char *tag;

	if (!branch || !kernel || !os || asprintf(&tag, "%s-%s-%s", branch, kernel, os) < 0)
		return NULL;
	sanitise(tag);
	return tag;
}

char *tag_gpu_sources(const char *version, const char *os_id, const char *os_version)
{
	_cleanup_free_ char *os = tag_gpu_os(os_id, os_version);
	char *tag;

	if (!os || asprintf(&tag, "%s-%s", version, os) < 0)
		return NULL;
	sanitise(tag);
	return tag;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a driver image as an operator asks for it (common/tag.h), read backwards: the kernel,
 * and the version of the driver.
 */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <string.h>

#include "common/xalloc.h"

/* The parts of a tag between its "-". */
struct tag {
	struct strv parts;
	size_t kernel; /* the first part of the kernel release; parts.count: there is none */
	size_t os;     /* the first one of "<ID><VERSION_ID>" */
};

/* "6.1.0", "6.12.117_deb13": two or three numbers, the first of at most two digits. */
static bool begins_kernel(const char *part)
{
	size_t numbers = 0;

	if (strspn(part, "0123456789") > 2)
		return false;
	for (; isdigit((unsigned char) *part); numbers++) {
		part += strspn(part, "0123456789");
		if (*part != '.')
			break;
		part++;
	}
	return (numbers == 2 || numbers == 3) && (!*part || *part == '_');
}

/* A version of OFED has such parts, too: the kernel's is the last one. */
static void read_tag(const char *text, bool has_arch, struct tag *ret)
{
	static const char *const two_parts[] = { "opensuse", "sl", "centos" };
	size_t end;

	xstrv_split(&ret->parts, text, "-");
	end = ret->parts.count - (has_arch && ret->parts.count > 1);
	ret->os = end ? end - 1 : 0;
	for (size_t i = 0; i < ARRAY_SIZE(two_parts); i++)
		if (ret->os && strcmp(ret->parts.items[ret->os - 1], two_parts[i]) == 0)
			ret->os--;
	ret->kernel = ret->parts.count;
	for (size_t i = 1; i < ret->os; i++)
		if (begins_kernel(ret->parts.items[i]))
			ret->kernel = i;
}

static char *join_parts(const struct tag *tag, size_t from, size_t to)
{
	const struct strv list = { .items = tag->parts.items + from, .count = to - from };

	return xstrv_join(&list, "-");
}

char *explain_build_command(const char *image, size_t size)
{
	_cleanup_free_ char *name = xstrndup(image, size);
	char *colon = strrchr(name, ':');
	char *slash = strrchr(name, '/');
	const char *repository = slash ? slash + 1 : name;
	struct tag tag = { 0 };
	_cleanup_free_ char *version = NULL, *krel = NULL;
	bool is_nic, is_gpu;
	char *answer, *plus;

	if (!colon || colon < repository)
		return xstrdup("name its tag");
	*colon = '\0';
	is_nic = strcmp(repository, "doca-driver") == 0;
	is_gpu = strcmp(repository, "driver") == 0;
	if (!is_nic && !is_gpu)
		return xasprintf(
			"push it there; the tags that %s has: skopeo list-tags docker://%s", name,
			name);
	read_tag(colon + 1, is_nic, &tag);
	if (tag.kernel == tag.parts.count) {
		answer = xasprintf(
			"this tag has no kernel: push an image of slipway build --sources-image%s; or "
			"for an image of one kernel set %s",
			is_gpu ? " or slipway combine" : "",
			is_gpu ? "driver.usePrecompiled: true"
			       : "ofedDriver.forcePrecompiled: true");
	} else {
		version = join_parts(&tag, 0, tag.kernel);
		krel = join_parts(&tag, tag.kernel, tag.os);
		/* A tag has "_" for the "+" of Debian's names. */
		plus = strstr(krel, "_deb");
		if (plus)
			*plus = '+';
		answer = xasprintf(
			"build it from the source of version %s, and push it: slipway build --kernel "
			"%s %s --output out --registry %.*s; sh out/push.sh",
			version, krel, is_nic ? "--ofed SOURCE --nvidia none" : "--nvidia SOURCE",
			slash ? (int) (slash - name) : 0, name);
	}
	strv_free(&tag.parts);
	return answer;
}

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

/* "6.1.0", "6.12.117_deb13": how many numbers it begins with; 0: no kernel's begins so. */
static size_t count_numbers(const char *part)
{
	size_t numbers = 0;

	if (strspn(part, "0123456789") > 2)
		return 0;
	while (isdigit((unsigned char) *part)) {
		numbers++;
		part += strspn(part, "0123456789");
		if (*part != '.')
			break;
		part++;
	}
	return !*part || *part == '_' ? numbers : 0;
}

static void read_tag(const char *text, bool has_arch, struct tag *ret)
{
	static const char *const two_parts[] = { "opensuse", "sl", "centos" };
	size_t end, fours = 0;

	xstrv_split(&ret->parts, text, "-");
	end = ret->parts.count - (has_arch && ret->parts.count > 1);
	ret->os = end ? end - 1 : 0;
	for (size_t i = 0; i < ARRAY_SIZE(two_parts); i++)
		if (ret->os && strcmp(ret->parts.items[ret->os - 1], two_parts[i]) == 0)
			ret->os--;
	ret->kernel = ret->parts.count;
	/* A version of OFED has such parts, too, one of four numbers: the kernel's is the last one.
	 */
	for (size_t i = 1; i < ret->os; i++) {
		size_t numbers = count_numbers(ret->parts.items[i]);

		if (numbers == 2 || numbers == 3 || (numbers == 4 && (!has_arch || fours++)))
			ret->kernel = i;
	}
}

static char *join_parts(const struct tag *tag, size_t from, size_t to)
{
	const struct strv list = { .items = tag->parts.items + from, .count = to - from };

	return xstrv_join(&list, "-");
}

/* A tag may have no "+": that of a kernel's name is a "_" there. */
static void restore_plus(char *krel)
{
	static const char *const ends[] = { "_deb", "_bpo", "_rpt", "_rt", "_64k", "_debug" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		char *found = strstr(krel, ends[i]);

		if (found)
			*found = '+';
	}
}

/* "rocky9.4" is the catalogue's rocky9, "ubuntu22.04" its ubuntu22.04. The caller frees it. */
static char *catalogue_name(const char *os)
{
	static const struct {
		const char *id, *name;
	} by_major[] = {
		{ "rhel", "rhel" },
		{ "rocky", "rocky" },
		{ "almalinux", "almalinux" },
		{ "ol", "oracle" },
		{ "centos", "centos" },
		{ "photon", "photon" },
		{ "azurelinux", "azurelinux" },
	};
	size_t id = strcspn(os, "0123456789");

	for (size_t i = 0; i < ARRAY_SIZE(by_major); i++)
		if (strlen(by_major[i].id) == id && strncmp(os, by_major[i].id, id) == 0)
			return xasprintf(
				"%s%.*s", by_major[i].name, (int) strcspn(os + id, "."), os + id);
	return xstrdup(os[id] ? os : "debiansid");
}

static char *build_for(const struct tag *tag, bool is_nic, const char *registry)
{
	size_t end = tag->kernel;
	const char *last = tag->parts.items[end - 1];
	bool has_revision = end > 1 && !last[strspn(last, "0123456789")];
	_cleanup_free_ char *version = join_parts(tag, 0, end - has_revision);
	_cleanup_free_ char *krel = join_parts(tag, tag->kernel, tag->os);
	_cleanup_free_ char *os_part = join_parts(tag, tag->os, tag->parts.count - is_nic);
	_cleanup_free_ char *os = catalogue_name(os_part);

	restore_plus(krel);
	return xasprintf(
		"build it from the source of version %s, and push it: slipway build --kernel %s --os %s "
		"--ofed SOURCE --nvidia %s%s%s --output out%s%s; sh out/push.sh%s",
		version, krel, os, is_nic ? "none" : "SOURCE", has_revision ? " --revision " : "",
		has_revision ? last : "", *registry ? " --registry " : "", registry,
		*registry ? "" : " REGISTRY");
}

char *explain_build_command(const char *image, size_t size)
{
	_cleanup_free_ char *name = xstrndup(image, size);
	char *colon = strrchr(name, ':');
	const char *slash = strrchr(name, '/');
	_cleanup_free_ char *registry = xstrndup(name, slash ? (size_t) (slash - name) : 0);
	const char *repository = slash ? slash + 1 : name;
	struct tag tag = { 0 };
	bool is_nic, is_gpu;
	char *answer;

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
	if (tag.kernel < tag.parts.count)
		answer = build_for(&tag, is_nic, registry);
	else
		answer = xasprintf(
			"this tag has no kernel: push an image of slipway build --sources-image%s; or "
			"for an image of one kernel set %s",
			is_gpu ? " or slipway combine" : "",
			is_gpu ? "driver.usePrecompiled: true"
			       : "ofedDriver.forcePrecompiled: true");
	strv_free(&tag.parts);
	return answer;
}

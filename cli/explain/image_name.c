/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a driver image as an operator asks for it (common/tag.h), read backwards: the kernel,
 * and the version of the driver.
 */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <string.h>

#include "cli/context.h"
#include "cli/image/operators.h"
#include "common/tag.h"
#include "common/xalloc.h"

/* The parts of a tag between its "-". */
struct tag {
	struct strv parts;
	size_t kernel; /* the first part of the kernel release; parts.count: there is none */
	size_t os;     /* the first one of "<ID><VERSION_ID>" */
	size_t end;    /* of that: what follows is the architecture */
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
	size_t fours = 0;

	xstrv_split(&ret->parts, text, "-");
	ret->end = ret->parts.count - (has_arch && ret->parts.count > 1);
	ret->os = ret->end ? ret->end - 1 : 0;
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

/* "rocky9.4" is the catalogue's rocky9, "ubuntu22.04" its ubuntu22.04: for --os. The caller frees
 * it. */
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
	static const char tumbleweed[] = "opensuse-tumbleweed";
	size_t id = strcspn(os, "0123456789");

	/* The kernel's name does not tell the snapshot. */
	if (os[id] && strncmp(os, tumbleweed, id) == 0)
		return xasprintf("%s --os-version %s", tumbleweed, os + id);
	for (size_t i = 0; i < ARRAY_SIZE(by_major); i++)
		if (strlen(by_major[i].id) == id && strncmp(os, by_major[i].id, id) == 0)
			return xasprintf(
				"%s%.*s", by_major[i].name, (int) strcspn(os + id, "."), os + id);
	return xstrdup(os[id] ? os : "debiansid");
}

/* A driver's image, by its name in the registry. */
static const struct role {
	const char *image;
	const char *policy;      /* what has its values in the operator's policy */
	const char *precompiled; /* of them: for an image of one kernel */
	const char *source;      /* of NVIDIA's modules */
	const char *combine;     /* beside --sources-image: makes an image of no one kernel */
	bool by_branch;          /* the tag of an image of one kernel has only the branch */
	bool has_arch;           /* tags end with it */
} roles[] = {
	{ IMAGE_GPU_REPOSITORY, "driver", "usePrecompiled", "SOURCE", " or slipway combine", true,
		false },
	{ IMAGE_NIC_REPOSITORY, "ofedDriver", "forcePrecompiled", "none", "", false, true },
};

/* Does a distribution of the catalogue make it? True also if the catalogue cannot be read. */
static bool may_be_published(const char *krel, const struct common_options *options)
{
	const struct common_options none = { 0 };
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	_cleanup_strv_ struct strv makers = { 0 };
	struct error ignored = { 0 };

	return context_open(options ? options : &none, &context, &ignored) < 0 ||
	       catalogue_makers(context.catalogues, krel, &makers, &ignored) < 0 || makers.count;
}

static char *build_for(const struct tag *tag, const struct role *role, const char *registry,
	const struct common_options *options)
{
	size_t end = tag->kernel;
	const char *last = tag->parts.items[end - 1];
	bool has_revision = end > 1 && !last[strspn(last, "0123456789")];
	_cleanup_free_ char *version = join_parts(tag, 0, end - has_revision);
	_cleanup_free_ char *krel = join_parts(tag, tag->kernel, tag->os);
	_cleanup_free_ char *os_part = join_parts(tag, tag->os, tag->end);
	_cleanup_free_ char *os = catalogue_name(os_part);
	_cleanup_free_ char *note = NULL;
	bool published;

	restore_plus(krel);
	published = may_be_published(krel, options);
	if (!published)
		note = xasprintf("; PATH: the packages or the build folder of %s, which is no "
				 "distribution's kernel, or a file that slipway probe made there",
			krel);
	return xasprintf(
		"build it from the source of version %s, and push it: slipway build %s %s --os %s "
		"--ofed SOURCE --nvidia %s%s%s --output out%s%s; sh out/push.sh%s%s",
		version, published ? "--kernel" : "--kernel-from", published ? krel : "PATH", os,
		role->source, has_revision ? " --revision " : "", has_revision ? last : "",
		*registry ? " --registry " : "", registry, *registry ? "" : " REGISTRY",
		note ? note : "");
}

/*
 * If the policy's version is a whole tag, the operator appends kernel and os once more: returns the
 * version that the policy should have. NULL: the tag has the os only once. The caller frees it.
 */
static char *version_in(const struct tag *tag, const struct role *role)
{
	struct tag whole = { 0 };
	_cleanup_free_ char *text = NULL;
	char *version, *branch;
	size_t i = 1;

	while (i < tag->os && strcmp(tag->parts.items[i], tag->parts.items[tag->os]) != 0)
		i++;
	if (i >= tag->os)
		return NULL;
	text = join_parts(tag, 0, i + tag->parts.count - tag->os);
	read_tag(text, role->has_arch, &whole);
	if (whole.kernel == whole.parts.count)
		whole.kernel = whole.os;
	version = join_parts(&whole, 0, whole.kernel);
	if (whole.kernel < whole.os && role->by_branch) {
		branch = tag_branch(version);
		if (!branch)
			out_of_memory();
		free(version);
		version = branch;
	}
	strv_free(&whole.parts);
	return version;
}

/* The command that makes an image with this tag, or what is wrong with the tag. */
static char *read_image(const char *text, const struct role *role, const char *registry,
	const struct common_options *options)
{
	_cleanup_free_ char *version = NULL;
	struct tag tag = { 0 };
	char *answer;

	read_tag(text, role->has_arch, &tag);
	version = version_in(&tag, role);
	if (version)
		answer = xasprintf("set %s.version in the policy to \"%s\": the operator appends "
				   "kernel and os itself",
			role->policy, version);
	else if (tag.kernel < tag.parts.count)
		answer = build_for(&tag, role, registry, options);
	else
		answer = xasprintf(
			"this tag has no kernel: push an image of slipway build --sources-image%s; or "
			"for an image of one kernel set %s.%s: true",
			role->combine, role->policy, role->precompiled);
	strv_free(&tag.parts);
	return answer;
}

/* Nobody but NVIDIA can push to its registry. */
static bool is_nvidias(const char *name)
{
	return strncmp(name, "nvcr.io/", strlen("nvcr.io/")) == 0;
}

char *explain_build_command(const char *image, const struct common_options *options)
{
	_cleanup_free_ char *name = xstrdup(image);
	char *colon = strrchr(name, ':');
	const char *slash = strrchr(name, '/');
	const char *repository = slash ? slash + 1 : name;
	_cleanup_free_ char *registry = NULL;
	_cleanup_free_ char *own = NULL;
	_cleanup_free_ char *forced = NULL;
	_cleanup_free_ char *answer = NULL;
	const struct role *role = NULL;
	char *unproven;

	if (!colon || colon < repository)
		return xstrdup("name its tag");
	*colon = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (strcmp(repository, roles[i].image) == 0)
			role = &roles[i];
	if (!role)
		return xasprintf("%sthe tags that %s has: skopeo list-tags docker://%s",
			is_nvidias(name) ? "" : "push it there; ", name, name);
	registry = xstrndup(name, is_nvidias(name) || !slash ? 0 : (size_t) (slash - name));
	/* Also where the operator appended kernel and os to it. */
	unproven = strstr(colon + 1, IMAGE_UNPROVEN);
	if (unproven) {
		*unproven = '\0';
		forced = xasprintf("slipway build --force made it, and no operator asks for this "
				   "tag: correct %s.version in the policy; or, without --force, ",
			role->policy);
	}
	if (is_nvidias(name))
		own = xasprintf(
			"nvcr.io is NVIDIA's: set %s.repository in the policy to a registry "
			"of your own; ",
			role->policy);
	answer = read_image(colon + 1, role, registry, options);
	return xasprintf("%s%s%s", own ? own : "", forced ? forced : "", answer);
}

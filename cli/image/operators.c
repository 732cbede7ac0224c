/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/operators.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/tag.h"
#include "common/text.h"
#include "common/xalloc.h"

/* --- what the command line says --- */

struct release {
	unsigned int year, month;
};

/* "25.10", "v25.10.1": NVIDIA numbers the GPU operator so. */
static bool parse_release(const char *text, struct release *ret)
{
	int end = -1, patch = -1;

	text += *text == 'v';
	if (!isdigit((unsigned char) *text) ||
		sscanf(text, "%2u.%2u%n.%*9[0-9]%n", &ret->year, &ret->month, &end, &patch) < 2)
		return false;
	return !text[patch > 0 ? patch : end];
}

int registry_check(const char *option, const char *registry, struct error *error)
{
	size_t host = strcspn(registry, "/");
	const char *transport = strstr(registry, "://");
	const char *folder = registry + host;
	size_t length = strlen(registry);

	if (transport) {
		(void) error_set(
			error, -EINVAL, "%s %s: a transport stands before it", option, registry);
		return error_try(error, -EINVAL, "%s %s", option, transport + 3);
	}
	if (length && registry[length - 1] == '/') {
		(void) error_set(error, -EINVAL, "%s %s: it ends with /", option, registry);
		return error_try(error, -EINVAL, "%s %.*s", option, (int) length - 1, registry);
	}
	/* distribution/reference: a host with letters of either case and a port, then folders. */
	if (!isalnum((unsigned char) *registry) || strstr(folder, "//") ||
		strspn(registry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 ".-_:") < host ||
		folder[strspn(folder, "abcdefghijklmnopqrstuvwxyz0123456789._-/")])
		return error_set(error, -EINVAL,
			"%s %s: not the name of a registry, with a folder or without, such as "
			"registry.example/drivers",
			option, registry);
	/* Without a dot, a port or "localhost" it would be a folder of docker.io. */
	if (!memchr(registry, '.', host) && !memchr(registry, ':', host) &&
		(host != strlen("localhost") || strncmp(registry, "localhost", host) != 0))
		return error_set(error, -EINVAL,
			"%s %s: its host has no dot and no port, so that docker.io would be asked",
			option, registry);
	return 0;
}

int revision_check(const char *revision, struct error *error)
{
	if (!revision || (!revision[strspn(revision, "0123456789")] && strlen(revision) <= 9))
		return 0;
	return error_set(error, -EINVAL, "--revision: not a number of at most nine digits");
}

int operators_check(const struct operators *operators, struct error *error)
{
	struct release release;

	if (operators->gpu && !parse_release(operators->gpu, &release))
		return error_set(error, -EINVAL,
			"--gpu-operator %s: not a version of the GPU operator, such as 25.10",
			operators->gpu);
	if (operators->gpu && (release.year < 23 || (release.year == 23 && release.month < 9)))
		return error_set(error, -EINVAL,
			"--gpu-operator %s: too old: its policies lack fields that these images need; "
			"23.9 is the oldest",
			operators->gpu);
	return operators->registry ? registry_check("--registry", operators->registry, error) : 0;
}

/* --- tags --- */

/*
 * From which GPU operator on an os tag has the major release alone; the first row that fits counts.
 * gpu-operator v26.3.0 internal/state/nodepool.go getOSTag(), v26.7.0 controllers/state_manager.go.
 */
static const struct major_only {
	const char *os_id;
	unsigned long from; /* this major release and newer ones */
	struct release since;
	const char *words;
} major_only[] = {
	{ "rocky", 0, { 26, 3 }, "26.3" },
	{ "rhel", 10, { 26, 3 }, "26.3" },
	{ "rhel", 0, { 26, 7 }, "26.7" },
	{ "ol", 0, { 26, 7 }, "26.7" },
};

static const struct major_only *find_major_only(const struct image_use *use)
{
	for (size_t i = 0; i < ARRAY_SIZE(major_only); i++)
		if (strcmp(use->os_id, major_only[i].os_id) == 0 &&
			use->os_major >= major_only[i].from)
			return &major_only[i];
	return NULL;
}

void image_os_tags(const char *os_id, const char *os_version, struct strv *tags)
{
	_cleanup_free_ char *now = tag_gpu_os(os_id, os_version);
	_cleanup_free_ char *before = tag_gpu_os_old(os_id, os_version);

	if (!now || !before)
		out_of_memory();
	xstrv_push_unique(tags, now);
	xstrv_push_unique(tags, before);
}

static void list_gpu_tags(const struct image_tagged *of, struct strv *tags)
{
	_cleanup_strv_ struct strv os_tags = { 0 };

	image_os_tags(of->os_id, of->os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		const char *os_tag = os_tags.items[i];
		_cleanup_free_ char *tag = of->krel ? tag_gpu(of->version, of->krel, os_tag)
						    : tag_gpu_sources(of->version, os_tag);

		if (!tag)
			out_of_memory();
		xstrv_push_unique(tags, tag);
	}
}

static void list_nic_tags(const struct image_tagged *of, struct strv *tags)
{
	_cleanup_free_ char *tag =
		of->krel ? tag_nic(of->version, of->krel, of->os_id, of->os_version, of->arch)
			 : tag_nic_sources(of->version, of->os_id, of->os_version, of->arch);

	if (!tag)
		out_of_memory();
	xstrv_push_unique(tags, tag);
}

static const struct image_role roles[] = {
	{ "gpu", IMAGE_GPU_REPOSITORY, list_gpu_tags, false },
	{ "nic", IMAGE_NIC_REPOSITORY, list_nic_tags, true },
};

const struct image_role *image_role_find(const char *role)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (strcmp(roles[i].role, role) == 0)
			return &roles[i];
	return NULL;
}

void image_add_tag(struct image *image, const char *repository, const char *tag, const char *end)
{
	if (image->tag) {
		xstrv_pushf(&image->also, IMAGE_LOCAL "%s:%s%s", repository, tag, end);
		return;
	}
	image->tag = xasprintf("%s%s", tag, end);
	image->reference = xasprintf(IMAGE_LOCAL "%s:%s", repository, image->tag);
}

/* An image without a role has names alone, and they are of the GPU operator. */
static bool is_nic(const struct image *image)
{
	return image->role && strcmp(image->role, "nic") == 0;
}

void image_wanted_names(const struct image *image, const struct image_use *use, struct strv *names)
{
	bool nic = is_nic(image);
	const struct major_only *row = nic ? NULL : find_major_only(use);
	struct release asked = { 0 };
	bool known = use->operators.gpu && parse_release(use->operators.gpu, &asked);
	bool older = known && row &&
		     (asked.year < row->since.year ||
			     (asked.year == row->since.year && asked.month < row->since.month));

	if (!older || !image->also.count)
		xstrv_push(names, image->reference);
	/* A NIC image's are of other architectures, and not of other operators. */
	for (size_t i = 0; i < image->also.count && (older || !known || nic); i++)
		xstrv_push(names, image->also.items[i]);
}

/* --- values --- */

const char *operators_registry(const struct image_use *use)
{
	return use->operators.registry ? use->operators.registry : "REGISTRY";
}

char *image_version_in_tag(const char *version)
{
	char *text = xstrdup(version);

	for (char *c = text; *c; c++)
		if (!isalnum((unsigned char) *c) && !strchr("-_.", *c))
			*c = '_';
	return text;
}

char *image_driver_version(const struct image *image, const struct image_use *use)
{
	_cleanup_free_ char *branch = use->krel ? tag_branch(image->version) : NULL;

	return image_version_in_tag(branch ? branch : image->version);
}

static void print_push(const char *name, const struct image_use *use)
{
	if (use->index)
		text_print(stdout, "  skopeo copy --all oci-archive:%s docker://%s/%s\n",
			use->index, operators_registry(use), basename(name));
	else
		text_print(stdout, "  buildah push %s docker://%s/%s\n", name,
			operators_registry(use), basename(name));
}

/* All its names; those behind the first are for older operators. */
static void print_names(const struct image *image, const struct image_use *use)
{
	const struct major_only *row = is_nic(image) ? NULL : find_major_only(use);
	_cleanup_strv_ struct strv names = { 0 };

	image_wanted_names(image, use, &names);
	for (size_t i = 0; i < names.count; i++) {
		print_push(names.items[i], use);
		if (i == 0 && names.count > 1 && !use->operators.gpu && row)
			text_print(stdout,
				"  GPU Operator before %s has the minor release in the tag; then "
				"also:\n",
				row->words);
	}
}

static void print_nic(const struct image *image, const struct image_use *use, const char *more)
{
	_cleanup_free_ char *version = image_version_in_tag(image->version);

	text_print(stdout,
		"  Network Operator (NicClusterPolicy ofedDriver): repository: %s, "
		"image: doca-driver, version: %s%s%s\n",
		operators_registry(use), version, use->krel ? ", forcePrecompiled: true" : "",
		more);
}

static void print_gpu(const struct image *image, const struct image_use *use, const char *more)
{
	_cleanup_free_ char *version = image_driver_version(image, use);

	text_print(stdout,
		"  GPU Operator: driver.usePrecompiled=%s, driver.repository=%s, "
		"driver.image=driver, driver.version=\"%s\"%s\n",
		use->krel ? "true" : "false", operators_registry(use), version, more);
}

static void print_addon(const struct image_addon *addon, const struct image_use *use)
{
	const char *values = addon->values;
	_cleanup_free_ char *version = image_version_in_tag(addon->names->version);

	text_print(stdout, "%s  the same image, for the operator's container\n", addon->repository);
	print_names(addon->names, use);
	text_print(stdout,
		"  GPU Operator: %s.enabled=true, %s.repository=%s, %s.image=%s, "
		"%s.version=\"%s\"\n",
		values, values, operators_registry(use), values, addon->repository, values,
		version);
}

void image_print_use(const struct image *image, const struct image_use *use)
{
	const char *more =
		use->compiles ? "; it compiles for kernels that it has no modules for" : "";

	if (!image_is_proven(image)) {
		print_push(image->reference, use);
		text_print(stdout,
			"  No operator asks for a tag that ends with " IMAGE_UNPROVEN
			": the one without is kept for an image whose modules will load\n");
		return;
	}
	print_names(image, use);
	if (is_nic(image)) {
		print_nic(image, use, more);
		return;
	}
	print_gpu(image, use, more);
	for (size_t i = 0; i < use->addon_count; i++)
		print_addon(&use->addons[i], use);
}

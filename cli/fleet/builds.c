/* SPDX-License-Identifier: Apache-2.0 */
/* The builds of a target, with the tags that the operators ask for and the command line of each. */
#include "cli/fleet/fleet_internal.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stage/build.h"
#include "common/arch.h"
#include "common/tag.h"
#include "common/xalloc.h"

void fleet_exclude(struct making *making, const struct fleet_target *target, const char *nvidia,
	const char *pattern)
{
	struct fleet *fleet = &making->fleet;

	fleet->excluded =
		xreallocarray(fleet->excluded, fleet->excluded_count + 1, sizeof(*fleet->excluded));
	fleet->excluded[fleet->excluded_count++] = (struct fleet_exclusion){
		.krel = xstrdup(target->krel),
		.nvidia = xstrdup(nvidia),
		.pattern = xstrdup(pattern),
		.nodes = target->nodes,
	};
}

const char *fleet_excluding(
	const struct making *making, const struct fleet_target *target, const char *nvidia)
{
	const struct strv *excludes = making->request->excludes;

	for (size_t i = 0; i < excludes->count; i++) {
		const char *pattern = excludes->items[i];
		const char *colon = strchr(pattern, ':');
		_cleanup_free_ char *glob =
			colon ? xstrndup(pattern, (size_t) (colon - pattern)) : xstrdup(pattern);

		if (!colon != !*nvidia || fnmatch(glob, target->krel, 0) != 0 ||
			(colon && fnmatch(colon + 1, nvidia, 0) != 0))
			continue;
		return pattern;
	}
	return NULL;
}

bool fleet_is_excluded(struct making *making, const struct fleet_target *target, const char *nvidia)
{
	const char *pattern = fleet_excluding(making, target, nvidia);

	if (pattern)
		fleet_exclude(making, target, nvidia, pattern);
	return pattern;
}

/* The version that tags have: the operator's policy has the revision, too. */
static char *version_in_tag(const struct making *making, const struct fleet_driver *driver)
{
	const char *revision = making->request->revision;
	_cleanup_free_ char *version =
		xasprintf("%s%s%s", driver->version, revision ? "-" : "", revision ? revision : "");

	return image_version_in_tag(version);
}

static char *nic_name(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *ofed)
{
	_cleanup_free_ char *version = version_in_tag(making, ofed);
	_cleanup_free_ char *tag = tag_nic(
		version, target->krel, target->os_id, target->os_version, arch_oci(target->arch));

	if (!tag)
		out_of_memory();
	return xasprintf(IMAGE_NIC_REPOSITORY ":%s", tag);
}

/* One or two: operators before 26.7 compose another tag for some distributions. */
static void gpu_names(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *nvidia, struct strv *names)
{
	const struct image_use use = {
		.operators = making->request->operators,
		.os_id = target->os_id,
		.os_major = strtoul(target->os_version, NULL, 10),
	};
	_cleanup_free_ char *version = version_in_tag(making, nvidia);
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_strv_ struct strv os_tags = { 0 };
	_cleanup_strv_ struct strv local = { 0 };

	image_os_tags(target->os_id, target->os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag = tag_gpu(version, target->krel, os_tags.items[i]);

		if (!tag)
			out_of_memory();
		image_add_tag(&image, IMAGE_GPU_REPOSITORY, tag, "");
	}
	image_wanted_names(&image, &use, &local);
	for (size_t i = 0; i < local.count; i++)
		xstrv_push(names, strrchr(local.items[i], '/') + 1);
}

/* @name is "<repository>:<tag>". */
static void add_image(const struct making *making, struct fleet_target *target,
	struct fleet_build *build, const char *role, const char *name)
{
	const struct image_use use = { .operators = making->request->operators };
	const char *tag = strchr(name, ':') + 1;
	struct fleet_image *items =
		xreallocarray(build->images, build->image_count + 1, sizeof(*items));

	build->images = items;
	items[build->image_count++] = (struct fleet_image){
		.role = xstrdup(role),
		.tag = xstrdup(tag),
		.reference = xasprintf("%s/%s", operators_registry(&use), name),
		.state = xstrdup(FLEET_NOT_ASKED),
		.differs = xstrdup(""),
	};
	if (strlen(tag) > IMAGE_TAG_LIMIT && !*target->problem)
		fleet_set_problem(
			target, xasprintf("its tag has %zu characters, and a registry takes %d",
					strlen(tag), IMAGE_TAG_LIMIT));
}

/* Builds may run in another folder: a relative path that is here is absolute for them. The caller
 * frees it. */
static char *from_anywhere(const char *path)
{
	char *real = *path == '/' ? NULL : realpath(path, NULL);

	return real ? real : xstrdup(path);
}

/* With folders to find it in, the version is a source. A plan without one is only for --check. */
static bool has_source(const struct making *making, const struct fleet_driver *driver)
{
	return driver->source || making->request->sources.count;
}

/* Adds --ofed or --nvidia. */
static void add_source(enum driver driver, const struct fleet_driver *wanted, struct strv *args)
{
	const char *word = driver_package_word(driver);
	_cleanup_free_ char *path = NULL;

	if (wanted->source && strcmp(wanted->source, word) != 0)
		path = from_anywhere(wanted->source);
	xstrv_pushf(args, "--%s=%s", driver_name(driver),
		path             ? path
		: wanted->source ? word
				 : wanted->version);
}

static int add_arguments(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct strv *args,
	struct error *error)
{
	const struct fleet_request *request = making->request;
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_free_ char *version = NULL;
	int r = fleet_open_os(making, target->os, &os, error);

	if (r < 0)
		return r;
	version = catalogue_node_version(&os, target->krel);
	xstrv_push(args, target->krel);
	xstrv_pushf(args, "--os=%s", target->os);
	xstrv_pushf(args, "--arch=%s", target->arch);
	if (*target->os_version && (!version || strcmp(version, target->os_version) != 0))
		xstrv_pushf(args, "--os-version=%s", target->os_version);
	if (ofed)
		add_source(DRIVER_OFED, ofed, args);
	if (nvidia)
		add_source(DRIVER_NVIDIA, nvidia, args);
	else
		xstrv_push(args, "--nvidia=none");
	for (size_t i = 0; i < request->sources.count; i++) {
		_cleanup_free_ char *folder = from_anywhere(request->sources.items[i]);

		xstrv_pushf(args, "--sources=%s", folder);
	}
	if (request->revision)
		xstrv_pushf(args, "--revision=%s", request->revision);
	if (request->operators.registry)
		xstrv_pushf(args, "--registry=%s", request->operators.registry);
	if (request->operators.gpu)
		xstrv_pushf(args, "--gpu-operator=%s", request->operators.gpu);
	build_options_add(request->arguments, ofed, nvidia, args);
	return 0;
}

/* @ofed, @nvidia: NULL: without it. */
static int add_build(struct making *making, struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct error *error)
{
	const char *revision = making->request->revision;
	struct fleet_build *build;

	target->builds =
		xreallocarray(target->builds, target->build_count + 1, sizeof(*target->builds));
	build = &target->builds[target->build_count++];
	*build = (struct fleet_build){
		.ofed = xstrdup(ofed ? ofed->version : ""),
		.nvidia = xstrdup(nvidia ? nvidia->version : ""),
		.revision = xstrdup(revision ? revision : ""),
	};
	if (*target->os_id && ofed) {
		_cleanup_free_ char *name = nic_name(making, target, ofed);

		add_image(making, target, build, FLEET_NIC, name);
	}
	if (*target->os_id && nvidia) {
		_cleanup_strv_ struct strv names = { 0 };

		gpu_names(making, target, nvidia, &names);
		for (size_t i = 0; i < names.count; i++)
			add_image(making, target, build, FLEET_GPU, names.items[i]);
	}
	/* Without a source the plan can be checked, and not built. */
	if (*target->problem || (ofed && !has_source(making, ofed)) ||
		(nvidia && !has_source(making, nvidia)))
		return 0;
	return add_arguments(making, target, ofed, nvidia, &build->args, error);
}

/* The build of this target that makes the GPU image of the same tag; NULL: none. */
static const struct fleet_build *find_owner(const struct making *making,
	const struct fleet_target *target, const struct fleet_driver *nvidia)
{
	_cleanup_strv_ struct strv names = { 0 };

	gpu_names(making, target, nvidia, &names);
	for (size_t i = 0; i < target->build_count; i++)
		for (size_t j = 0; j < target->builds[i].image_count; j++)
			if (strv_contains(&names,
				    strrchr(target->builds[i].images[j].reference, '/') + 1))
				return &target->builds[i];
	return NULL;
}

static bool makes_nic(const struct fleet_target *target, const struct fleet_driver *ofed)
{
	for (size_t i = 0; i < target->build_count; i++)
		if (strcmp(target->builds[i].ofed, ofed->version) == 0)
			return true;
	return false;
}

/* A tag has one image: of those that would share it only the first is built. */
static int add_pair(struct making *making, struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct error *error)
{
	struct strv *warnings = &making->fleet.warnings;
	const struct fleet_build *owner = nvidia ? find_owner(making, target, nvidia) : NULL;
	_cleanup_free_ char *text = NULL;

	if (!owner)
		return add_build(making, target, ofed, nvidia, error);
	text = strcmp(owner->nvidia, nvidia->version) == 0
		       ? xasprintf("GPU images for OFED %s and %s share a tag: those of this plan "
				   "are for %s",
				 owner->ofed, ofed ? ofed->version : "", owner->ofed)
		       : xasprintf("drivers %s and %s are of one branch, and their images share a "
				   "tag: those of this plan have %s",
				 owner->nvidia, nvidia->version, owner->nvidia);
	xstrv_push_unique(warnings, text);
	return ofed && !makes_nic(target, ofed) ? add_build(making, target, ofed, NULL, error) : 0;
}

/* All pairs of an OFED and an NVIDIA driver; where one of them is not needed, the other alone. */
int fleet_add_builds(struct making *making, struct fleet_target *target, struct error *error)
{
	const struct fleet_drivers *ofed = &making->request->ofed;
	const struct fleet_drivers *nvidia = &making->request->nvidia;
	const size_t ofeds = target->nic ? ofed->count : 0;
	_cleanup_free_ size_t *kept = xcalloc(nvidia->count, sizeof(*kept));
	size_t count = 0;

	for (size_t i = 0; i < nvidia->count && target->gpu; i++)
		if (!fleet_is_excluded(making, target, nvidia->items[i].version))
			kept[count++] = i;
	if (ofeds == 0 && count == 0)
		return 0;
	for (size_t i = 0; i < (ofeds ? ofeds : 1); i++) {
		for (size_t j = 0; j < (count ? count : 1); j++) {
			int r = add_pair(making, target, ofeds ? &ofed->items[i] : NULL,
				count ? &nvidia->items[kept[j]] : NULL, error);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

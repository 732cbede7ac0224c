/* SPDX-License-Identifier: Apache-2.0 */
/* Which images of a plan the registry has, and whether they are the ones that were asked for. */
#include <string.h>

#include "cli/fleet/fleet.h"
#include "cli/image/image_record.h"
#include "cli/image/registry.h"
#include "common/arch.h"
#include "common/xalloc.h"

struct asking {
	struct fleet *fleet;
	struct progress *progress;
	json_object *tags;   /* of each repository: an object with them as keys; null: not known */
	json_object *images; /* of each reference and architecture; null: not known */
	bool unknown;
};

static void set_state(struct fleet_image *image, const char *state, char *differs)
{
	free(image->state);
	free(image->differs);
	image->state = xstrdup(state);
	image->differs = differs ? differs : xstrdup("");
}

/* A question without an answer is a warning, and never "missing". */
static void add_unknown(struct asking *asking, const struct error *why)
{
	_cleanup_free_ char *lines = xstrdup(why->lines);

	lines[strcspn(lines, "\n")] = '\0';
	xstrv_pushf(&asking->fleet->warnings, "%s%s%s", why->text, *lines ? "; " : "", lines);
	asking->unknown = true;
}

/* NULL: not known. Errors that a next question would have, too, are returned. */
static int ask_tags(
	struct asking *asking, const char *repository, json_object **ret, struct error *error)
{
	_cleanup_strv_ struct strv tags = { 0 };
	struct error why;
	int r;

	if (json_object_object_get_ex(asking->tags, repository, ret))
		return 0;
	progress_step(asking->progress, repository);
	r = registry_list_tags(repository, &tags, &why);
	*ret = NULL;
	if (r == -EREMOTEIO) {
		add_unknown(asking, &why);
	} else if (r < 0) {
		*error = why;
		return r;
	} else {
		*ret = json_object_new_object();
		for (size_t i = 0; i < tags.count; i++)
			(void) json_object_object_add(*ret, tags.items[i], NULL);
	}
	(void) json_object_object_add(asking->tags, repository, *ret);
	return 0;
}

/* -ENOENT, without an error: an index that has no image for @arch. */
static int ask_about(struct asking *asking, const char *reference, const char *arch,
	json_object **ret, struct error *error)
{
	_cleanup_free_ char *key = xasprintf("%s %s", reference, arch);
	struct error why;
	int r;

	if (json_object_object_get_ex(asking->images, key, ret))
		return 0;
	progress_step(asking->progress, strrchr(reference, '/') + 1);
	r = registry_inspect(reference, arch, ret, &why);
	if (r == -ENOENT)
		return r;
	if (r == -EREMOTEIO) {
		*ret = NULL;
		add_unknown(asking, &why);
	} else if (r < 0) {
		*error = why;
		return r;
	}
	(void) json_object_object_add(asking->images, key, *ret);
	return 0;
}

/* How the image there differs from the one of the plan; NULL: not at all. */
static char *compare(json_object *there, const struct fleet_target *target,
	const struct fleet_build *build, bool gpu)
{
	const char *version = registry_label(there, "org.opencontainers.image.version");
	const char *krel = registry_label(there, "io.slipway.krel");
	const char *peermem = registry_label(there, IMAGE_LABEL_PEERMEM);
	_cleanup_free_ char *bound_to = image_version_in_tag(peermem);
	_cleanup_free_ char *ofed = image_version_in_tag(build->ofed);
	_cleanup_free_ char *wanted = fleet_image_version(build, gpu ? FLEET_GPU : FLEET_NIC);

	if (!*registry_label(there, "io.slipway.role"))
		return xstrdup("not made by Slipway");
	if (strcmp(registry_label(there, "io.slipway.proof"), "holds") != 0)
		return xstrdup("not proven");
	if (strcmp(krel, target->krel) != 0)
		return xasprintf("for kernel %s", krel);
	/* Only the NIC image's tag has the architecture. */
	if (strcmp(registry_arch(there), arch_oci(target->arch)) != 0)
		return xasprintf("for %s", registry_arch(there));
	if (strcmp(version, wanted) != 0)
		return xasprintf("%s %s", gpu ? "driver" : "OFED", version);
	if (gpu && *build->ofed && strcmp(bound_to, ofed) != 0)
		return strcmp(peermem, IMAGE_NO_PEERMEM) == 0
			       ? xstrdup("no nvidia-peermem")
			       : xasprintf("nvidia-peermem for OFED %s", peermem);
	return NULL;
}

static int ask_image(struct asking *asking, const struct fleet_target *target,
	const struct fleet_build *build, struct fleet_image *image, struct error *error)
{
	bool gpu = strcmp(image->role, FLEET_GPU) == 0;
	_cleanup_free_ char *repository =
		xstrndup(image->reference, strlen(image->reference) - strlen(image->tag) - 1);
	json_object *tags, *there;
	char *differs;
	int r = ask_tags(asking, repository, &tags, error);

	if (r < 0)
		return r;
	if (!tags)
		r = 0;
	else if (json_object_object_get_ex(tags, image->tag, NULL))
		r = ask_about(asking, image->reference, arch_oci(target->arch), &there, error);
	else
		r = -ENOENT;
	if (r == -ENOENT) {
		set_state(image, FLEET_MISSING, NULL);
		return 0;
	}
	if (r < 0)
		return r;
	if (!tags || !there) {
		set_state(image, FLEET_UNKNOWN, NULL);
		return 0;
	}
	differs = compare(there, target, build, gpu);
	set_state(image, differs ? FLEET_DIFFERS : FLEET_THERE, differs);
	return 0;
}

static int ask_target(struct asking *asking, struct fleet_target *target, struct error *error)
{
	for (size_t i = 0; i < target->build_count; i++) {
		struct fleet_build *build = &target->builds[i];

		for (size_t j = 0; j < build->image_count; j++) {
			int r = ask_image(asking, target, build, &build->images[j], error);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int fleet_ask(
	struct fleet *fleet, struct progress *progress, bool *ret_unknown, struct error *error)
{
	struct asking asking = {
		.fleet = fleet,
		.progress = progress,
		.tags = json_object_new_object(),
		.images = json_object_new_object(),
	};
	int r = 0;

	for (size_t i = 0; i < fleet->target_count && r == 0; i++)
		r = ask_target(&asking, &fleet->targets[i], error);
	*ret_unknown = asking.unknown;
	(void) json_object_put(asking.tags);
	(void) json_object_put(asking.images);
	return r;
}

/* ---- what the answers mean */

/* One of a distribution that is not known has no tags, and nothing that serves its nodes. */
static bool is_complete(const struct fleet_build *build)
{
	if (build->image_count == 0)
		return false;
	for (size_t i = 0; i < build->image_count; i++)
		if (strcmp(build->images[i].state, FLEET_THERE) != 0)
			return false;
	return true;
}

bool fleet_is_there(const struct fleet *fleet)
{
	if (fleet->incomplete)
		return false;
	for (size_t i = 0; i < fleet->target_count; i++)
		for (size_t j = 0; j < fleet->targets[i].build_count; j++)
			if (!is_complete(&fleet->targets[i].builds[j]))
				return false;
	return true;
}

void fleet_keep_missing(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];
		size_t builds = 0;

		for (size_t j = 0; j < target->build_count; j++) {
			if (is_complete(&target->builds[j]))
				fleet_build_free(&target->builds[j]);
			else
				target->builds[builds++] = target->builds[j];
		}
		target->build_count = builds;
	}
	fleet_keep_targets(fleet);
}

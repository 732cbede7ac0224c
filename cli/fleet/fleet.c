/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: as JSON, and what is given for one. */
#include "cli/fleet/fleet_internal.h"

#include <string.h>

#include "cli/json.h"
#include "common/arch.h"
#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

/* ---- as JSON, as it is printed, read and freed */

static const struct json_field image_fields[] = {
	{ JSON_FIELD("role", JSON_TEXT, struct fleet_image, role) },
	{ JSON_FIELD("tag", JSON_TEXT, struct fleet_image, tag) },
	{ JSON_FIELD("reference", JSON_TEXT, struct fleet_image, reference) },
	{ JSON_FIELD("state", JSON_TEXT, struct fleet_image, state) },
	{ JSON_FIELD("differs", JSON_TEXT, struct fleet_image, differs) },
};
static const struct json_fields fleet_image_fields =
	JSON_FIELDS("image", image_fields, struct fleet_image);

static const struct json_field build_fields[] = {
	{ JSON_FIELD("ofed", JSON_TEXT, struct fleet_build, ofed) },
	{ JSON_FIELD("nvidia", JSON_TEXT, struct fleet_build, nvidia) },
	{ JSON_FIELD("revision", JSON_TEXT, struct fleet_build, revision) },
	{ JSON_FIELD("args", JSON_TEXTS, struct fleet_build, args) },
	{ JSON_FIELD("images", JSON_LIST, struct fleet_build, images), .of = &fleet_image_fields },
};
static const struct json_fields fleet_build_fields =
	JSON_FIELDS("build", build_fields, struct fleet_build);

static const struct json_field target_fields[] = {
	{ JSON_FIELD("index", JSON_NUMBER, struct fleet_target, index) },
	{ JSON_FIELD("krel", JSON_TEXT, struct fleet_target, krel), .is_right = krel_is_valid,
		.wanted = "no kernel release" },
	{ JSON_FIELD("os", JSON_TEXT, struct fleet_target, os) },
	{ JSON_FIELD("os_version", JSON_TEXT, struct fleet_target, os_version) },
	{ JSON_FIELD("arch", JSON_TEXT, struct fleet_target, arch) },
	{ JSON_FIELD("nodes", JSON_NUMBER, struct fleet_target, nodes) },
	{ JSON_FIELD("nodes_ahead", JSON_NUMBER, struct fleet_target, nodes_ahead) },
	{ JSON_FIELD("why", JSON_TEXT, struct fleet_target, why) },
	{ JSON_FIELD("problem", JSON_TEXT, struct fleet_target, problem) },
	{ JSON_FIELD("builds", JSON_LIST, struct fleet_target, builds), .of = &fleet_build_fields },
};
static const struct json_fields fleet_target_fields =
	JSON_FIELDS("target", target_fields, struct fleet_target);

static const struct json_field exclusion_fields[] = {
	{ JSON_FIELD("krel", JSON_TEXT, struct fleet_exclusion, krel) },
	{ JSON_FIELD("nvidia", JSON_TEXT, struct fleet_exclusion, nvidia) },
	{ JSON_FIELD("pattern", JSON_TEXT, struct fleet_exclusion, pattern) },
	{ JSON_FIELD("nodes", JSON_NUMBER, struct fleet_exclusion, nodes) },
};
static const struct json_fields fleet_exclusion_fields =
	JSON_FIELDS("exclusion", exclusion_fields, struct fleet_exclusion);

static const struct json_field plan_fields[] = {
	{ JSON_FIELD("targets", JSON_LIST, struct fleet, targets), .of = &fleet_target_fields },
	{ JSON_FIELD("excluded", JSON_LIST, struct fleet, excluded),
		.of = &fleet_exclusion_fields },
	{ JSON_FIELD("warnings", JSON_TEXTS, struct fleet, warnings) },
};
static const struct json_fields fleet_fields = JSON_FIELDS("plan", plan_fields, struct fleet);

JSON_HAS_COUNT(struct fleet, targets, target_count);
JSON_HAS_COUNT(struct fleet, excluded, excluded_count);
JSON_HAS_COUNT(struct fleet_target, builds, build_count);
JSON_HAS_COUNT(struct fleet_build, images, image_count);

json_object *fleet_to_json(const struct fleet *fleet)
{
	json_object *root = json_object_new_object();

	json_fields_add(root, &fleet_fields, fleet);
	json_add(root, "without_lists", json_list(&fleet->without_lists));
	return root;
}

int fleet_from_json(json_object *root, struct fleet *ret, struct error *error)
{
	int r = json_object_is_type(root, json_type_object)
			? json_fields_read(root, &fleet_fields, ret, error)
			: error_set(error, -EBADMSG, "no JSON object");

	if (r < 0)
		fleet_free(ret);
	return r;
}

/* ---- drivers */

int fleet_add_driver(
	struct fleet_drivers *drivers, const char *option, const char *text, struct error *error)
{
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t) (equals - text) : strlen(text);
	struct fleet_driver *items;

	if (length == 0 || (equals && !equals[1]))
		return error_set(error, -EINVAL,
			"%s %s: must be a version, or a version and its source: "
			"24.07-0.6.1.0=/src/ofed",
			option, text);
	/* The words of --ofed and --nvidia are no versions; nor are paths. */
	if (*text < '0' || *text > '9' || memchr(text, '/', length)) {
		(void) error_set(error, -EINVAL, "%s %s: its version is missing", option, text);
		return error_try(error, -EINVAL,
			"%s VERSION=%s, with the version that the operator's policy has", option,
			equals ? equals + 1 : text);
	}
	for (size_t i = 0; i < drivers->count; i++)
		if (strlen(drivers->items[i].version) == length &&
			strncmp(drivers->items[i].version, text, length) == 0)
			return error_set(
				error, -EINVAL, "%s %s: this version is given twice", option, text);
	items = xreallocarray(drivers->items, drivers->count + 1, sizeof(*items));
	items[drivers->count++] = (struct fleet_driver){
		.version = xstrndup(text, length),
		.source = equals ? xstrdup(equals + 1) : NULL,
	};
	drivers->items = items;
	return 0;
}

void fleet_drivers_free(struct fleet_drivers *drivers)
{
	for (size_t i = 0; i < drivers->count; i++) {
		free(drivers->items[i].version);
		free(drivers->items[i].source);
	}
	free(drivers->items);
	*drivers = (struct fleet_drivers){ 0 };
}

/* ---- what all have in common */

/* The one at @position of all builds' images. */
static const struct fleet_image *find_image(const struct fleet_target *target, size_t position)
{
	for (size_t i = 0; i < target->build_count; i++) {
		const struct fleet_build *build = &target->builds[i];

		if (position < build->image_count)
			return &build->images[position];
		position -= build->image_count;
	}
	return NULL;
}

const struct fleet_image *fleet_next_image(const struct fleet_target *target, size_t *position)
{
	const struct fleet_image *image;

	while ((image = find_image(target, (*position)++))) {
		size_t before = 0;

		while (strcmp(find_image(target, before)->reference, image->reference) != 0)
			before++;
		if (before == *position - 1)
			return image;
	}
	return NULL;
}

char *fleet_image_version(const struct fleet_build *build, const char *role)
{
	return xasprintf("%s%s%s", strcmp(role, FLEET_GPU) == 0 ? build->nvidia : build->ofed,
		*build->revision ? "-" : "", build->revision);
}

void fleet_build_free(struct fleet_build *build)
{
	json_fields_free(&fleet_build_fields, build);
}

void fleet_target_free(struct fleet_target *target)
{
	json_fields_free(&fleet_target_fields, target);
	free(target->os_id);
}

void fleet_keep_targets(struct fleet *fleet)
{
	size_t kept = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];

		if (target->build_count == 0) {
			fleet_target_free(target);
			continue;
		}
		target->index = (unsigned int) kept;
		fleet->targets[kept++] = *target;
	}
	fleet->target_count = kept;
}

void fleet_free(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->target_count; i++)
		free(fleet->targets[i].os_id);
	strv_free(&fleet->without_lists);
	json_fields_free(&fleet_fields, fleet);
}

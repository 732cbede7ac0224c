/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/addons.h"

#include <string.h>

#include "common/tag.h"
#include "common/xalloc.h"

static const struct row {
	const char *driver;
	const char *values; /* of the operator's configuration */
	const char *image;
} rows[IMAGE_ADDONS] = {
	{ "gdrcopy", "gdrcopy", "gdrdrv" },
	{ "nvidia-fs", "gds", "nvidia-fs" },
};

static void add_names(struct image *names, const char *repository, const char *os_id,
	const struct strv *os_versions)
{
	_cleanup_strv_ struct strv os_tags = { 0 };

	for (size_t i = 0; i < os_versions->count; i++)
		image_os_tags(os_id, os_versions->items[i], &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag = tag_gpu_sources(names->version, os_tags.items[i]);

		if (!tag)
			out_of_memory();
		image_add_tag(names, repository, tag, "");
	}
}

void image_addons_add(struct image_addons *addons, const char *driver, const char *version,
	const char *revision, const char *os_id, const struct strv *os_versions)
{
	bool revised = revision && *revision;

	for (size_t i = 0; i < IMAGE_ADDONS; i++) {
		struct image *names = &addons->names[i];

		/* Once; the words may be those of an image that is not ours. */
		if (strcmp(rows[i].driver, driver) != 0 || names->version || !*version)
			continue;
		names->version =
			xasprintf("%s%s%s", version, revised ? "-" : "", revised ? revision : "");
		add_names(names, rows[i].image, os_id, os_versions);
		addons->used[addons->count++] = (struct image_addon){
			.values = rows[i].values, .repository = rows[i].image, .names = names
		};
	}
}

void image_addons_free(struct image_addons *addons)
{
	for (size_t i = 0; i < IMAGE_ADDONS; i++)
		image_free(&addons->names[i]);
	addons->count = 0;
}

int image_addons_place(
	const struct image_addons *addons, const char *id, bool *changed, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < addons->count && r == 0; i++) {
		const struct image *names = addons->used[i].names;

		r = image_give_name(id, names->reference, changed, error);
		for (size_t j = 0; j < names->also.count && r == 0; j++)
			r = image_give_name(id, names->also.items[j], changed, error);
	}
	return r;
}

void image_addons_wanted(
	const struct image_addons *addons, const struct image_use *use, struct strv *names)
{
	for (size_t i = 0; i < addons->count; i++)
		image_wanted_names(addons->used[i].names, use, names);
}

void image_addons_add_json(const struct image_addons *addons, json_object *object)
{
	json_object *list;

	if (!addons->count)
		return;
	list = json_object_new_array();
	for (size_t i = 0; i < addons->count; i++) {
		const struct image *names = addons->used[i].names;
		json_object *item = json_object_new_object();

		(void) json_object_object_add(
			item, "reference", json_object_new_string(names->reference));
		(void) json_object_object_add(
			item, "version", json_object_new_string(names->version));
		image_add_also(item, names);
		(void) json_object_array_add(list, item);
	}
	(void) json_object_object_add(object, "addons", list);
}

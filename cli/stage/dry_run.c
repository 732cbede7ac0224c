/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a build would make and why: stages with their keys, image tags, and downloads. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/image_record.h"
#include "cli/json.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/fetch/store.h"

#define KEY_SHOWN 24 /* hex digits, as names of folders in the cache have them */

/* Why a stage has no output under its key. The caller frees it. */
static char *why_missing(const struct build *build, const struct stage *stage)
{
	_cleanup_strv_ struct strv outputs = { 0 };
	size_t others = 0;

	if (fs_exists(AT_FDCWD, stage->cached->path))
		return xstrdup("its image was removed from the local storage");
	(void) !fs_list(build->context.cache.fd, "stages", &outputs);
	for (size_t i = 0; i < outputs.count; i++)
		others += cache_entry_is_of(outputs.items[i], stage->name);
	return others ? xasprintf("its inputs differ from those of the %zu cached", others)
		      : xstrdup("not in the cache");
}

/* The packages that stages of this kind are made of; NULL: none. */
static const char *purpose_of(const struct build *build, const struct stage *stage)
{
	switch (stage->kind) {
	case STAGE_KERNEL:
		return build->kernel.local.has_headers ? NULL : LOCK_HEADERS;
	case STAGE_MODULES:
		return build->kernel.local.has_modules ? NULL : LOCK_MODULES;
	case STAGE_SOURCE:
		return driver_rows[stage->of].purpose;
	case STAGE_USERSPACE:
		return LOCK_NVIDIA_USERSPACE;
	default:
		return NULL;
	}
}

static bool is_to_be_fetched(
	const struct build *build, const bool *missing, const struct lock_package *package)
{
	for (size_t i = 0; i < build->plan.count; i++) {
		const char *purpose = purpose_of(build, &build->plan.stages[i]);

		if (missing[i] && purpose && strcmp(purpose, package->purpose) == 0)
			return true;
	}
	return false;
}

/* Lists the downloads that the cache lacks. */
static int list_downloads(const struct build *build, const bool *missing, json_object *list,
	uint64_t *ret_bytes, struct error *error)
{
	const struct lock *lock = &build->kernel.lock;
	_cleanup_(store_close) struct store store = { .fd = -1 };
	int r = store_open(build->context.cache.fd, "blobs", &store, error);

	*ret_bytes = 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];
		json_object *object;
		int there;

		if (!is_to_be_fetched(build, missing, package))
			continue;
		there = store_check(&store, package->sha256, package->size_bytes, error);
		if (there == 1)
			continue;
		if (there < 0 && there != -EUCLEAN)
			return there;
		object = json_object_new_object();
		json_add_texts(object, "name", package->name, "version", package->version);
		json_add(object, "size_bytes", json_object_new_uint64(package->size_bytes));
		(void) json_object_array_add(list, object);
		*ret_bytes += package->size_bytes;
	}
	return 0;
}

static json_object *list_stages(const struct build *build, const bool *missing)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < build->plan.count; i++) {
		const struct stage *stage = &build->plan.stages[i];
		json_object *object;

		if (!stage->has_key || !stage_applies(build, stage))
			continue;
		object = json_object_new_object();
		json_add_texts(object, "stage", stage->name, "key", stage->cached->key);
		json_add(object, "make", json_object_new_boolean(missing[i]));
		if (missing[i]) {
			_cleanup_free_ char *why = why_missing(build, stage);

			json_add_texts(object, "why", why);
		}
		(void) json_object_array_add(list, object);
	}
	return list;
}

static json_object *list_images(struct build *build)
{
	json_object *list = json_object_new_array();

	for (int i = 0; i < IMAGE_COUNT && !build->options.sign_export; i++) {
		struct image image = { 0 };
		json_object *object;

		if (!stage_applies(build, stage_find(build, STAGE_IMAGE, i)))
			continue;
		image_foresee(build, i, &image);
		object = json_object_new_object();
		json_add_texts(object, "role", stage_find(build, STAGE_IMAGE, i)->name, "version",
			image.version, "tag", image.tag, "reference", image.reference);
		image_add_also(object, &image);
		(void) json_object_array_add(list, object);
		image_free(&image);
	}
	return list;
}

/* ---- for people */

static const char *text_of(json_object *object, const char *key)
{
	return json_object_get_string(json_object_object_get(object, key));
}

static void print_image(json_object *image)
{
	const char *reference = text_of(image, "reference");
	json_object *also = json_object_object_get(image, "also");

	text_print(stdout, "%s image  %s\n", text_of(image, "role"),
		reference ? reference
			  : "the tag is not known yet: the version is known only once the source "
			    "is compiled");
	for (size_t i = 0; i < (also ? json_object_array_length(also) : 0); i++)
		text_print(stdout, "  also     %s\n",
			json_object_get_string(json_object_array_get_idx(also, i)));
}

static void print_stage(json_object *stage)
{
	const char *why = text_of(stage, "why");

	text_print(stdout, "%-16s %.*s  %s%s\n", text_of(stage, "stage"), KEY_SHOWN,
		text_of(stage, "key"), why ? "to be built: " : "in the cache", why ? why : "");
}

static void print_text(json_object *plan)
{
	json_object *images = json_object_object_get(plan, "images");
	json_object *stages = json_object_object_get(plan, "stages");
	json_object *downloads = json_object_object_get(plan, "downloads");
	size_t count = json_object_array_length(downloads), to_make = 0;

	for (size_t i = 0; i < json_object_array_length(images); i++)
		print_image(json_object_array_get_idx(images, i));
	for (size_t i = 0; i < json_object_array_length(stages); i++) {
		json_object *stage = json_object_array_get_idx(stages, i);

		to_make += json_object_get_boolean(json_object_object_get(stage, "make"));
		print_stage(stage);
	}
	for (size_t i = 0; i < count; i++) {
		json_object *package = json_object_array_get_idx(downloads, i);
		uint64_t size =
			json_object_get_uint64(json_object_object_get(package, "size_bytes"));

		text_print(stdout, "fetch            %s %s, %.1f MB\n", text_of(package, "name"),
			text_of(package, "version"), (double) size / 1e6);
	}
	text_print(stdout, "%zu of %zu stages to be built, %zu packages to be fetched (%.1f MB)\n",
		to_make, json_object_array_length(stages), count,
		(double) json_object_get_uint64(json_object_object_get(plan, "download_bytes")) /
			1e6);
}

int dry_run(struct build *build, unsigned int kinds, struct error *error)
{
	json_object *plan = json_object_new_object();
	json_object *downloads = json_object_new_array();
	_cleanup_free_ bool *missing = NULL;
	uint64_t bytes = 0;
	int r = stages_look(build, kinds, NULL, &missing, error);

	if (r == 0)
		r = list_downloads(build, missing, downloads, &bytes, error);
	if (r == 0) {
		json_add_texts(plan, "krel", build->target.krel, "os", build->target.os->os, "arch",
			build->target.arch->uname);
		json_add(plan, "images", list_images(build));
		json_add(plan, "stages", list_stages(build, missing));
	}
	json_add(plan, "downloads", downloads);
	json_add(plan, "download_bytes", json_object_new_uint64(bytes));
	if (r == 0 && build->context.progress.json) {
		json_add(plan, "event", json_object_new_string("result"));
		json_add(plan, "exit_code", json_object_new_int(EXIT_CODE_OK));
		json_print_line(plan);
		return 0;
	}
	if (r == 0)
		print_text(plan);
	(void) json_object_put(plan);
	return r;
}

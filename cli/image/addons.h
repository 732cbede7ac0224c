/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a GPU image for the operator's containers beside the driver's. Those for GDRCopy and
 * GPUDirect Storage ask for images by names of their own (gpu-operator
 * api/nvidia/v1alpha1/nvidiadriver_types.go, GetImagePath): "<version>-<os tag>" of the module's
 * version. The GPU image has the modules, and stands for both.
 */
#pragma once

#include "cli/image/image_record.h"
#include "cli/image/operators.h"

#define IMAGE_ADDONS 2

struct image_addons {
	struct image names[IMAGE_ADDONS];      /* in the order of the operator's containers */
	struct image_addon used[IMAGE_ADDONS]; /* those that there are; they borrow the names */
	size_t count;
};

/*
 * Adds the names of @driver's module ("gdrcopy" or "nvidia-fs"; nothing for others) of this
 * @version with this @revision ("" or NULL: none), on nodes of the VERSION_IDs.
 */
void image_addons_add(struct image_addons *addons, const char *driver, const char *version,
	const char *revision, const char *os_id, const struct strv *os_versions);
void image_addons_free(struct image_addons *addons);

/* Makes all names stand for the image with @id in the local storage. */
int image_addons_place(const struct image_addons *addons, const char *id, bool *changed,
	struct error *error) _must_check_;
/* Appends the names by which the operator asks for them, as image_wanted_names() does. */
void image_addons_wanted(
	const struct image_addons *addons, const struct image_use *use, struct strv *names);
/* Adds "addons" to the object of images.json, where there are any. */
void image_addons_add_json(const struct image_addons *addons, json_object *object);

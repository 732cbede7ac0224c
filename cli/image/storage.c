/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/storage.h"

#include <string.h>

#include "cli/image/buildah.h"

static int bring_back(const char *folder, const struct image *image, struct error *error)
{
	_cleanup_free_ char *source = NULL;
	_cleanup_free_ char *id = NULL;
	int r;

	if (asprintf(&source, "oci-archive:%s/" IMAGE_ARCHIVE, folder) < 0)
		return error_set_errno(error, -ENOMEM, "storage");
	r = buildah_pull(source, &id, error);
	if (r < 0)
		return r;
	if (strcmp(id, image->id) != 0)
		return error_set(error, -EBADMSG,
			"%s/" IMAGE_ARCHIVE ": holds image %.12s, not %.12s that image.json beside "
			"it names: remove the folder and run again",
			folder, id, image->id);
	return 0;
}

int storage_place(const char *folder, const struct image *image, bool *ret_changed,
	char **ret_before, struct error *error)
{
	_cleanup_free_ char *named = buildah_image_id(image->reference);
	_cleanup_free_ char *there = NULL;
	int r = 0;

	*ret_before = NULL;
	if (named && strcmp(named, image->id) == 0) {
		*ret_changed = false;
		return 0;
	}
	there = buildah_image_id(image->id);
	if (!there)
		r = bring_back(folder, image, error);
	if (r == 0)
		r = buildah_tag(image->id, image->reference, error);
	if (r < 0)
		return r;
	*ret_changed = true;
	*ret_before = TAKE_PTR(named);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/push.h"

#include <string.h>

#include "cli/image/registry.h"
#include "common/xalloc.h"

int push_check(const struct push *push, struct operators *operators, struct error *error)
{
	if (!push->registry)
		return 0;
	if (!operators->registry)
		operators->registry = push->registry;
	return registry_check("--push", push->registry, error);
}

/* The image that a tag stands for there, beside ours. */
enum held {
	HELD_NONE,
	HELD_SAME, /* by its digest or its key */
	HELD_OTHER,
};

/* "registry.example/drivers/driver:TAG" of "localhost/slipway/driver:TAG". */
static char *reference_of(const struct push *push, const char *name)
{
	return xasprintf("%s/%s", push->registry, strrchr(name, '/') + 1);
}

/*
 * @digest, @key: NULL where not known; @arch: of the image with @key. *ret_digest: of what is
 * there, freed by the caller.
 */
static int look(const char *reference, const char *digest, const char *key, const char *arch,
	enum held *ret, char **ret_digest, struct error *error)
{
	const char *colon = strrchr(reference, ':');
	_cleanup_free_ char *repository = xstrndup(reference, (size_t) (colon - reference));
	_cleanup_strv_ struct strv tags = { 0 };
	json_object *image;
	int r = registry_list_tags(repository, &tags, error);

	*ret = HELD_NONE;
	if (r < 0 || !strv_contains(&tags, colon + 1))
		return r;
	r = registry_inspect(reference, arch, &image, error);
	if (r == -ENOENT) {
		*ret_digest =
			xasprintf("an index without one for %s", arch ? arch : "this machine");
		*ret = HELD_OTHER;
		return 0;
	}
	if (r < 0)
		return r;
	*ret_digest = xstrdup(registry_digest(image));
	*ret = (digest && strcmp(*ret_digest, digest) == 0) ||
			       (key && strcmp(registry_label(image, IMAGE_LABEL_KEY), key) == 0)
		       ? HELD_SAME
		       : HELD_OTHER;
	(void) json_object_put(image);
	return 0;
}

static int refuse_other(const char *reference, const char *digest, struct error *error)
{
	(void) error_set(
		error, -EEXIST, "%s stands for another image already: %s", reference, digest);
	(void) error_try(error, -EEXIST, "--replace, if nodes may get another image by this tag");
	return error_try(error, -EEXIST, "--revision N, for a tag of its own");
}

int push_look(const struct push *push, const struct strv *names, const char *key, const char *arch,
	struct progress *progress, struct error *error)
{
	for (size_t i = 0; i < names->count; i++) {
		_cleanup_free_ char *reference = reference_of(push, names->items[i]);
		_cleanup_free_ char *digest = NULL;
		enum held held;
		int r;

		progress_step(progress, reference);
		r = look(reference, NULL, key, arch, &held, &digest, error);
		if (r < 0)
			return r;
		if (held == HELD_OTHER && key && !push->replace)
			return refuse_other(reference, digest, error);
	}
	return 0;
}

static void on_quiet(void *context)
{
	progress_tick(context);
}

int push_image(const struct push *push, const struct image *image, const char *archive,
	const char *key, const char *arch, const struct strv *names, struct progress *progress,
	struct strv *pushed, struct error *error)
{
	for (size_t i = 0; i < names->count; i++) {
		_cleanup_free_ char *reference = reference_of(push, names->items[i]);
		_cleanup_free_ char *digest = NULL;
		enum held held;
		int r = look(reference, image->digest, key, arch, &held, &digest, error);

		if (r < 0)
			return r;
		if (held == HELD_OTHER && !push->replace)
			return refuse_other(reference, digest, error);
		if (held != HELD_SAME) {
			progress_step(progress, reference);
			r = registry_push(archive, reference, on_quiet, progress, error);
			if (r < 0)
				return r;
		}
		xstrv_pushf(pushed, "%s@%s", reference, held == HELD_SAME ? digest : image->digest);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a build for several architectures. */
#include <string.h>

#include "cli/image/policies.h"
#include "cli/index/index_internal.h"
#include "cli/json.h"
#include "common/text.h"
#include "common/xalloc.h"

#define IMAGES_LIMIT 8 /* in a folder: more than there are roles */

struct made {
	const struct index_folders *folders;
	struct strv files; /* "nic.oci.tar", as all folders have them */
	struct strv paths; /* of the indexes */
	bool rdma;         /* GPU: one has an nvidia-peermem */
	bool other_rdma;   /* and that is for an OFED, not for the kernel's RDMA stack */
	struct image_index indexes[IMAGES_LIMIT];
	struct image_part parts[IMAGES_LIMIT][INDEX_MAX];
	/* As the operators' files want them: one for each index. */
	struct image images[IMAGES_LIMIT];
	struct image_use uses[IMAGES_LIMIT];
	size_t count;
};

static void made_free(struct made *made)
{
	for (size_t i = 0; i < made->count; i++) {
		for (size_t k = 0; k < INDEX_MAX; k++) {
			free(made->parts[i][k].archive);
			image_free(&made->parts[i][k].names);
		}
		index_close(&made->indexes[i]);
	}
	strv_free(&made->files);
	strv_free(&made->paths);
}

/* ---- the indexes */

/* The images of a role that the index does not stand for by all of their own names. */
static void find_parts(struct made *made, size_t i)
{
	struct image_index *index = &made->indexes[i];
	const struct image_role *role = image_role_find(index->image.role);
	_cleanup_strv_ struct strv taken = { 0 };

	image_wanted_names(&index->image, &index->use, &taken);
	for (size_t k = 0; k < index->image_count && image_is_proven(&index->image); k++) {
		const struct index_image *image = &index->images[k];
		struct image_part *part = &made->parts[i][index->use.part_count];

		for (size_t t = 0; t < image->tags.count; t++) {
			_cleanup_free_ char *name = xasprintf(
				IMAGE_LOCAL "%s:%s", role->repository, image->tags.items[t]);

			if (!strv_contains(&taken, name))
				image_add_tag(
					&part->names, role->repository, image->tags.items[t], "");
		}
		if (!part->names.tag)
			continue;
		part->archive =
			xasprintf("%s/%s", made->folders->archs->items[k], made->files.items[i]);
		part->names.role = xstrdup(index->image.role);
		part->names.digest = xasprintf("sha256:%s", basename(image->entry->manifest));
		index->use.part_count++;
	}
	index->use.parts = made->parts[i];
}

static int make_index(struct made *made, const char *file, struct error *error)
{
	const struct index_folders *folders = made->folders;
	struct image_index *index = &made->indexes[made->count];
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	xstrv_pushf(&made->paths, "%s/%s", folders->output, file);
	for (size_t i = 0; i < folders->archs->count; i++)
		xstrv_pushf(&names, "%s/%s/%s", folders->output, folders->archs->items[i], file);
	*index = (struct image_index){
		.context = folders->context,
		.output = made->paths.items[made->count],
		.os_version = folders->os_version,
		.operators = folders->operators,
	};
	made->count++;
	r = index_open(index, &names, error);
	if (r < 0)
		return context_fail(folders->context, EXIT_CODE_USAGE, r);
	find_parts(made, made->count - 1);
	index->use.rdma = made->rdma;
	index->use.kernels_rdma = made->rdma && !made->other_rdma;
	r = index_write(index, error);
	return r < 0 ? context_fail(folders->context, EXIT_CODE_OUTPUT, r) : 0;
}

/* The images that the build of @arch left; only its images.json has the peer memory interface. */
static int read_folder(struct made *made, const char *arch, struct error *error)
{
	const char *output = made->folders->output;
	_cleanup_free_ char *folder = xasprintf("%s/%s", output, arch);
	_cleanup_json_ json_object *root = NULL;
	json_object *list;
	int r = verify_input_read_outputs(folder, &root, error);

	if (r < 0)
		return r;
	list = json_object_object_get(root, "images");
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *image = json_object_array_get_idx(list, i);
		const char *role = json_object_get_string(json_object_object_get(image, "role"));
		const char *peermem =
			json_object_get_string(json_object_object_get(image, "peermem"));
		_cleanup_free_ char *file = NULL;

		if (!role || i == IMAGES_LIMIT)
			return error_set(error, -EBADMSG,
				"%s/images.json: slipway build did not write it", folder);
		file = xasprintf("%s.oci.tar", role);
		if (made->files.count < IMAGES_LIMIT)
			xstrv_push_unique(&made->files, file);
		if (!peermem || strcmp(peermem, IMAGE_NO_PEERMEM) == 0)
			continue;
		made->rdma = true;
		made->other_rdma |= strcmp(peermem, IMAGE_KERNELS_PEERMEM) != 0;
	}
	return 0;
}

static int make_all(struct made *made, struct error *error)
{
	const struct index_folders *folders = made->folders;

	for (size_t i = 0; i < folders->archs->count; i++) {
		int r = read_folder(made, folders->archs->items[i], error);

		if (r < 0)
			return context_fail(folders->context, EXIT_CODE_OUTPUT, r);
	}
	for (size_t i = 0; i < made->files.count; i++) {
		int r = make_index(made, made->files.items[i], error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- a registry */

static int push_index(const struct made *made, struct image_index *index, struct error *error)
{
	const struct index_folders *folders = made->folders;
	struct progress *progress = &folders->context->progress;
	struct image *image = &index->image;
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	if (!image_is_proven(image)) {
		progress_notef(progress, "%s is not pushed: it is not proven", image->reference);
		return 0;
	}
	image_wanted_names(image, &index->use, &names);
	image_addons_wanted(&index->addons, &index->use, &names);
	r = push_image(folders->push, image, index->output, NULL, NULL, &names, progress,
		&image->pushed, error);
	for (size_t i = 0; i < index->use.part_count && r == 0; i++) {
		const struct image_part *part = &index->use.parts[i];
		_cleanup_free_ char *archive = xasprintf("%s/%s", folders->output, part->archive);
		_cleanup_strv_ struct strv own = { 0 };

		image_wanted_names(&part->names, &index->use, &own);
		r = push_image(folders->push, &part->names, archive, NULL, NULL, &own, progress,
			&image->pushed, error);
	}
	return r;
}

static int push_all(struct made *made, struct error *error)
{
	const struct index_folders *folders = made->folders;
	struct progress *progress = &folders->context->progress;
	int r = 0;

	if (!folders->push->registry)
		return 0;
	progress_begin(progress, "push");
	for (size_t i = 0; i < made->count && r == 0; i++)
		r = push_index(made, &made->indexes[i], error);
	progress_end(progress, r < 0 ? "failed" : "done");
	if (r < 0)
		folders->context->failure =
			r == -EEXIST ? EXIT_CODE_REGISTRY : exit_code_for(r, EXIT_CODE_REGISTRY);
	return r;
}

/* ---- files and the report */

/* An object like images.json of one architecture; an index has the images that are in it. */
static json_object *to_json(const struct made *made)
{
	json_object *root = json_object_new_object();
	json_object *list = json_object_new_array();

	json_add_texts(root, "os", made->folders->context->os.os);
	json_add(root, "archs", json_list(made->folders->archs));
	for (size_t i = 0; i < made->count; i++) {
		_cleanup_json_ json_object *whole = index_to_json(&made->indexes[i]);
		json_object *index = json_object_get(json_object_object_get(whole, "index"));
		json_object *images = json_object_get(json_object_object_get(whole, "images"));

		for (size_t k = 0; k < json_object_array_length(images); k++)
			json_add_texts(json_object_array_get_idx(images, k), "folder",
				made->folders->archs->items[k]);
		json_add(index, "images", images);
		(void) json_object_array_add(list, index);
	}
	json_add(root, "images", list);
	return root;
}

static int place(struct made *made, struct error *error)
{
	const char *output = made->folders->output;
	bool changed = false;
	int r;

	/* Borrowed: indexes[] has them. */
	for (size_t i = 0; i < made->count; i++) {
		made->images[i] = made->indexes[i].image;
		made->uses[i] = made->indexes[i].use;
	}
	r = image_place_list(output, to_json(made), &changed, error);
	if (r == 0)
		r = policies_place(output, made->images, made->count, made->uses, &changed, error);
	return r < 0 ? context_fail(made->folders->context, EXIT_CODE_OUTPUT, r) : 0;
}

static void print(const struct made *made)
{
	const struct index_folders *folders = made->folders;
	_cleanup_free_ char *archs = xstrv_join(folders->archs, ", ");

	if (folders->context->progress.json) {
		json_object *root = to_json(made);

		json_add_texts(root, "event", "result");
		json_add(root, "exit_code", json_object_new_int(EXIT_CODE_OK));
		json_print_line(root);
		return;
	}
	for (size_t i = 0; i < made->count; i++) {
		const struct image *image = &made->indexes[i].image;

		index_print_images(&made->indexes[i]);
		for (size_t k = 0; k < image->pushed.count; k++)
			text_print(stdout, "  pushed  %s\n", image->pushed.items[k]);
		if (!image_is_proven(image))
			image_print_use(image, &made->indexes[i].use);
	}
	text_print(stdout,
		"The indexes and their images.json are in %s, the records of each build "
		"in its folder there (%s)\n",
		folders->output, archs);
	policies_print(folders->output, made->images, made->count, made->uses);
}

int index_folders_make(const struct index_folders *folders, struct error *error)
{
	_cleanup_(made_free) struct made made = { .folders = folders };
	struct progress *progress = &folders->context->progress;
	struct error why = { 0 };
	int pushed = 0;
	int r;

	progress_begin(progress, "index");
	r = make_all(&made, error);
	progress_end(progress, r < 0 ? "failed" : "done");
	/* In the order of a build's (output_write()). */
	if (r == 0)
		r = place(&made, error);
	if (r == 0)
		pushed = push_all(&made, &why);
	if (r == 0 && made.folders->push->registry)
		r = place(&made, error);
	if (r < 0)
		return r;
	if (pushed < 0) {
		*error = why;
		return pushed;
	}
	print(&made);
	return 0;
}

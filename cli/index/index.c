/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/index/index_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/output_place.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/verify/verify.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

/* ---- what the command line names */

/* Is it an image, and another one than those before it? */
static int identify_source(const struct image_index *index, struct index_source *source,
	const char *name, struct error *error)
{
	_cleanup_strv_ struct strv images = { 0 };
	int r = verify_input_identify(name, &source->input, error);

	if (r < 0)
		return r;
	for (const struct index_source *other = index->sources; other < source; other++)
		if (verify_input_is_same(&other->input, &source->input))
			return error_set(error, -EINVAL, "%s: given twice", name);
	if (verify_input_unpacks(&source->input))
		return 0;
	r = error_set(error, -EINVAL,
		"%s: an image is wanted: its archive, its layout, its name in containers-storage, "
		"or docker://REFERENCE",
		name);
	return verify_input_outputs(name, &images, NULL)
		       ? error_try(error, r, "%s", images.items[images.count - 1])
		       : r;
}

static int list_images(struct index_source *source, struct error *error)
{
	const struct verify_input *input = &source->input;
	int r = local_images_list(
		input->place, input->kind == VERIFY_ARCHIVE, &source->images, error);

	if (r != -ENOENT)
		return r;
	(void) error_set(error, -EINVAL, "%s: not an OCI image", input->name);
	return error_try(error, -EINVAL,
		"skopeo copy docker-archive:%s oci-archive:FILE, if it is what docker save writes",
		input->place);
}

static int add_image(struct image_index *index, const struct index_source *source,
	const struct local_image_entry *entry, struct error *error)
{
	const char *name = source->input.name;

	if (!*entry->arch)
		return error_set(error, -EINVAL,
			"%s: its configuration does not say for which architecture it is", name);
	for (size_t i = 0; i < index->image_count; i++) {
		const struct index_image *other = &index->images[i];

		if (strcmp(other->entry->arch, entry->arch) == 0 &&
			strcmp(other->entry->variant, entry->variant) == 0)
			return error_set(error, -EINVAL,
				"%s and %s both are for %s: an index has one image for each "
				"architecture",
				other->source->input.name, name, entry->arch);
	}
	if (index->image_count == INDEX_MAX)
		return error_set(error, -EINVAL, "more than %d images", INDEX_MAX);
	index->images[index->image_count++] = (struct index_image){
		.source = source, .entry = entry, .files = VERIFY_INPUT_CLOSED
	};
	return 0;
}

/* ---- what the images are */

static bool is_wanted(void *context, const char *path)
{
	(void) context;
	return strcmp(path, IMAGE_CONF) == 0 || strcmp(path, IMAGE_KIT) == 0;
}

static int read_image(struct image_index *index, struct index_image *image, struct error *error)
{
	const struct verify_input *input = &image->source->input;
	struct image_conf *conf = &image->conf;
	_cleanup_free_ char *text = NULL;
	int r;

	image->files.name = xstrdup(input->name);
	image->files.place = xstrdup(input->place);
	image->files.kind = input->kind;
	image->files.arch = image->entry->arch;
	image->files.wanted = is_wanted;
	r = verify_input_open(&image->files, index->context, error);
	if (r < 0)
		return r;
	(void) !fs_read(image->files.fd, IMAGE_CONF, IMAGE_CONF_LIMIT, &text, NULL);
	image_conf_parse(text ? text : "", conf);
	if (!image_role_find(conf->role))
		return error_set(error, -EINVAL,
			"%s: it has no /" IMAGE_CONF
			" of a GPU or NIC image: only images of slipway build and combine go into "
			"an index",
			input->name);
	xstrv_split(&image->krels, conf->krel, " ");
	if (!image->krels.count || !*conf->version || !*conf->os)
		return error_set(error, -EINVAL,
			"%s: its /" IMAGE_CONF " has no version, os or krel", input->name);
	for (size_t i = 0; i < image->krels.count; i++) {
		const char *krel = image->krels.items[i];
		const char *arch = krel_arch(krel) ? arch_oci(krel_arch(krel)) : NULL;

		if (arch && strcmp(arch, image->entry->arch) != 0)
			return error_set(error, -EINVAL,
				"%s: an image for %s with modules for %s, a kernel for %s",
				input->name, image->entry->arch, krel, arch);
	}
	image->version =
		xasprintf("%s%s%s", conf->version, *conf->revision ? "-" : "", conf->revision);
	image->compiles = fs_exists(image->files.fd, IMAGE_KIT);
	return 0;
}

/* One tag stands for all of them, so they are one thing for several architectures. */
static int check_together(
	const struct index_image *first, const struct index_image *image, struct error *error)
{
	const char *ours = first->source->input.name, *theirs = image->source->input.name;

	if (strcmp(image->conf.role, first->conf.role) != 0)
		return error_set(error, -EINVAL,
			"%s is a %s image, %s a %s image: they are two roles of two operators",
			theirs, image->conf.role, ours, first->conf.role);
	if (strcmp(image->version, first->version) != 0)
		return error_set(error, -EINVAL,
			"%s has driver %s, %s has %s: a tag stands for one version of the driver",
			theirs, image->version, ours, first->version);
	if (strcmp(image->conf.os, first->conf.os) != 0)
		return error_set(error, -EINVAL,
			"%s is for %s, %s for %s: a tag stands for one distribution", theirs,
			image->conf.os, ours, first->conf.os);
	return 0;
}

/* ---- the tags */

/* VERSION_ID of the nodes that an image is for. */
static char *version_of(const struct image_index *index, const struct index_image *image)
{
	const struct catalogue *os = &index->context->os;
	char *told;

	if (index->os_version || *image->conf.os_version)
		return xstrdup(index->os_version ? index->os_version : image->conf.os_version);
	told = catalogue_node_version(os, image->krels.items[0]);
	return told ? told : xstrdup(os->version_id);
}

/* The tags that it has by itself; @any: those of an image for any kernel. */
static void list_tags(const struct image_index *index, const struct index_image *image, bool any,
	struct strv *tags)
{
	_cleanup_free_ char *version = version_of(index, image);
	const struct image_tagged of = {
		.version = image->version,
		.krel = any || image->compiles || image->krels.count > 1 ? NULL
									 : image->krels.items[0],
		.os_id = index->context->os.id,
		.os_version = version,
		.arch = image->entry->arch,
	};

	image_role_find(image->conf.role)->list_tags(&of, tags);
}

/* Appends the tags that all images have. */
static void list_common(const struct image_index *index, struct strv *common)
{
	for (size_t i = 0; i < index->images[0].tags.count; i++) {
		const char *tag = index->images[0].tags.items[i];
		bool is_common = true;

		for (size_t k = 1; k < index->image_count && is_common; k++)
			is_common = strv_contains(&index->images[k].tags, tag);
		if (is_common)
			xstrv_push(common, tag);
	}
}

/*
 * The tags that the index stands for. A NIC image's tags have the architecture, so that it answers
 * to those of all its images. A GPU image's have the kernel, whose name has the architecture on
 * Debian and Enterprise Linux: then it is what the operator asks for without precompiled drivers.
 */
static void choose_tags(struct image_index *index, struct strv *tags)
{
	bool is_nic = strcmp(index->images[0].conf.role, "nic") == 0;

	for (size_t i = 0; i < index->image_count; i++)
		list_tags(index, &index->images[i], false, &index->images[i].tags);
	list_common(index, tags);
	if (is_nic && tags->count == 0)
		for (size_t i = 0; i < index->image_count; i++)
			for (size_t k = 0; k < index->images[i].tags.count; k++)
				xstrv_push(tags, index->images[i].tags.items[k]);
	if (tags->count) {
		const struct index_image *first = &index->images[0];

		if (!first->compiles && first->krels.count == 1)
			index->use.krel = first->krels.items[0];
		return;
	}
	for (size_t i = 0; i < index->image_count; i++)
		list_tags(index, &index->images[i], true, tags);
	progress_notef(&index->context->progress,
		"the images' own tags differ (%s, %s): the index gets the tag that the operator asks "
		"for without precompiled drivers",
		index->images[0].tags.items[0], index->images[1].tags.items[0]);
}

/* Names for the operator's containers beside the driver's, if all images have the same modules. */
static void name_addons(struct image_index *index, const struct strv *versions)
{
	const struct image_conf *conf = &index->images[0].conf;
	_cleanup_strv_ struct strv all = { 0 };

	for (size_t i = 1; i < index->image_count; i++)
		if (strcmp(index->images[i].conf.addons, conf->addons) != 0)
			return;
	xstrv_split(&all, conf->addons, " ");
	for (size_t i = 0; i < all.count; i++) {
		_cleanup_free_ char *driver = xstrndup(all.items[i], strcspn(all.items[i], ":"));
		const char *version = all.items[i] + strlen(driver);

		image_addons_add(&index->addons, driver, version + (*version == ':'),
			conf->revision, index->context->os.id, versions);
	}
}

static void find_versions(struct image_index *index, struct strv *versions)
{
	for (size_t i = 0; i < index->image_count; i++) {
		_cleanup_free_ char *version = version_of(index, &index->images[i]);
		unsigned long major = strtoul(version, NULL, 10);

		xstrv_push_unique(versions, version);
		index->use.os_major = i == 0 || major == index->use.os_major ? major : 0;
	}
	if (versions->count == 1)
		index->node_version = xstrdup(versions->items[0]);
}

static int describe(struct image_index *index, struct error *error)
{
	const struct index_image *first = &index->images[0];
	const struct image_role *role = image_role_find(first->conf.role);
	struct image *image = &index->image;
	_cleanup_strv_ struct strv versions = { 0 };
	_cleanup_strv_ struct strv tags = { 0 };
	const char *proof = "holds";
	/* Another index of the same build has chosen it. */
	int r = index->context->os.os
			? 0
			: context_choose_os(index->context, first->conf.os, NULL, error);

	if (r < 0)
		return r;
	index->use.open_modules = true;
	for (size_t i = 0; i < index->image_count; i++) {
		const struct image_conf *conf = &index->images[i].conf;

		if (image_proof_rank(conf->proof) > image_proof_rank(proof))
			proof = *conf->proof ? conf->proof : "cannot-tell";
		index->use.open_modules &= strcmp(conf->kernel_module_type, "open") == 0;
	}
	image->role = xstrdup(role->role);
	image->version = xstrdup(first->version);
	image->proof = xstrdup(proof);
	index->use.compiles = true;
	for (size_t i = 0; i < index->image_count; i++)
		index->use.compiles &= index->images[i].compiles;
	find_versions(index, &versions);
	choose_tags(index, &tags);
	for (size_t i = 0; i < tags.count; i++)
		image_add_tag(image, role->repository, tags.items[i],
			image_is_proven(image) ? "" : IMAGE_UNPROVEN);
	if (image_is_proven(image) && !index->use.krel)
		name_addons(index, &versions);
	index->use.operators = index->operators;
	index->use.os_id = index->context->os.id;
	index->use.os_version = index->node_version;
	index->use.index = index->output;
	index->use.addons = index->addons.used;
	index->use.addon_count = index->addons.count;
	return 0;
}

int index_open(struct image_index *index, const struct strv *names, struct error *error)
{
	int r = 0;

	index->sources = xcalloc(names->count, sizeof(*index->sources));
	index->images = xcalloc(INDEX_MAX, sizeof(*index->images));
	for (size_t i = 0; i < names->count && r == 0; i++) {
		struct index_source *source = &index->sources[index->source_count++];

		*source = (struct index_source){ .input = VERIFY_INPUT_CLOSED };
		r = identify_source(index, source, names->items[i], error);
		if (r == 0 && source->input.kind == VERIFY_ARCHIVE)
			r = output_is_no_input(
				index->output, index->output, source->input.place, error);
	}
	for (size_t i = 0; i < index->source_count && r == 0; i++) {
		struct index_source *source = &index->sources[i];

		r = verify_input_fetch(&source->input, index->context, error);
		if (r == 0)
			r = list_images(source, error);
		for (size_t k = 0; k < source->images.count && r == 0; k++)
			r = add_image(index, source, &source->images.items[k], error);
	}
	if (r == 0 && index->image_count < 2)
		r = error_set(error, -EINVAL,
			"%s: an index of one image: name those for other "
			"architectures, too",
			names->items[0]);
	for (size_t i = 0; i < index->image_count && r == 0; i++) {
		r = read_image(index, &index->images[i], error);
		if (r == 0)
			r = check_together(&index->images[0], &index->images[i], error);
	}
	return r < 0 ? r : describe(index, error);
}

void index_close(struct image_index *index)
{
	for (size_t i = 0; i < index->image_count; i++) {
		struct index_image *image = &index->images[i];

		verify_input_close(&image->files);
		strv_free(&image->krels);
		strv_free(&image->tags);
		free(image->version);
	}
	free(index->images);
	for (size_t i = 0; i < index->source_count; i++) {
		verify_input_close(&index->sources[i].input);
		local_images_free(&index->sources[i].images);
	}
	free(index->sources);
	free(index->node_version);
	image_addons_free(&index->addons);
	image_free(&index->image);
	*index = (struct image_index){ 0 };
}

/* ---- the report */

json_object *index_to_json(const struct image_index *index)
{
	const struct image *image = &index->image;
	json_object *root = json_object_new_object();
	json_object *about = json_object_new_object();
	json_object *images = json_object_new_array();

	json_add_texts(about, "file", index->output, "role", image->role, "os",
		index->images[0].conf.os, "version", image->version, "tag", image->tag, "reference",
		image->reference, "digest", image->digest, "proof", image->proof);
	json_add(about, "size_bytes", json_object_new_uint64(image->size_bytes));
	image_add_also(about, image);
	for (size_t i = 0; i < index->image_count; i++) {
		const struct index_image *item = &index->images[i];
		json_object *object = json_object_new_object();
		_cleanup_free_ char *digest =
			xasprintf("sha256:%s", strrchr(item->entry->manifest, '/') + 1);

		json_add_texts(object, "arch", item->entry->arch, "name", item->source->input.name,
			"digest", digest, "proof", item->conf.proof);
		json_add(object, "krels", json_list(&item->krels));
		json_add(object, "tags", json_list(&item->tags));
		json_add(object, "compiles", json_object_new_boolean(item->compiles));
		(void) json_object_array_add(images, object);
	}
	json_add(root, "index", about);
	json_add(root, "images", images);
	image_addons_add_json(&index->addons, root);
	return root;
}

void index_print_images(const struct image_index *index)
{
	const struct image *image = &index->image;
	_cleanup_strv_ struct strv names = { 0 };

	image_wanted_names(image, &index->use, &names);
	text_print(stdout, "%s index  %s  (%.1f MB), %zu images\n", image->role,
		strrchr(names.items[0], ':') + 1, (double) image->size_bytes / 1e6,
		index->image_count);
	for (size_t i = 1; i < names.count; i++)
		text_print(stdout, "%*s%s\n", (int) strlen("gpu index  "), "",
			strrchr(names.items[i], ':') + 1);
	for (size_t i = 0; i < index->image_count; i++) {
		const struct index_image *item = &index->images[i];
		_cleanup_free_ char *krels = xstrv_join(&item->krels, ", ");

		text_print(stdout, "  %-6s  %s  %s%s", item->entry->arch, krels,
			item->source->input.name, item->compiles ? ", compiles on the node" : "");
		if (strcmp(item->conf.proof, "holds") != 0)
			message_print(stdout, COLOUR_YELLOW, "  WARNING: not proven to load");
		(void) putchar('\n');
	}
}

void index_print(const struct image_index *index)
{
	index_print_images(index);
	image_print_use(&index->image, &index->use);
}

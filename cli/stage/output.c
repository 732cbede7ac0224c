/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a build: the images where they were asked for, and the report of them. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/addons.h"
#include "cli/json.h"
#include "cli/image/output_place.h"
#include "cli/image/policies.h"
#include "cli/message.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

struct outputs {
	struct image images[IMAGE_COUNT];
	char *before[IMAGE_COUNT];         /* the image that had the tag until now, or NULL */
	char *before_peermem[IMAGE_COUNT]; /* its label IMAGE_LABEL_PEERMEM, or NULL */
	const char *folders[IMAGE_COUNT];  /* the stages' outputs */
	size_t count;
	struct image_addons addons;
	bool changed; /* something was written that was not there */
};

static void outputs_free(struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		image_free(&outputs->images[i]);
		free(outputs->before[i]);
		free(outputs->before_peermem[i]);
	}
	image_addons_free(&outputs->addons);
}

/* ---- where they go */

/* Reads the images, and has them in the storage: the final lines name them there in any case. */
static int to_storage(const struct build *build, struct outputs *outputs, struct error *error)
{
	for (int i = 0; i < IMAGE_COUNT; i++) {
		const struct stage *stage = stage_find(build, STAGE_IMAGE, i);
		size_t at = outputs->count;
		struct image *image = &outputs->images[at];
		bool changed = false;
		int r;

		if (!stage_applies(build, stage))
			continue;
		outputs->folders[at] = stage->cached->path;
		r = image_read(outputs->folders[at], image, error);
		if (r < 0)
			return r;
		outputs->count++;
		r = image_place(outputs->folders[at], image, &changed, &outputs->before[at], error);
		if (r < 0)
			return r;
		if (outputs->before[at] && image->peermem)
			outputs->before_peermem[at] =
				buildah_image_label(outputs->before[at], IMAGE_LABEL_PEERMEM);
		outputs->changed |= changed;
	}
	return 0;
}

/* Only an image without a kernel in its tag: with usePrecompiled the operator takes no add-ons. */
static int name_addons(const struct build *build, struct outputs *outputs, struct error *error)
{
	_cleanup_strv_ struct strv versions = { 0 };
	const struct image *image;

	if (!build->options.sources_image || !build_has(build, DRIVER_NVIDIA) ||
		outputs->count == 0)
		return 0;
	image = &outputs->images[outputs->count - 1]; /* the GPU's comes last */
	if (!image_is_proven(image))
		return 0;
	xstrv_push(&versions, build->target.os_version);
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		_cleanup_free_ char *version = NULL;

		if (driver_rows[driver].bound_to != DRIVER_NVIDIA || !build_has(build, driver))
			continue;
		version = set_value(stage_find(build, STAGE_SIGNED, driver), "version", error);
		if (!version)
			return -EIO;
		image_addons_add(&outputs->addons, driver_name(driver), version,
			build->options.revision, build->target.os->id, &versions);
	}
	return image_addons_place(&outputs->addons, image->id, &outputs->changed, error);
}

/* Borrows from the build and from @outputs. */
static struct image_use describe_use(const struct build *build, const struct outputs *outputs)
{
	const struct stage *set = stage_find(build, STAGE_SIGNED, DRIVER_NVIDIA);
	struct error ignored = { 0 };
	_cleanup_free_ char *type = build_has(build, DRIVER_NVIDIA)
					    ? set_value(set, "kernel_module_type", &ignored)
					    : NULL;
	const struct build_options *options = &build->options;
	const char *version = build->target.os_version;
	const struct image *last = &outputs->images[outputs->count - 1];
	struct image_use use = {
		.operators = options->operators,
		.os_id = build->target.os->id,
		.os_version = version && *version ? version : NULL,
		.os_major = version ? strtoul(version, NULL, 10) : 0,
		.krel = options->sources_image ? NULL : build->target.krel,
		.compiles = options->sources_image,
		.rdma = last->peermem && strcmp(last->peermem, IMAGE_NO_PEERMEM) != 0,
		.kernels_rdma = last->peermem && strcmp(last->peermem, IMAGE_KERNELS_PEERMEM) == 0,
		.open_modules = type && strcmp(type, "open") == 0,
		.addons = outputs->addons.used,
		.addon_count = outputs->addons.count,
	};

	return use;
}

/* ---- and in a registry */

/* For the names to be pushed: --gpu-operator leaves out what that one does not ask for. */
static struct image_use names_use(const struct build *build)
{
	const char *version = build->target.os_version;

	return (struct image_use){
		.operators = build->options.operators,
		.os_id = build->target.os->id,
		.os_major = version ? strtoul(version, NULL, 10) : 0,
	};
}

static int push_failed(struct build *build, int r)
{
	build->context.failure =
		r == -EEXIST ? EXIT_CODE_REGISTRY : exit_code_for(r, EXIT_CODE_REGISTRY);
	return r;
}

/*
 * The names of an image to be pushed, by itself or as a part of an index. If kernel releases have
 * the architecture, an index of GPU images gets the tag without a release, as choose_tags() in
 * cli/index/index.c.
 */
static void foresee_names(struct build *build, int i, struct strv *names)
{
	const struct target *target = &build->target;
	const struct image_use use = names_use(build);
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_(image_free) struct image whole = { 0 };
	_cleanup_strv_ struct strv tags = { 0 };

	image_foresee(build, i, &image);
	if (!image.reference)
		return;
	image_wanted_names(&image, &use, names);
	if (!build->options.of_several || i != IMAGE_GPU || !krel_arch(target->krel))
		return;
	image_role_find("gpu")->list_tags(&(struct image_tagged){ .version = image.version,
						  .os_id = target->os->id,
						  .os_version = target->os_version },
		&tags);
	for (size_t k = 0; k < tags.count; k++)
		image_add_tag(&whole, IMAGE_GPU_REPOSITORY, tags.items[k], "");
	image_wanted_names(&whole, &use, names);
}

int output_look(struct build *build, struct error *error)
{
	struct progress *progress = &build->context.progress;
	_cleanup_free_ bool *missing = NULL;
	int r;

	if (!build->options.push.registry)
		return 0;
	r = stages_look(build, STAGE_BIT(STAGE_IMAGE), NULL, &missing, error); /* keys */
	if (r < 0)
		return r;
	progress_begin(progress, "registry");
	for (int i = 0; i < IMAGE_COUNT && r == 0; i++) {
		const struct stage *stage = stage_find(build, STAGE_IMAGE, i);
		_cleanup_strv_ struct strv names = { 0 };

		if (!stage_applies(build, stage))
			continue;
		foresee_names(build, i, &names);
		/* With --force its tag may become another one. */
		r = push_look(&build->options.push, &names,
			stage->has_key && !build->options.force ? stage->cached->key : NULL,
			build->target.arch->oci, progress, error);
	}
	progress_end(progress, r < 0 ? "failed" : "done");
	return r < 0 ? push_failed(build, r) : 0;
}

/* Pushes what is proven, by all names; an add-on is the GPU image by another. */
static int push_outputs(struct build *build, struct outputs *outputs, struct error *error)
{
	const struct push *push = &build->options.push;
	struct progress *progress = &build->context.progress;
	const struct image_use use = names_use(build);
	int r = 0;

	progress_begin(progress, "push");
	for (size_t i = 0; i < outputs->count && r == 0; i++) {
		struct image *image = &outputs->images[i];
		_cleanup_free_ char *archive = xasprintf("%s/" IMAGE_ARCHIVE, outputs->folders[i]);
		bool gpu = strcmp(image->role, "gpu") == 0;
		const struct stage *stage =
			stage_find(build, STAGE_IMAGE, gpu ? IMAGE_GPU : IMAGE_NIC);
		_cleanup_strv_ struct strv names = { 0 };

		if (!image_is_proven(image)) {
			progress_notef(
				progress, "%s is not pushed: it is not proven", image->reference);
			continue;
		}
		image_wanted_names(image, &use, &names);
		if (gpu)
			image_addons_wanted(&outputs->addons, &use, &names);
		r = push_image(push, image, archive, stage->cached->key, build->target.arch->oci,
			&names, progress, &image->pushed, error);
	}
	progress_end(progress, r < 0 ? "failed" : "done");
	return r < 0 ? push_failed(build, r) : 0;
}

static json_object *to_json(const struct build *build, const struct outputs *outputs)
{
	json_object *root = json_object_new_object();
	json_object *list = json_object_new_array();

	json_add_texts(root, "krel", build->target.krel, "os", build->target.os->os);
	for (size_t i = 0; i < outputs->count; i++)
		(void) json_object_array_add(list, image_to_json(&outputs->images[i]));
	json_add(root, "images", list);
	image_addons_add_json(&outputs->addons, root);
	return root;
}

/* Those that are there tell how these images were made: a run that made nothing leaves them. */
static int add_sbom(const struct build *build, struct outputs *outputs, const char *lock_text,
	struct error *error)
{
	_cleanup_free_ char *sbom = xasprintf("%s/sbom.spdx.json", build->options.output);
	_cleanup_free_ char *provenance = xasprintf("%s/provenance.json", build->options.output);
	_cleanup_free_ char *sbom_text = NULL;
	_cleanup_free_ char *provenance_text = NULL;
	int r;

	if (!outputs->changed && fs_exists(AT_FDCWD, sbom) && fs_exists(AT_FDCWD, provenance))
		return 0;
	r = sbom_texts(build, outputs->images, outputs->count, lock_text, &sbom_text,
		&provenance_text, error);
	if (r == 0)
		r = image_place_text(sbom, sbom_text, &outputs->changed, error);
	return r < 0 ? r : image_place_text(provenance, provenance_text, &outputs->changed, error);
}

/* Adds the other files of an output folder: the lock, the proof, and what is said of them. */
static int add_records(const struct build *build, struct outputs *outputs, struct error *error)
{
	const char *folder = build->options.output;
	_cleanup_free_ char *lock_text = lock_write(&build->kernel.lock);
	_cleanup_free_ char *lock = xasprintf("%s/lock.json", folder);
	_cleanup_free_ char *proof = xasprintf("%s/" PROOF_REPORT, folder);
	_cleanup_free_ char *refused = xasprintf("%s/" PROOF_REFUSED_REPORT, folder);
	_cleanup_free_ char *proof_from =
		xasprintf("%s/" PROOF_REPORT, stage_output(build, STAGE_PROOF, 0));
	int r;

	r = image_place_text(lock, lock_text, &outputs->changed, error);
	if (r == 0)
		r = add_sbom(build, outputs, lock_text, error);
	if (r == 0)
		r = image_place_file(proof_from, proof, &outputs->changed, error);
	/* An earlier build may have left this file. */
	if (r == 0 && unlink(refused) < 0 && errno != ENOENT)
		r = error_set_errno(error, -errno, "--output %s", refused);
	return r;
}

/* ---- the report */

static void print_json(const struct build *build, const struct outputs *outputs, bool nothing)
{
	json_object *object = to_json(build, outputs);
	json_object *list = json_object_object_get(object, "images");

	/* If the tag named another image before, add the ID of that one. */
	for (size_t i = 0; i < outputs->count; i++)
		if (outputs->before[i])
			json_add(json_object_array_get_idx(list, i), "tag_moved_from",
				json_object_new_string(outputs->before[i]));
	json_add(object, "event", json_object_new_string("result"));
	json_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	json_add(object, "nothing_to_do", json_object_new_boolean(nothing));
	json_add(object, "elapsed_ms",
		json_object_new_uint64(progress_elapsed_ms(&build->context.progress)));
	json_print_line(object);
}

static const char *peermem_words(const char *peermem, char words[96])
{
	if (strcmp(peermem, IMAGE_NO_PEERMEM) == 0)
		return "none";
	(void) snprintf(words, 96, "one for %s%.64s",
		strcmp(peermem, IMAGE_KERNELS_PEERMEM) == 0 ? "the " : "OFED ", peermem);
	return words;
}

/*
 * Reports a moved tag: a deployment that uses it gets another image unawares, and may lose
 * GPUDirect RDMA.
 */
static void print_moved(const char *before, const char *before_peermem, const char *peermem)
{
	bool lost = peermem && strcmp(peermem, IMAGE_NO_PEERMEM) == 0;
	char words[2][96];

	if (before)
		text_print(stdout, "  this tag " IMAGE_TAG_MOVED "\n", before, before);
	if (before_peermem && peermem && strcmp(before_peermem, peermem) != 0)
		message_print(stdout, lost ? COLOUR_YELLOW : COLOUR_NONE,
			"  %snvidia-peermem: the old image has %s, this one has %s%s\n",
			lost ? "WARNING: " : "", peermem_words(before_peermem, words[0]),
			peermem_words(peermem, words[1]),
			lost ? ": build it with --ofed for nodes with GPUDirect RDMA" : "");
}

/* Nothing that a node has today is to be lost untold. */
static void print_inbox_only(const struct image *image)
{
	_cleanup_free_ char *names = xstrv_join(&image->inbox_only, ", ");

	if (*names)
		text_print(stdout,
			"  not in this OFED, but in the kernel's own mlx5 driver: %s (docs/build.md)\n",
			names);
}

/* An image without one is --force's, and ready on no node. */
static void print_moved_userspace(const char *before, const struct image *image)
{
	_cleanup_free_ char *version = buildah_image_label(before, IMAGE_LABEL_USERSPACE);
	_cleanup_free_ char *id = buildah_image_label(before, IMAGE_LABEL_USERSPACE_ID);
	const char *now = image_userspace(image, "version", IMAGE_NO_USERSPACE);

	if (version && strcmp(version, now) != 0)
		message_print(stdout, image->userspace ? COLOUR_NONE : COLOUR_YELLOW,
			"  %suserspace: the old image has %s, this one has %s\n",
			image->userspace ? "" : "WARNING: ", version, now);
	else if (id && strcmp(id, image_userspace(image, "id", "")) != 0)
		text_print(
			stdout, "  userspace: the old image has other files of driver %s\n", now);
}

static void print_total(const struct progress *progress)
{
	unsigned long long seconds = progress_elapsed_ms(progress) / 1000;

	if (seconds < 60)
		text_print(stdout, "It took %llu s.\n", seconds);
	else
		text_print(stdout, "It took %llu min %llu s.\n", seconds / 60, seconds % 60);
}

/* Ends the line about an image that was made without proof. */
#define FORCED                                                                                     \
	": it was made because of --force; its label io.slipway.proof says so, and its tag ends "  \
	"with " IMAGE_UNPROVEN "; proof.json has the reasons\n"

static void print_text(struct build *build, const struct outputs *outputs,
	const struct image_use *uses, bool nothing)
{
	const char *output = build->options.output;
	bool quiet = build->options.common.quiet;

	if (nothing)
		text_print(stdout, "Nothing to do: everything is up to date (%.1f s).\n",
			(double) progress_elapsed_ms(&build->context.progress) / 1000);
	else if (!stages_any_ran(build))
		text_print(stdout,
			"Nothing to build: all stages were in the cache; missing files and tags "
			"were restored.\n");
	/* Before anything that could be copied, where --force made what the kernel may refuse. */
	for (size_t i = 0; i < outputs->count; i++) {
		const struct image *image = &outputs->images[i];

		if (strcmp(image->proof, "will-not-start") == 0)
			message_print(stdout, COLOUR_YELLOW,
				"WARNING: %s image: some of its programs will not start (%s)" FORCED,
				image->role, image->proof);
		else if (!image_is_proven(image))
			message_print(stdout, COLOUR_YELLOW,
				"WARNING: %s image: only %s of its %s modules will load (%s)" FORCED,
				image->role, image->loading, image->modules, image->proof);
	}
	for (size_t i = 0; i < outputs->count; i++) {
		const struct image *image = &outputs->images[i];

		text_print(stdout, "%s image  %s  (%.1f MB)\n", image->role, image->reference,
			(double) image->size_bytes / 1e6);
		print_inbox_only(image);
		print_moved(outputs->before[i], outputs->before_peermem[i], image->peermem);
		if (outputs->before[i] && strcmp(image->role, "gpu") == 0)
			print_moved_userspace(outputs->before[i], image);
		if (strcmp(image->role, "gpu") == 0 && !image->userspace)
			message_print(stdout, COLOUR_YELLOW,
				"  WARNING: it has no nvidia-smi, libraries or firmware, because "
				"of --force: nodes never become ready with it\n");
		for (size_t j = 0; j < image->pushed.count; j++)
			text_print(stdout, "  pushed  %s\n", image->pushed.items[j]);
		/* The files of a folder say it otherwise. */
		if (!output_place_is_folder(output) || !image_is_proven(image))
			image_print_use(image, uses);
	}
	if (output_place_is_folder(output)) {
		text_print(
			stdout, "Archives, images.json and the other records are in %s\n", output);
		if ((!nothing || !quiet) && !build->options.of_several)
			policies_print(output, outputs->images, outputs->count, uses);
	}
	if (!nothing)
		print_total(&build->context.progress);
}

/* A folder keeps one build: who wants to go back to another kernel's images had better know. */
static void note_other_kernel(struct build *build)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_LIST, build->options.output);
	_cleanup_free_ char *text = NULL;
	json_object *object, *krel;

	if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return;
	object = json_tokener_parse(text);
	krel = json_object_object_get(object, "krel");
	if (krel && strcmp(json_object_get_string(krel), build->target.krel) != 0)
		progress_notef(&build->context.progress,
			"--output %s: it had images of %s, which are replaced",
			build->options.output, json_object_get_string(krel));
	(void) json_object_put(object);
}

/* The folder of --output, or the storage: what nothing in a registry can spoil. */
static int place(struct build *build, struct outputs *outputs,
	struct image_use ret_uses[IMAGE_COUNT], struct error *error)
{
	const char *output = build->options.output;
	bool folder = output_place_is_folder(output);
	int r = image_place_list(output, to_json(build, outputs), &outputs->changed, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < IMAGE_COUNT; i++)
		ret_uses[i] = describe_use(build, outputs);
	if (folder)
		r = add_records(build, outputs, error);
	if (r == 0 && folder)
		r = policies_place(output, outputs->images, outputs->count, ret_uses,
			&outputs->changed, error);
	return r;
}

int output_write(struct build *build, struct error *error)
{
	_cleanup_(outputs_free) struct outputs outputs = { 0 };
	struct image_use uses[IMAGE_COUNT] = { 0 };
	struct error why = { 0 };
	int pushed = 0;
	bool nothing;
	int r = to_storage(build, &outputs, error);

	if (r == 0)
		r = name_addons(build, &outputs, error);
	if (r == 0)
		note_other_kernel(build);
	/* A push that fails is reported when all files are there. */
	if (r == 0)
		r = image_place_files(build->options.output, outputs.images, outputs.folders,
			outputs.count, to_json(build, &outputs), &outputs.changed, error);
	if (r == 0 && build->options.push.registry && !build->options.of_several)
		pushed = push_outputs(build, &outputs, &why);
	if (r == 0)
		r = place(build, &outputs, uses, error);
	if (r < 0) {
		/* No mirror is asked here: what is refused is ours. */
		build->context.failure =
			r == -EACCES ? EXIT_CODE_OUTPUT : exit_code_for(r, EXIT_CODE_OUTPUT);
		return r;
	}
	if (pushed < 0) {
		*error = why;
		return pushed;
	}
	nothing = !stages_any_ran(build) && !outputs.changed;
	if (build->context.progress.json)
		print_json(build, &outputs, nothing);
	else
		print_text(build, &outputs, uses, nothing);
	return 0;
}

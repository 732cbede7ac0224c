/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a build: the images where they were asked for, and what is said about them. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/image.h"
#include "cli/output_place.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "common/tag.h"
#include "common/xalloc.h"

struct outputs {
	struct image images[2];
	char *before[2];         /* the image that had the tag until now, or NULL */
	char *before_peermem[2]; /* its label IMAGE_LABEL_PEERMEM, or NULL */
	enum stage_id stages[2];
	size_t count;
	bool changed; /* something was written that was not there */
};

static void outputs_free(struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		image_free(&outputs->images[i]);
		free(outputs->before[i]);
		free(outputs->before_peermem[i]);
	}
}

static int read_images(const struct build *build, struct outputs *outputs, struct error *error)
{
	static const enum stage_id stages[] = { STAGE_NIC, STAGE_GPU };

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		int r;

		if (!stage_applies(build, stages[i]))
			continue;
		r = image_read(
			stage_output(build, stages[i]), &outputs->images[outputs->count], error);
		if (r < 0)
			return r;
		outputs->stages[outputs->count++] = stages[i];
	}
	return 0;
}

static void put_json(json_object **object)
{
	(void) json_object_put(*object);
}

static json_object *images_to_json(const struct build *build, const struct outputs *outputs)
{
	json_object *root = json_object_new_object();
	json_object *list = json_object_new_array();

	(void) json_object_object_add(
		root, "krel", json_object_new_string(build->kernel.lock.krel));
	(void) json_object_object_add(root, "os", json_object_new_string(build->context.os.os));
	for (size_t i = 0; i < outputs->count; i++)
		(void) json_object_array_add(list, image_to_json(&outputs->images[i]));
	(void) json_object_object_add(root, "images", list);
	return root;
}

/* Replaces a file only when its content differs, so that a second run changes nothing. */
static int write_text(struct outputs *outputs, int dir_fd, const char *name, const char *text)
{
	_cleanup_free_ char *old = NULL;

	if (!text)
		return -ENOMEM;
	if (fs_read(dir_fd, name, 0, &old, NULL) == 0 && strcmp(old, text) == 0)
		return 0;
	outputs->changed = true;
	return fs_write_atomic(dir_fd, name, text, strlen(text), 0644);
}

/*
 * The copy carries the time of what it was made of: that tells whether it is current. A hard link
 * into the cache is not a copy: who writes to it would write to the cache.
 */
static bool is_current(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat left, right;

	return fstatat(a_fd, a, &left, 0) == 0 && fstatat(b_fd, b, &right, 0) == 0 &&
	       left.st_ino != right.st_ino && left.st_size == right.st_size &&
	       left.st_mtim.tv_sec == right.st_mtim.tv_sec &&
	       left.st_mtim.tv_nsec == right.st_mtim.tv_nsec;
}

/* Puts a copy beside its final name and renames it: no half archive is ever seen under it. */
static int place_file(
	struct outputs *outputs, int from_fd, const char *from, int to_fd, const char *to)
{
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", to, (int) getpid());
	int r;

	if (is_current(from_fd, from, to_fd, to))
		return 0;
	r = copy_apart(from_fd, from, to_fd, temporary);
	if (r == 0 && renameat(to_fd, temporary, to_fd, to) < 0)
		r = -errno;
	if (r < 0)
		(void) unlinkat(to_fd, temporary, 0);
	outputs->changed = true;
	return r;
}

static int write_records(const struct build *build, struct outputs *outputs, int dir_fd)
{
	_cleanup_(put_json) json_object *images = images_to_json(build, outputs);
	_cleanup_free_ char *lock = lock_write(&build->kernel.lock);
	_cleanup_free_ char *text = xasprintf(
		"%s\n", json_object_to_json_string_ext(
				images, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	_cleanup_close_ int proof_fd =
		open(stage_output(build, STAGE_PROOF), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = proof_fd < 0 ? -errno : write_text(outputs, dir_fd, "lock.json", lock);

	if (r == 0)
		r = write_text(outputs, dir_fd, "images.json", text);
	if (r == 0)
		r = place_file(outputs, proof_fd, PROOF_REPORT, dir_fd, PROOF_REPORT);
	/* Of a build before this one. */
	if (r == 0 && unlinkat(dir_fd, PROOF_REFUSED_REPORT, 0) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

static int to_folder(const struct build *build, struct outputs *outputs, struct error *error)
{
	const char *folder = build->options.output;
	_cleanup_close_ int dir_fd = -1;
	int r = fs_mkdir_parents(AT_FDCWD, folder, 0755);

	if (r < 0)
		return error_set_errno(error, r, "--output %s", folder);
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return error_set_errno(error, -errno, "--output %s", folder);
	for (size_t i = 0; i < outputs->count && r == 0; i++) {
		_cleanup_free_ char *name = xasprintf("%s.oci.tar", outputs->images[i].role);
		_cleanup_close_ int from_fd = open(stage_output(build, outputs->stages[i]),
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		r = from_fd < 0 ? -errno
				: place_file(outputs, from_fd, IMAGE_ARCHIVE, dir_fd, name);
	}
	if (r == 0)
		r = write_records(build, outputs, dir_fd);
	return r < 0 ? error_set_errno(error, r, "--output %s", folder) : 0;
}

static int to_storage(const struct build *build, struct outputs *outputs, struct error *error)
{
	for (size_t i = 0; i < outputs->count; i++) {
		bool changed = false;
		int r = image_place(stage_output(build, outputs->stages[i]), &outputs->images[i],
			&changed, &outputs->before[i], error);

		if (r < 0)
			return r;
		if (outputs->before[i] && outputs->images[i].peermem)
			outputs->before_peermem[i] =
				buildah_image_label(outputs->before[i], IMAGE_LABEL_PEERMEM);
		outputs->changed |= changed;
	}
	return 0;
}

/* buildah-push(1) and podman(1) write tags into an archive one image at a time: one file each. */
static int to_archive(const struct build *build, struct outputs *outputs, struct error *error)
{
	const char *file = build->options.output + strlen(OUTPUT_ARCHIVE);

	for (size_t i = 0; i < outputs->count; i++) {
		_cleanup_close_ int from_fd = -1;
		_cleanup_free_ char *name = NULL;
		int r = stage_open(build, outputs->stages[i], &from_fd, error);

		if (r < 0)
			return r;
		name = outputs->count == 1 ? xstrdup(file)
					   : xasprintf("%s.%s", file, outputs->images[i].role);
		r = place_file(outputs, from_fd, IMAGE_ARCHIVE, AT_FDCWD, name);
		if (r < 0)
			return error_set_errno(error, r, "--output " OUTPUT_ARCHIVE "%s", name);
	}
	return 0;
}

/* Of each image whose tag stood for another one: that one's ID. */
static void add_moved(json_object *object, const struct outputs *outputs)
{
	json_object *list = json_object_object_get(object, "images");

	for (size_t i = 0; i < outputs->count; i++)
		if (outputs->before[i])
			(void) json_object_object_add(json_object_array_get_idx(list, i),
				"tag_moved_from", json_object_new_string(outputs->before[i]));
}

static void say_result(const struct build *build, const struct outputs *outputs, bool nothing)
{
	_cleanup_(put_json) json_object *object = images_to_json(build, outputs);

	if (!build->context.progress.json)
		return;
	add_moved(object, outputs);
	(void) json_object_object_add(object, "event", json_object_new_string("result"));
	(void) json_object_object_add(object, "exit_code", json_object_new_int(EXIT_CODE_OK));
	(void) json_object_object_add(object, "nothing_to_do", json_object_new_boolean(nothing));
	(void) json_object_object_add(object, "elapsed_ms",
		json_object_new_uint64(progress_elapsed_ms(&build->context.progress)));
	(void) printf("%s\n", json_object_to_json_string_ext(object,
				      JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	(void) fflush(stdout);
}

/* What to put into the operators' values for this image. */
static void say_use(const struct build *build, const struct image *image)
{
	_cleanup_free_ char *branch = tag_branch(image->version);
	bool nic = strcmp(image->role, "nic") == 0;

	if (nic && build->options.sources_image)
		(void) printf("  Network Operator (NicClusterPolicy ofedDriver): repository: "
			      "REGISTRY, image: doca-driver, version: %s; it compiles for kernels "
			      "that it has no modules for\n",
			image->version);
	else if (nic)
		(void) printf("  Network Operator (NicClusterPolicy ofedDriver): repository: "
			      "REGISTRY, image: doca-driver, version: %s, forcePrecompiled: true\n",
			image->version);
	else if (strncmp(image->tag, image->version, strlen(image->version)) == 0)
		(void) printf(
			"  GPU Operator: driver.usePrecompiled=false, "
			"driver.repository=REGISTRY, driver.image=driver, "
			"driver.version=\"%s\"; it compiles for kernels that it has no modules "
			"for\n",
			image->version);
	else
		(void) printf("  GPU Operator: driver.usePrecompiled=true, "
			      "driver.repository=REGISTRY, driver.image=driver, "
			      "driver.version=\"%s\"\n",
			branch ? branch : image->version);
}

static bool any_ran(struct build *build)
{
	for (size_t i = 0; i < STAGE_COUNT; i++)
		if (stage_cached(build, i)->ran)
			return true;
	return false;
}

/* Before anything that could be copied, where --force made images that the kernel may refuse. */
static void say_proof(const struct outputs *outputs)
{
	for (size_t i = 0; i < outputs->count; i++) {
		const struct image *image = &outputs->images[i];

		if (image_is_proven(image))
			continue;
		(void) printf(
			"WARNING: %s image: %s of its %s modules will load (%s): it was made "
			"because of --force, its label io.slipway.proof says so, and its tag ends with " IMAGE_UNPROVEN
			"; proof.json has the reasons\n",
			image->role, image->loading, image->modules, image->proof);
	}
}

static const char *peermem_words(const char *peermem, char words[96])
{
	if (strcmp(peermem, IMAGE_NO_PEERMEM) == 0)
		return "none";
	(void) snprintf(words, 96, "one for %s%.64s",
		strcmp(peermem, IMAGE_KERNELS_PEERMEM) == 0 ? "the " : "OFED ", peermem);
	return words;
}

/* The tag does not say so, and a deployment by it may lose GPUDirect RDMA. */
static void say_peermem(const char *before, const char *now)
{
	char words[2][96];

	if (!before || strcmp(before, now) == 0)
		return;
	(void) printf("  %snvidia-peermem: that image has %s, this one has %s%s\n",
		strcmp(now, IMAGE_NO_PEERMEM) == 0 ? "WARNING: " : "",
		peermem_words(before, words[0]), peermem_words(now, words[1]),
		strcmp(now, IMAGE_NO_PEERMEM) == 0
			? ": build it with --ofed for nodes with GPUDirect RDMA"
			: "");
}

/* What becomes of the tag is said, for who deploys by it would get another image unawares. */
static void say_image(const struct build *build, const struct outputs *outputs, size_t i)
{
	const struct image *image = &outputs->images[i];

	(void) printf("%s image  %s  (%.1f MB)\n", image->role, image->reference,
		(double) image->size_bytes / 1e6);
	if (outputs->before[i])
		(void) printf(
			"  this tag stood for another image until now, %.12s, which is still in "
			"the storage\n",
			outputs->before[i]);
	if (image->peermem)
		say_peermem(outputs->before_peermem[i], image->peermem);
	(void) printf("  buildah push %s docker://REGISTRY/%s\n", image->reference,
		strrchr(image->reference, '/') + 1);
	if (image_is_proven(image))
		say_use(build, image);
	else
		(void) printf("  No operator asks for a tag that ends with " IMAGE_UNPROVEN
			      ": the one without is kept for an image whose modules will load\n");
}

static void say_text(struct build *build, const struct outputs *outputs, bool nothing)
{
	const char *output = build->options.output;

	if (build->context.progress.json)
		return;
	if (nothing)
		(void) printf("Nothing to do: all is there already (%.1f s).\n",
			(double) progress_elapsed_ms(&build->context.progress) / 1000);
	else if (!any_ran(build))
		(void) printf("Nothing to build: files or tags that were missing were put in their "
			      "places.\n");
	say_proof(outputs);
	for (size_t i = 0; i < outputs->count; i++)
		say_image(build, outputs, i);
	if (strcmp(output, OUTPUT_STORAGE) != 0 &&
		strncmp(output, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) != 0)
		(void) printf(
			"Archives, lock.json, images.json and proof.json are in %s\n", output);
}

int output_write(struct build *build, struct error *error)
{
	const char *output = build->options.output;
	_cleanup_(outputs_free) struct outputs outputs = { 0 };
	bool nothing;
	int r = read_images(build, &outputs, error);

	/* The final lines name the images in the storage: they must be there in any case. */
	if (r == 0)
		r = to_storage(build, &outputs, error);
	if (r == 0 && strncmp(output, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		r = to_archive(build, &outputs, error);
	else if (r == 0 && strcmp(output, OUTPUT_STORAGE) != 0)
		r = to_folder(build, &outputs, error);
	if (r < 0) {
		/* No mirror is asked here: what is refused is ours. */
		build->context.failure =
			r == -EACCES ? EXIT_CODE_OUTPUT : exit_code_for(r, EXIT_CODE_OUTPUT);
		return r;
	}
	nothing = !any_ran(build) && !outputs.changed;
	say_text(build, &outputs, nothing);
	say_result(build, &outputs, nothing);
	return 0;
}

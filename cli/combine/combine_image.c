/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/image/storage.h"
#include "cli/combine/combine.h"
#include "cli/output_place.h"
#include "common/fs.h"
#include "common/copy.h"
#include "common/tag.h"
#include "kernels/local/image.h"
#include "kernels/tree/depends.h"

#define CONTAINERFILE "containers/debian/Containerfile.combine"

/* How many modules there are, and how many of them are in sets that were proven to load. */
static int count_modules(const struct combine *combine, struct image *image)
{
	size_t count = 0, loading = 0;

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *folder = NULL;
		size_t more = kernel->peermem_count > 1 ? kernel->peermem_count - 1 : 0;

		if (asprintf(&folder, "usr/lib/modules/%s/updates", kernel->krel) < 0 ||
			depends_list_modules(kernel->from->fd, folder, &names) == -ENOMEM)
			return -ENOMEM;
		count += names.count + more;
		loading += strcmp(kernel->proof, "holds") == 0 ? names.count + more : 0;
	}
	return asprintf(&image->modules, "%zu", count) < 0 ||
			       asprintf(&image->loading, "%zu", loading) < 0
		       ? -ENOMEM
		       : 0;
}

static int describe(struct combine *combine, struct image *image, struct error *error)
{
	struct context *context = combine->context;
	const struct combine_input *first = &combine->inputs[0];
	_cleanup_free_ char *os_tag = NULL;
	int r = context_choose_os(context, first->os, NULL, error);

	if (r < 0)
		return r;
	os_tag = tag_gpu_os(context->os.id, context->os.version_id);
	image->role = strdup("gpu");
	image->version = strdup(first->version);
	image->proof = strdup(combine_proof(combine));
	if (!os_tag || !image->role || !image->version || !image->proof ||
		count_modules(combine, image) < 0 ||
		asprintf(&image->tag, "%s-%s%s", image->version, os_tag,
			image_is_proven(image) ? "" : IMAGE_UNPROVEN) < 0 ||
		asprintf(&image->reference, "localhost/slipway/driver:%s", image->tag) < 0)
		return error_set_errno(error, -ENOMEM, "image");
	return 0;
}

/* The image to start from has to be in the storage, under whatever name it has there. */
static int base_id(const struct combine_input *input, char **ret_id, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	const char *transport = "oci";
	_cleanup_free_ char *source = NULL;

	if (input->what.kind == VERIFY_STORAGE) {
		*ret_id = buildah_image_id(input->what.place);
		return *ret_id ? 0
			       : error_set(error, -EINVAL, "%s: it is no longer in the storage",
					 input->name);
	}
	if (input->what.kind == VERIFY_ARCHIVE) {
		int r = local_image_open(input->what.place, true, &image, error);

		if (r < 0)
			return r;
		/* What docker writes has no manifest with a digest. */
		transport = *image.digest ? "oci-archive" : "docker-archive";
	}
	if (asprintf(&source, "%s:%s", transport, input->what.place) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	return buildah_pull(source, ret_id, error);
}

static int add_labels(const struct combine *combine, const struct image *image, struct strv *labels)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *joined = NULL;
	int r = 0;

	for (size_t i = 0; i < combine->kernel_count && r == 0; i++)
		r = strv_push(&krels, combine->kernels[i].krel);
	joined = strv_join(&krels, " ");
	if (r < 0 || !joined)
		return -ENOMEM;
	r = strv_pushf(labels, "io.slipway.krel=%s", joined);
	if (r == 0)
		r = strv_pushf(labels, "io.slipway.proof=%s", image->proof);
	if (r == 0)
		r = strv_pushf(labels, "io.slipway.proof.modules=%s", image->modules);
	return r < 0 ? r : strv_pushf(labels, "io.slipway.proof.loading=%s", image->loading);
}

static int build(
	struct combine *combine, const char *folder, struct image *image, struct error *error)
{
	struct context *context = combine->context;
	_cleanup_free_ char *log = cache_log_path(&context->cache, "combine", "last");
	_cleanup_close_ int log_fd =
		log ? open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644) : -1;
	struct buildah buildah = { .log_fd = log_fd, .run_path = context->cache.run_path };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *base = NULL;
	int r;

	if (log_fd < 0)
		return error_set_errno(error, log ? -errno : -ENOMEM, "%s", log ? log : "log");
	r = base_id(&combine->inputs[0], &base, error);
	if (r < 0)
		return r;
	if (asprintf(&file, "%s/" CONTAINERFILE, context->data) < 0 ||
		strv_pushf(&arguments, "BASE=%s", base) < 0 ||
		add_labels(combine, image, &labels) < 0)
		return error_set_errno(error, -ENOMEM, "image");
	progress_step(&context->progress, image->tag);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &image->id, error);
	return r < 0 ? error_prefix(error, r, "log %s", log) : 0;
}

static int archive(
	struct combine *combine, const char *folder, struct image *image, struct error *error)
{
	const struct buildah buildah = { .log_fd = -1,
		.run_path = combine->context->cache.run_path };
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *destination = NULL;
	struct stat status;
	int r;

	if (asprintf(&path, "%s/" IMAGE_ARCHIVE, folder) < 0 ||
		asprintf(&destination, "oci-archive:%s:%s", path, image->tag) < 0)
		return error_set_errno(error, -ENOMEM, "image");
	progress_step(&combine->context->progress, "write the OCI archive");
	r = buildah_push(&buildah, image->id, destination, &image->digest, error);
	if (r < 0)
		return r;
	if (stat(path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	image->size_bytes = (uint64_t) status.st_size;
	return 0;
}

static int place_file(const char *folder, const char *place, struct error *error)
{
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *temporary = NULL;
	int r;

	if (asprintf(&from, "%s/" IMAGE_ARCHIVE, folder) < 0 ||
		asprintf(&temporary, "%s.%d.tmp", place, (int) getpid()) < 0)
		return error_set_errno(error, -ENOMEM, "%s", place);
	r = copy_apart(AT_FDCWD, from, AT_FDCWD, temporary);
	if (r == 0 && rename(temporary, place) < 0)
		r = -errno;
	if (r < 0)
		(void) unlink(temporary);
	return r < 0 ? error_set_errno(error, r, "--output %s", place) : 0;
}

static int write_json(const struct combine *combine, const struct image *image, const char *folder,
	struct error *error)
{
	json_object *object = combine_to_json(combine, image);
	_cleanup_free_ char *path = NULL;
	const char *text =
		object ? json_object_to_json_string_ext(
				 object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)
		       : NULL;
	int r = -ENOMEM;

	if (text && asprintf(&path, "%s/images.json", folder) >= 0)
		r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	(void) json_object_put(object);
	return r < 0 ? error_set_errno(error, r, "%s/images.json", folder) : 0;
}

/* "gpu.oci.tar" and "images.json", as slipway build leaves them. */
static int place_folder(const char *folder, const char *place, const struct combine *combine,
	const struct image *image, struct error *error)
{
	_cleanup_free_ char *file = NULL;
	int r = fs_mkdir_parents(AT_FDCWD, place, 0755);

	if (r < 0)
		return error_set_errno(error, r, "--output %s", place);
	if (asprintf(&file, "%s/gpu.oci.tar", place) < 0)
		return error_set_errno(error, -ENOMEM, "--output %s", place);
	r = place_file(folder, file, error);
	return r < 0 ? r : write_json(combine, image, place, error);
}

/* A build with --sources-image has this tag too. */
static void note_moved(const struct combine *combine, const struct image *image, const char *before)
{
	char text[256];

	(void) snprintf(text, sizeof(text),
		"the tag %s stood for another image until now, %.12s, which is still in the storage",
		image->tag, before);
	progress_note(&combine->context->progress, text);
}

static int place(struct combine *combine, const char *folder, const struct image *image,
	bool *ret_changed, struct error *error)
{
	const char *output = combine->output;
	_cleanup_free_ char *before = NULL;
	int r = storage_place(folder, image, ret_changed, &before, error);

	if (before)
		note_moved(combine, image, before);
	if (r < 0 || strcmp(output, OUTPUT_STORAGE) == 0)
		return r;
	return strncmp(output, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0
		       ? place_file(folder, output + strlen(OUTPUT_ARCHIVE), error)
		       : place_folder(folder, output, combine, image, error);
}

int combine_make(struct combine *combine, struct image *ret, bool *ret_changed, struct error *error)
{
	_cleanup_close_ int root_fd = -1;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *root = NULL;
	int r = describe(combine, ret, error);

	if (r < 0)
		return r;
	r = cache_new_folder(&combine->context->cache, "context", &folder);
	if (r < 0 || asprintf(&root, "%s/rootfs", folder) < 0)
		return error_set_errno(error, r < 0 ? r : -ENOMEM, "context");
	r = fs_mkdir_parents(AT_FDCWD, root, 0755);
	root_fd = r < 0 ? -1 : open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return error_set_errno(error, r < 0 ? r : -errno, "%s", root);
	r = combine_stage(combine, root_fd, error);
	if (r == 0)
		r = build(combine, folder, ret, error);
	if (r == 0)
		r = archive(combine, folder, ret, error);
	return r < 0 ? r : place(combine, folder, ret, ret_changed, error);
}

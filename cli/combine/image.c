/* SPDX-License-Identifier: Apache-2.0 */
/* The new image: its root file system, where it goes, and what is said about it. */
#include "cli/image/image.h"

#include <fcntl.h>
#include <string.h>

#include "cli/combine/combine.h"
#include "cli/output_place.h"
#include "common/fs.h"
#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/local/local_image.h"
#include "kernels/tree/depends.h"
#include "module/kernel_facts.h"

#define CONTAINERFILE "containers/debian/Containerfile.combine"

/* ---- the layer */

static int copy(const struct combine_input *input, const char *from, int root_fd, const char *to,
	struct error *error)
{
	int r = copy_tree(input->fd, from, root_fd, to);

	return r < 0 ? error_set_errno(error, r, "%s: %s", input->name, from) : 0;
}

static int write_lines(int root_fd, const char *path, const struct strv *lines, struct error *error)
{
	_cleanup_free_ char *joined = xstrv_join(lines, "\n");
	_cleanup_free_ char *text = xasprintf("%s\n", joined);
	int r;

	/* What lies there may be a link into an image's folder: it is replaced, not written to. */
	r = fs_write_atomic(root_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The kernel's modules, and what is known of it; the peermems come after it. */
static int stage_trees(const struct combine *combine, const struct combine_kernel *kernel,
	int root_fd, struct error *error)
{
	_cleanup_free_ char *modules = xasprintf("usr/lib/modules/%s", kernel->krel);
	_cleanup_free_ char *facts = xasprintf(KERNEL_FACTS_FOLDER "/%s", kernel->krel);
	_cleanup_free_ char *symvers =
		xasprintf("usr/src/nvidia-%s/Module.symvers", kernel->from->version);
	_cleanup_free_ char *kept = xasprintf("%s/" KERNEL_FACTS_NVIDIA, facts);
	int r = 0;

	/* The first image's layers have its own. */
	if (kernel->from != &combine->inputs[0])
		r = copy(kernel->from, modules, root_fd, modules, error);
	if (r == 0)
		r = copy(kernel->from, facts, root_fd, facts, error);
	/* An image of several kernels has them kept already; the one in usr/src is of its first. */
	if (r == 0 && !fs_exists(root_fd, kept) && fs_exists(kernel->from->fd, symvers))
		r = copy(kernel->from, symvers, root_fd, kept, error);
	return r;
}

static int stage_peermem(
	const struct combine_peermem *peermem, int root_fd, const char *folder, struct error *error)
{
	_cleanup_free_ char *module = xasprintf("%s/" KERNEL_FACTS_PEERMEM_MODULE, folder);
	_cleanup_free_ char *symvers = xasprintf("%s/" KERNEL_FACTS_OFED, folder);
	_cleanup_free_ char *conf = xasprintf("%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
	_cleanup_strv_ struct strv lines = { 0 };
	int r = copy(peermem->input, peermem->module, root_fd, module, error);

	if (r == 0 && fs_exists(peermem->input->fd, peermem->symvers))
		r = copy(peermem->input, peermem->symvers, root_fd, symvers, error);
	xstrv_pushf(&lines, "ofed_version=%s", peermem->ofed_version);
	xstrv_pushf(&lines, "ofed_exporter=%s", peermem->ofed_exporter);
	xstrv_pushf(&lines, "crc=%s", peermem->crc);
	return r < 0 ? r : write_lines(root_fd, conf, &lines, error);
}

/* Its own lines, but for the verdict: that of a kernel is the worst of all images that have it. */
static int stage_kernel_conf(const struct combine_kernel *kernel, int root_fd, struct error *error)
{
	static const char *const keys[] = { "role", "version", "os", "krel", "set", "ofed_exporter",
		"ofed_version", "signed_by", "signed_key" };
	_cleanup_free_ char *path =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, kernel->krel);
	_cleanup_strv_ struct strv lines = { 0 };
	char value[256];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		combine_input_value(kernel->from, kernel->krel, keys[i], value, sizeof(value));
		if (*value)
			xstrv_pushf(&lines, "%s=%s", keys[i], value);
	}
	xstrv_pushf(&lines, "proof=%s", kernel->proof);
	return write_lines(root_fd, path, &lines, error);
}

static int stage_kernel(const struct combine *combine, const struct combine_kernel *kernel,
	int root_fd, struct error *error)
{
	int r = stage_trees(combine, kernel, root_fd, error);

	for (size_t i = 0; i < kernel->peermem_count && kernel->peermem_count > 1 && r == 0; i++) {
		_cleanup_free_ char *folder = xasprintf(
			KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM "/%zu", kernel->krel, i);

		r = stage_peermem(&kernel->peermems[i], root_fd, folder, error);
	}
	return r < 0 ? r : stage_kernel_conf(kernel, root_fd, error);
}

/* The worst verdict of all kernels. */
static const char *worst_proof(const struct combine *combine)
{
	const char *worst = "holds";

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const char *proof = combine->kernels[i].proof;

		if (strcmp(proof, "will-not-load") == 0 || strcmp(worst, "holds") == 0)
			worst = proof;
	}
	return worst;
}

/* "KREL KREL": freed by the caller. */
static char *join_krels(const struct combine *combine)
{
	_cleanup_strv_ struct strv krels = { 0 };

	for (size_t i = 0; i < combine->kernel_count; i++)
		xstrv_push(&krels, combine->kernels[i].krel);
	return xstrv_join(&krels, " ");
}

/* The layer on top of the first image. */
static int stage(const struct combine *combine, int root_fd, struct error *error)
{
	const struct combine_input *first = &combine->inputs[0];
	_cleanup_free_ char *krels = join_krels(combine);
	_cleanup_strv_ struct strv lines = { 0 };
	int r = 0;

	for (size_t i = 0; i < combine->kernel_count && r == 0; i++)
		r = stage_kernel(combine, &combine->kernels[i], root_fd, error);
	if (r < 0)
		return r;
	xstrv_push(&lines, "role=gpu");
	xstrv_pushf(&lines, "version=%s", first->version);
	xstrv_pushf(&lines, "os=%s", first->os);
	xstrv_pushf(&lines, "krel=%s", krels);
	xstrv_pushf(&lines, "proof=%s", worst_proof(combine));
	r = fs_mkdir_parents(root_fd, "etc/slipway", 0755);
	return r < 0 ? error_set_errno(error, r, "etc/slipway")
		     : write_lines(root_fd, IMAGE_CONF, &lines, error);
}

/* ---- the image */

/* How many modules there are, and how many of them are in sets that were proven to load. */
static void count_modules(const struct combine *combine, struct image *image)
{
	size_t count = 0, loading = 0;

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", kernel->krel);
		_cleanup_strv_ struct strv names = { 0 };
		size_t more = kernel->peermem_count > 1 ? kernel->peermem_count - 1 : 0;

		if (depends_list_modules(kernel->from->fd, folder, &names) == -ENOMEM)
			out_of_memory();
		count += names.count + more;
		loading += strcmp(kernel->proof, "holds") == 0 ? names.count + more : 0;
	}
	image->modules = xasprintf("%zu", count);
	image->loading = xasprintf("%zu", loading);
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
	if (!os_tag)
		out_of_memory();
	image->role = xstrdup("gpu");
	image->version = xstrdup(first->version);
	image->proof = xstrdup(worst_proof(combine));
	count_modules(combine, image);
	image->tag = xasprintf(
		"%s-%s%s", image->version, os_tag, image_is_proven(image) ? "" : IMAGE_UNPROVEN);
	image->reference = xasprintf("localhost/slipway/driver:%s", image->tag);
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
	source = xasprintf("%s:%s", transport, input->what.place);
	return buildah_pull(source, ret_id, error);
}

static int build(
	struct combine *combine, const char *folder, struct image *image, struct error *error)
{
	struct context *context = combine->context;
	_cleanup_free_ char *log = cache_log_path(&context->cache, "combine", "last");
	_cleanup_close_ int log_fd =
		open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	struct buildah buildah = { .log_fd = log_fd, .run_path = context->cache.run_path };
	_cleanup_free_ char *file = xasprintf("%s/" CONTAINERFILE, context->data);
	_cleanup_free_ char *krels = join_krels(combine);
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *base = NULL;
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s", log);
	r = base_id(&combine->inputs[0], &base, error);
	if (r < 0)
		return r;
	xstrv_pushf(&arguments, "BASE=%s", base);
	xstrv_pushf(&labels, "io.slipway.krel=%s", krels);
	xstrv_pushf(&labels, "io.slipway.proof=%s", image->proof);
	xstrv_pushf(&labels, "io.slipway.proof.modules=%s", image->modules);
	xstrv_pushf(&labels, "io.slipway.proof.loading=%s", image->loading);
	progress_step(&context->progress, image->tag);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &image->id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", log);
	progress_step(&context->progress, "write the OCI archive");
	buildah.log_fd = -1;
	return image_archive(&buildah, folder, image, error);
}

/* ---- what is said about it */

static json_object *peermem_to_json(const struct combine_peermem *peermem)
{
	json_object *object = json_object_new_object();

	(void) json_object_object_add(
		object, "ofed_version", json_object_new_string(peermem->ofed_version));
	(void) json_object_object_add(
		object, "ofed_exporter", json_object_new_string(peermem->ofed_exporter));
	(void) json_object_object_add(object, "crc", json_object_new_string(peermem->crc));
	return object;
}

static json_object *kernel_to_json(const struct combine_kernel *kernel)
{
	json_object *object = json_object_new_object();
	json_object *peermems = json_object_new_array();

	(void) json_object_object_add(object, "krel", json_object_new_string(kernel->krel));
	(void) json_object_object_add(object, "set", json_object_new_string(kernel->set));
	(void) json_object_object_add(object, "proof", json_object_new_string(kernel->proof));
	for (size_t i = 0; i < kernel->peermem_count; i++)
		(void) json_object_array_add(peermems, peermem_to_json(&kernel->peermems[i]));
	(void) json_object_object_add(object, "peermem", peermems);
	return object;
}

json_object *combine_to_json(const struct combine *combine, const struct image *image)
{
	json_object *root = json_object_new_object();
	json_object *kernels = json_object_new_array();
	json_object *images = json_object_new_array();

	(void) json_object_object_add(root, "os", json_object_new_string(combine->inputs[0].os));
	for (size_t i = 0; i < combine->kernel_count; i++)
		(void) json_object_array_add(kernels, kernel_to_json(&combine->kernels[i]));
	(void) json_object_object_add(root, "kernels", kernels);
	(void) json_object_array_add(images, image_to_json(image));
	(void) json_object_object_add(root, "images", images);
	return root;
}

static void say_kernel(const struct combine_kernel *kernel)
{
	(void) printf("  %s", kernel->krel);
	for (size_t i = 0; i < kernel->peermem_count; i++)
		(void) printf("%s OFED %s", i ? "," : "  nvidia-peermem for",
			*kernel->peermems[i].ofed_version ? kernel->peermems[i].ofed_version
							  : "the kernel's own");
	(void) puts(strcmp(kernel->proof, "holds") == 0 ? "" : "  WARNING: not proven to load");
}

void combine_say(const struct combine *combine, const struct image *image)
{
	(void) printf("gpu image  %s  (%.1f MB), %zu kernel%s\n", image->reference,
		(double) image->size_bytes / 1e6, combine->kernel_count,
		combine->kernel_count == 1 ? "" : "s");
	for (size_t i = 0; i < combine->kernel_count; i++)
		say_kernel(&combine->kernels[i]);
	(void) printf("  buildah push %s docker://REGISTRY/%s\n", image->reference,
		strrchr(image->reference, '/') + 1);
	if (image_is_proven(image))
		(void) printf("  GPU Operator: driver.usePrecompiled=false, "
			      "driver.repository=REGISTRY, driver.image=driver, "
			      "driver.version=\"%s\"\n",
			image->version);
	else
		(void) printf("  No operator asks for a tag that ends with " IMAGE_UNPROVEN "\n");
}

/* ---- where it goes */

static int place_file(const char *folder, const char *place, struct error *error)
{
	_cleanup_free_ char *from = xasprintf("%s/" IMAGE_ARCHIVE, folder);
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", place, (int) getpid());
	int r = copy_apart(AT_FDCWD, from, AT_FDCWD, temporary);

	if (r == 0 && rename(temporary, place) < 0)
		r = -errno;
	if (r < 0)
		(void) unlink(temporary);
	return r < 0 ? error_set_errno(error, r, "--output %s", place) : 0;
}

/* "gpu.oci.tar" and "images.json", as slipway build leaves them. */
static int place_folder(const char *folder, const char *place, const struct combine *combine,
	const struct image *image, struct error *error)
{
	_cleanup_free_ char *archive = xasprintf("%s/gpu.oci.tar", place);
	_cleanup_free_ char *path = xasprintf("%s/images.json", place);
	json_object *object;
	const char *text;
	int r = fs_mkdir_parents(AT_FDCWD, place, 0755);

	if (r < 0)
		return error_set_errno(error, r, "--output %s", place);
	r = place_file(folder, archive, error);
	if (r < 0)
		return r;
	object = combine_to_json(combine, image);
	text = json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	(void) json_object_put(object);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
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
	int r = image_place(folder, image, ret_changed, &before, error);

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
	if (r < 0)
		return error_set_errno(error, r, "context");
	root = xasprintf("%s/rootfs", folder);
	r = fs_mkdir_parents(AT_FDCWD, root, 0755);
	root_fd = r < 0 ? -1 : open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return error_set_errno(error, r < 0 ? r : -errno, "%s", root);
	r = stage(combine, root_fd, error);
	if (r == 0)
		r = build(combine, folder, ret, error);
	return r < 0 ? r : place(combine, folder, ret, ret_changed, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The two driver images. An output folder holds the OCI archive and image.json, which names it. */
#include "cli/image/image.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/stage/node_tool_internal.h"
#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

#define IMAGE_RECORD "image-9" /* what is kept of an image: one of an older form is made anew */

/* With the version, which is in the key of the set, all that the tag is made of. */
int image_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	const struct catalogue *os = &build->context.os;
	_cleanup_free_ char *file = xasprintf("containers/debian/Containerfile.%s", stage->name);
	int r;

	hash_add_text(hash, IMAGE_RECORD);
	hash_add_text(hash, build->kernel.lock.krel);
	hash_add_text(hash, arch_debian(build->kernel.lock.arch));
	hash_add_text(hash, os->os);
	hash_add_text(hash, os->id);
	hash_add_text(hash, os->version_id);
	r = cached_add_data(&build->context, file, hash, error);
	return r < 0 ? r : node_tool_add_inputs(build, hash, error);
}

/* The names that the operators' charts use by default, so that only the registry differs. */
static int set_reference(
	const struct build *build, enum driver driver, struct image *image, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	const char *krel = build->kernel.lock.krel;
	const char *arch = arch_debian(build->kernel.lock.arch);
	bool nic = driver == DRIVER_OFED;
	bool sources = build->options.sources_image;
	_cleanup_free_ char *tag =
		nic && sources ? tag_nic_sources(image->version, os->id, os->version_id, arch)
		: nic          ? tag_nic(image->version, krel, os->id, os->version_id, arch)
		: sources      ? tag_gpu_sources(image->version, os->id, os->version_id)
			       : tag_gpu(image->version, krel, os->id, os->version_id);

	if (!tag)
		out_of_memory();
	image->tag = xasprintf("%s%s", tag, image_is_proven(image) ? "" : IMAGE_UNPROVEN);
	image->reference =
		xasprintf("localhost/slipway/%s:%s", nic ? "doca-driver" : "driver", image->tag);
	if (strlen(image->tag) > IMAGE_TAG_LIMIT)
		return error_set(error, -EINVAL, "%s image: tag %s is longer than %d characters",
			image->role, image->tag, IMAGE_TAG_LIMIT);
	return 0;
}

/* An image that --force made says for ever what was known of it. */
static void add_labels(const struct build *build, const struct image *image, struct strv *labels)
{
	xstrv_pushf(labels, "org.opencontainers.image.version=%s", image->version);
	xstrv_pushf(labels, "org.opencontainers.image.title=slipway %s driver", image->role);
	xstrv_pushf(labels, "io.slipway.krel=%s", build->kernel.lock.krel);
	xstrv_pushf(labels, "io.slipway.os=%s", build->context.os.os);
	if (build->options.compiler)
		xstrv_pushf(labels, "io.slipway.compiler=%s", build->options.compiler);
	if (image->peermem)
		xstrv_pushf(labels, IMAGE_LABEL_PEERMEM "=%s", image->peermem);
	if (signing_wanted(build))
		xstrv_pushf(
			labels, "io.slipway.signed-by=%s", module_cert_name(build->signing.cert));
	xstrv_pushf(labels, "io.slipway.proof=%s", image->proof);
	xstrv_pushf(labels, "io.slipway.proof.modules=%s", image->modules);
	xstrv_pushf(labels, "io.slipway.proof.loading=%s", image->loading);
}

static int build_image(struct build *build, const struct stage *stage,
	const struct stage_place *place, const char *folder, struct image *image,
	struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *file = xasprintf(
		"%s/containers/debian/Containerfile.%s", build->context.data, image->role);
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *base = NULL;
	bool nic = stage->driver == DRIVER_OFED;
	bool sources = build->options.sources_image;
	/* A kit, where it is to be able to compile. */
	enum stage_id from = !sources ? STAGE_RUNTIME_BASE : nic ? STAGE_NIC_KIT : STAGE_KIT;
	int r = image_name(build, from, &base, error);

	if (r < 0)
		return r;
	xstrv_pushf(&arguments, "BASE=%s", base);
	xstrv_pushf(&arguments, "KREL=%s", build->kernel.lock.krel);
	xstrv_pushf(&arguments, "VERSION=%s", image->version);
	if (sources)
		xstrv_pushf(&labels, "io.slipway.kit=%s", build->outputs[from].key);
	add_labels(build, image, &labels);
	r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	if (nic)
		buildah.target = sources ? "sources" : "precompiled";
	progress_step(&build->context.progress, image->tag);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &image->id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	progress_step(&build->context.progress, "write the OCI archive");
	r = image_archive(&buildah, place->folder, image, error);
	return r < 0 ? r : image_write(place->folder, image, error);
}

/* Which OFED the GPU image was bound to: images of two OFEDs share a tag. */
static int read_peermem(const struct build *build, struct image *image, struct error *error)
{
	_cleanup_free_ char *has = NULL;
	_cleanup_free_ char *ofed = NULL;
	int r = stage_conf_value(build, STAGE_NVIDIA_SIGNED, "set.conf", "peermem", &has, error);

	if (r == 0)
		r = stage_conf_value(
			build, STAGE_NVIDIA_SIGNED, "set.conf", "ofed_version", &ofed, error);
	if (r < 0)
		return r;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): both were read */
	image->peermem = xstrdup(!*has ? IMAGE_NO_PEERMEM : *ofed ? ofed : IMAGE_KERNELS_PEERMEM);
	return 0;
}

/* Its own folder in the context: a layer that the images of all kernels share. */
static int copy_userspace(
	struct build *build, const char *version, const char *folder, struct error *error)
{
	static const char *const parts[] = { "usr", "opt", "etc" };
	_cleanup_close_ int to_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *found = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (to_fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	r = stage_conf_value(build, STAGE_USERSPACE, "set.conf", "version", &found, error);
	if (r < 0)
		return r;
	/* The library refuses to talk to a kernel module of another version. */
	if (strcmp(found, version) != 0)
		return error_set(error, -EINVAL,
			"the userspace is of driver %s, the modules are of %s: they work together only in "
			"one version. Name that version's source with --nvidia, or its installer's folder "
			"with --userspace",
			found, version);
	r = stage_open(build, STAGE_USERSPACE, &fd, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		r = fs_exists(fd, parts[i]) ? copy_tree(fd, parts[i], to_fd, parts[i]) : 0;
		if (r < 0)
			return error_set_errno(error, r, "%s/%s", folder, parts[i]);
	}
	return 0;
}

static int add_tool(const struct build *build, const char *folder, struct error *error)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? error_set_errno(error, -errno, "%s", folder)
		      : node_tool_stage(build, fd, error);
}

int image_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	bool gpu = stage->driver == DRIVER_NVIDIA;
	struct image_root root = {
		.driver = stage->driver,
		.role = stage->name,
		.set = source_kinds[stage->driver].signed_set,
		.other = gpu && build_has(build, DRIVER_OFED) ? STAGE_OFED_SIGNED : STAGE_COUNT,
	};
	_cleanup_(image_free) struct image image = { .role = xstrdup(stage->name) };
	_cleanup_(proof_result_free) struct proof_result proof = { 0 };
	_cleanup_free_ char *context = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *userspace = NULL;
	int r = cache_new_folder(&build->context.cache, "context", &context);

	if (r < 0)
		return error_set_errno(error, r, "%s image", stage->name);
	root.folder = folder = xasprintf("%s/rootfs", context);
	userspace = xasprintf("%s/userspace", context);
	r = fs_mkdir_parents(AT_FDCWD, folder, 0755);
	/* Containerfile.gpu copies it, empty or not. */
	if (r == 0)
		r = fs_mkdir_parents(AT_FDCWD, userspace, 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", folder);
	r = stage_conf_value(build, root.set, "set.conf", "version", &image.version, error);
	if (r == 0)
		r = proof_read(build, stage->name, &proof, error);
	if (r == 0 && gpu)
		r = read_peermem(build, &image, error);
	if (r < 0)
		return r;
	image.proof = TAKE_PTR(proof.verdict);
	image.modules = TAKE_PTR(proof.modules);
	image.loading = TAKE_PTR(proof.loading);
	r = set_reference(build, stage->driver, &image, error);
	if (r == 0 && gpu && stage_applies(build, STAGE_USERSPACE))
		r = copy_userspace(build, image.version, userspace, error);
	if (r == 0)
		r = image_root_make(build, &root, error);
	if (r == 0)
		r = add_tool(build, folder, error);
	return r < 0 ? r : build_image(build, stage, place, context, &image, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The two driver images. An output folder holds the OCI archive and image.json, which names it. */
#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/image.h"
#include "cli/stage/node_tool.h"
#include "cli/image/image_root.h"
#include "cli/stage/stage_tools.h"
#include "common/fs.h"
#include "common/copy.h"
#include "common/tag.h"
#include "kernels/krel.h"

#define IMAGE_RECORD "image-9" /* what is kept of an image: one of an older form is made anew */

/* With the version, which is in the key of the set, all that the tag is made of. */
static int add_image_inputs(const struct build *build, const char *containerfile, struct hash *hash,
	struct error *error)
{
	int r;

	hash_add_text(hash, IMAGE_RECORD);
	hash_add_text(hash, build->kernel.lock.krel);
	hash_add_text(hash, arch_debian(build->kernel.lock.arch));
	hash_add_text(hash, build->context.os.os);
	hash_add_text(hash, build->context.os.id);
	hash_add_text(hash, build->context.os.version_id);
	r = cached_add_data(&build->context, containerfile, hash, error);
	return r < 0 ? r : node_tool_add_inputs(build, hash, error);
}

int nic_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return add_image_inputs(build, "containers/debian/Containerfile.nic", hash, error);
}

int gpu_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	return add_image_inputs(build, "containers/debian/Containerfile.gpu", hash, error);
}

/* The names that the operators' charts use by default, so that only the registry differs. */
static int make_reference(const struct build *build, const char *role, const char *version,
	struct image *image, struct error *error)
{
	bool nic = strcmp(role, "nic") == 0;
	_cleanup_free_ char *tag = NULL;

	if (nic && nic_kit_applies(build))
		tag = tag_nic_sources(version, build->context.os.id, build->context.os.version_id,
			arch_debian(build->kernel.lock.arch));
	else if (nic)
		tag = tag_nic(version, build->kernel.lock.krel, build->context.os.id,
			build->context.os.version_id, arch_debian(build->kernel.lock.arch));
	else if (kit_applies(build))
		tag = tag_gpu_sources(version, build->context.os.id, build->context.os.version_id);
	else
		tag = tag_gpu(version, build->kernel.lock.krel, build->context.os.id,
			build->context.os.version_id);
	if (!tag ||
		asprintf(&image->tag, "%s%s", tag, image_is_proven(image) ? "" : IMAGE_UNPROVEN) <
			0 ||
		asprintf(&image->reference, "localhost/slipway/%s:%s",
			nic ? "doca-driver" : "driver", image->tag) < 0)
		return error_set_errno(error, -ENOMEM, "%s image", role);
	if (strlen(image->tag) > IMAGE_TAG_LIMIT)
		return error_set(error, -EINVAL, "%s image: tag %s is longer than %d characters",
			role, image->tag, IMAGE_TAG_LIMIT);
	return 0;
}

/* An image that --force made says for ever what was known of it. */
static int add_proof_labels(const struct image *image, struct strv *labels)
{
	int r = strv_pushf(labels, "io.slipway.proof=%s", image->proof);

	if (r == 0)
		r = strv_pushf(labels, "io.slipway.proof.modules=%s", image->modules);
	return r < 0 ? r : strv_pushf(labels, "io.slipway.proof.loading=%s", image->loading);
}

static int add_labels(const struct build *build, const struct image *image, struct strv *labels)
{
	int r = strv_pushf(labels, "org.opencontainers.image.version=%s", image->version);

	if (r == 0)
		r = strv_pushf(
			labels, "org.opencontainers.image.title=slipway %s driver", image->role);
	if (r == 0)
		r = strv_pushf(labels, "io.slipway.krel=%s", build->kernel.lock.krel);
	if (r == 0)
		r = strv_pushf(labels, "io.slipway.os=%s", build->context.os.os);
	if (r == 0 && build->options.compiler)
		r = strv_pushf(labels, "io.slipway.compiler=%s", build->options.compiler);
	if (r == 0 && image->peermem)
		r = strv_pushf(labels, IMAGE_LABEL_PEERMEM "=%s", image->peermem);
	if (r == 0 && signing_wanted(build))
		r = strv_pushf(
			labels, "io.slipway.signed-by=%s", module_cert_name(build->signing.cert));
	return r < 0 ? r : add_proof_labels(image, labels);
}

/* The archive of an image, beside what is said about it. */
static int archive_image(const struct stage_place *place, const struct buildah *buildah,
	struct image *image, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *destination = NULL;
	struct stat status;
	int r;

	if (asprintf(&path, "%s/%s", place->folder, IMAGE_ARCHIVE) < 0 ||
		asprintf(&destination, "oci-archive:%s:%s", path, image->tag) < 0)
		return error_set_errno(error, -ENOMEM, "%s image", image->role);
	r = buildah_push(buildah, image->id, destination, &image->digest, error);
	if (r < 0)
		return r;
	if (stat(path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	image->size_bytes = (uint64_t) status.st_size;
	return image_write(place->folder, image, error);
}

/* What an image starts from: a kit, where it is to be able to compile. */
static enum stage_id base_of(const struct build *build, const struct image *image)
{
	if (strcmp(image->role, "nic") == 0)
		return nic_kit_applies(build) ? STAGE_NIC_KIT : STAGE_RUNTIME_BASE;
	return kit_applies(build) ? STAGE_KIT : STAGE_RUNTIME_BASE;
}

static int build_image(struct build *build, const struct stage_place *place, const char *context,
	struct image *image, struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_strv_ struct strv arguments = { 0 };
	_cleanup_strv_ struct strv labels = { 0 };
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *base = NULL;
	enum stage_id from = base_of(build, image);
	bool kit = from != STAGE_RUNTIME_BASE;
	int r = image_name(build, from, &base, error);

	if (r < 0)
		return r;
	if (asprintf(&file, "%s/containers/debian/Containerfile.%s", build->context.data,
		    image->role) < 0 ||
		strv_pushf(&arguments, "BASE=%s", base) < 0 ||
		strv_pushf(&arguments, "KREL=%s", build->kernel.lock.krel) < 0 ||
		strv_pushf(&arguments, "VERSION=%s", image->version) < 0 ||
		(kit && strv_pushf(&labels, "io.slipway.kit=%s", build->outputs[from].key) < 0) ||
		add_labels(build, image, &labels) < 0)
		return error_set_errno(error, -ENOMEM, "%s image", image->role);
	r = stage_buildah(build, place, &buildah, error);
	if (r < 0)
		return r;
	if (from == STAGE_NIC_KIT)
		buildah.target = "sources";
	else if (strcmp(image->role, "nic") == 0)
		buildah.target = "precompiled";
	progress_step(&build->context.progress, image->tag);
	r = buildah_build(&buildah, file, context, &arguments, &labels, &image->id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", place->log);
	progress_step(&build->context.progress, "write the OCI archive");
	return archive_image(place, &buildah, image, error);
}

static int take_proof(const struct build *build, struct image *image, struct error *error)
{
	_cleanup_(proof_result_free) struct proof_result result = { 0 };
	int r = proof_read(build, image->role, &result, error);

	if (r < 0)
		return r;
	image->proof = TAKE_PTR(result.verdict);
	image->modules = TAKE_PTR(result.modules);
	image->loading = TAKE_PTR(result.loading);
	return 0;
}

/* Which OFED the GPU image was bound to: images of two OFEDs share a tag. */
static int take_peermem(const struct build *build, const struct image_root *stage,
	struct image *image, struct error *error)
{
	_cleanup_free_ char *has = NULL;
	_cleanup_free_ char *ofed = NULL;
	int r;

	if (stage->set != STAGE_NVIDIA_SIGNED)
		return 0;
	r = stage_conf_value(build, stage->set, "set.conf", "peermem", &has, error);
	if (r < 0)
		return r;
	r = stage_conf_value(build, stage->set, "set.conf", "ofed_version", &ofed, error);
	if (r < 0)
		return r;
	image->peermem = strdup(!*has ? IMAGE_NO_PEERMEM : *ofed ? ofed : IMAGE_KERNELS_PEERMEM);
	return image->peermem ? 0 : error_set_errno(error, -ENOMEM, "%s image", stage->role);
}

/* The library refuses to talk to a kernel module of another version. */
static int check_userspace(const struct build *build, const char *version, struct error *error)
{
	_cleanup_free_ char *found = NULL;
	int r = stage_conf_value(build, STAGE_USERSPACE, "set.conf", "version", &found, error);

	if (r < 0 || strcmp(found, version) == 0)
		return r;
	return error_set(error, -EINVAL,
		"the userspace is of driver %s, the modules are of %s: they work together only in "
		"one version. Name that version's source with --nvidia, or its installer's folder "
		"with --userspace",
		found, version);
}

/* Its own folder in the context: a layer that the images of all kernels share. */
static int stage_userspace(
	struct build *build, const char *version, const char *folder, struct error *error)
{
	static const char *const parts[] = { "usr", "opt", "etc" };
	_cleanup_close_ int to_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	int r = to_fd < 0 ? error_set_errno(error, -errno, "%s", folder)
			  : check_userspace(build, version, error);

	if (r == 0)
		r = stage_open(build, STAGE_USERSPACE, &fd, error);
	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++) {
		if (!fs_exists(fd, parts[i]))
			continue;
		r = copy_tree(fd, parts[i], to_fd, parts[i]);
		if (r < 0)
			r = error_set_errno(error, r, "%s/%s", folder, parts[i]);
	}
	return r;
}

static int stage_tool(const struct build *build, const char *folder, struct error *error)
{
	_cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? error_set_errno(error, -errno, "%s", folder)
		      : node_tool_stage(build, fd, error);
}

static int make_image(struct build *build, const struct stage_place *place,
	struct image_root *stage, struct error *error)
{
	_cleanup_(image_free) struct image image = { .role = strdup(stage->role) };
	_cleanup_free_ char *context = NULL;
	_cleanup_free_ char *root = NULL;
	_cleanup_free_ char *userspace = NULL;
	int r = cache_new_folder(&build->context.cache, "context", &context);

	if (r < 0 || !image.role || asprintf(&root, "%s/rootfs", context) < 0 ||
		asprintf(&userspace, "%s/userspace", context) < 0)
		return error_set_errno(error, r < 0 ? r : -ENOMEM, "%s image", stage->role);
	r = fs_mkdir_parents(AT_FDCWD, root, 0755);
	/* Containerfile.gpu copies it, empty or not. */
	if (r == 0)
		r = fs_mkdir_parents(AT_FDCWD, userspace, 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", root);
	r = stage_conf_value(build, stage->set, "set.conf", "version", &image.version, error);
	if (r == 0)
		r = take_proof(build, &image, error);
	if (r == 0)
		r = take_peermem(build, stage, &image, error);
	if (r == 0)
		r = make_reference(build, stage->role, image.version, &image, error);
	stage->folder = root;
	if (r == 0 && stage->set == STAGE_NVIDIA_SIGNED && stage_applies(build, STAGE_USERSPACE))
		r = stage_userspace(build, image.version, userspace, error);
	if (r == 0)
		r = image_root_make(build, stage, error);
	if (r == 0)
		r = stage_tool(build, root, error);
	return r < 0 ? r : build_image(build, place, context, &image, error);
}

int nic_run(struct build *build, const struct stage_place *place, struct error *error)
{
	struct image_root stage = { .role = "nic", .set = STAGE_OFED_SIGNED, .other = STAGE_COUNT };

	return make_image(build, place, &stage, error);
}

int gpu_run(struct build *build, const struct stage_place *place, struct error *error)
{
	struct image_root stage = {
		.role = "gpu",
		.set = STAGE_NVIDIA_SIGNED,
		.other = ofed_applies(build) ? STAGE_OFED_SIGNED : STAGE_COUNT,
	};

	return make_image(build, place, &stage, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/combine/combine_internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/image/output_place.h"
#include "cli/image/policies.h"
#include "cli/image/staging.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/verify/input.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/image_conf.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/local/local_image.h"
#include "kernels/tree/depends.h"
#include "module/running.h"

#define CONTAINERFILE "containers/runtime/Containerfile.combine"

/* ---- the layer on top of the first image */

static void stage_conf(const struct image_conf *conf, const char *path, struct staging *root)
{
	_cleanup_free_ char *text = image_conf_text(conf);

	if (!text)
		out_of_memory();
	staging_write(root, path, text, strlen(text));
}

/* Its own, but for the verdict: that of a kernel is the worst of all images that have it. */
static void stage_kernel_conf(const struct combine_kernel *kernel, struct staging *root)
{
	_cleanup_free_ char *path =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, kernel->krel);
	struct image_conf conf;

	verify_input_conf(&kernel->from->image, kernel->krel, &conf);
	image_conf_set(conf.proof, kernel->proof);
	/* The combined image's revision is another. */
	image_conf_set(conf.revision, "");
	stage_conf(&conf, path, root);
}

/* The init puts it in the place of the first, where a node wants that kind. */
static void stage_other_kind(
	const struct combine_kernel *kernel, const char *facts, struct staging *root)
{
	const struct combine_input *other = kernel->other;
	_cleanup_free_ char *to =
		xasprintf("%s/" KERNEL_FACTS_OTHER "/" KERNEL_FACTS_OTHER_FACTS, facts);
	_cleanup_free_ char *symvers = xasprintf("%s/" KERNEL_FACTS_NVIDIA, to);
	_cleanup_free_ char *modules =
		xasprintf("%s/" KERNEL_FACTS_OTHER "/" KERNEL_FACTS_OTHER_MODULES, facts);

	staging_copy(root, modules, "%s/usr/lib/modules/%s", other->image.folder, kernel->krel);
	staging_copy(root, to, "%s/%s", other->image.folder, facts);
	if (!fs_exists(root->fd, symvers))
		staging_copy_found(root, symvers, "%s/usr/src/nvidia-%s/Module.symvers",
			other->image.folder, other->conf.version);
}

/* The kernel's modules, what is known of it, and its peermems where there are several. */
static void stage_kernel(
	const struct combine *combine, const struct combine_kernel *kernel, struct staging *root)
{
	const char *from = kernel->from->image.folder;
	_cleanup_free_ char *modules = xasprintf("usr/lib/modules/%s", kernel->krel);
	_cleanup_free_ char *facts = xasprintf(KERNEL_FACTS_FOLDER "/%s", kernel->krel);
	_cleanup_free_ char *other = xasprintf("%s/" KERNEL_FACTS_OTHER, facts);
	_cleanup_free_ char *kept = xasprintf("%s/" KERNEL_FACTS_NVIDIA, facts);
	_cleanup_free_ char *headers =
		xasprintf(OFED_HEADERS "/%s/%s", combine->arch->uname, kernel->krel);

	/* The first image's layers have its own. */
	if (kernel->from != &combine->inputs[0]) {
		staging_copy(root, modules, "%s/%s", from, modules);
		staging_copy_found(root, headers, "%s/%s", from, headers);
	}
	staging_copy(root, facts, "%s/%s", from, facts);
	/* An image of several kernels has them kept already; the one in usr/src is of its first. */
	if (!fs_exists(root->fd, kept))
		staging_copy_found(root, kept, "%s/usr/src/nvidia-%s/Module.symvers", from,
			kernel->from->conf.version);
	for (size_t i = 0; i < kernel->peermem_count && kernel->peermem_count > 1; i++) {
		_cleanup_free_ char *folder =
			xasprintf("%s/" KERNEL_FACTS_PEERMEM "/%zu", facts, i);

		combine_stage_peermem(&kernel->peermems[i], folder, root);
	}
	stage_kernel_conf(kernel, root);
	if (kernel->other)
		stage_other_kind(kernel, facts, root);
	else if (kernel->both && kernel->both != kernel->from)
		staging_copy(root, other, "%s/%s", kernel->both->image.folder, other);
}

/* "KREL KREL": freed by the caller. */
static char *join_krels(const struct combine *combine)
{
	_cleanup_strv_ struct strv krels = { 0 };

	for (size_t i = 0; i < combine->kernel_count; i++)
		xstrv_push(&krels, combine->kernels[i].krel);
	return xstrv_join(&krels, " ");
}

/* "" for none. */
static const char *revision_of(const struct combine *combine)
{
	return combine->revision ? combine->revision : combine->inputs[0].conf.revision;
}

static int stage(const struct combine *combine, const struct image *image, const char *path,
	struct error *error)
{
	const struct combine_input *first = &combine->inputs[0];
	_cleanup_(staging_close) struct staging root = { .fd = -1 };
	_cleanup_free_ char *krels = join_krels(combine);
	struct image_conf conf = { 0 };
	int r = staging_open(&root, path, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < combine->kernel_count; i++)
		stage_kernel(combine, &combine->kernels[i], &root);
	image_conf_set(conf.role, first->conf.role);
	image_conf_set(conf.version, first->conf.version);
	image_conf_set(conf.revision, revision_of(combine));
	image_conf_set(conf.os, first->conf.os);
	image_conf_set(conf.os_id, first->conf.os_id);
	image_conf_set(conf.os_version, first->conf.os_version);
	image_conf_set(conf.krel, krels);
	image_conf_set(conf.proof, image->proof);
	stage_conf(&conf, IMAGE_CONF, &root);
	return root.result;
}

/* ---- the image */

/* VERSION_ID of all its kernels' nodes: of Enterprise Linux they may be of several minor releases.
 */
static void find_versions(struct combine *combine, struct strv *versions)
{
	const struct catalogue *os = &combine->context->os;

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		_cleanup_free_ char *version = NULL;
		struct image_conf conf;

		verify_input_conf(&kernel->from->image, kernel->krel, &conf);
		version = combine->os_version ? xstrdup(combine->os_version)
			  : *conf.os_version  ? xstrdup(conf.os_version)
					      : catalogue_node_version(os, kernel->krel);
		xstrv_push_unique(versions, version ? version : os->version_id);
	}
	if (versions->count == 1)
		combine->node_version = xstrdup(versions->items[0]);
	for (size_t i = 0; i < versions->count; i++) {
		unsigned long major = strtoul(versions->items[i], NULL, 10);

		combine->node_major = i == 0 || major == combine->node_major ? major : 0;
	}
}

/* The operator's containers for GDRCopy and GDS have one image for all nodes, of one version. */
static void name_addons(struct combine *combine, const struct strv *versions)
{
	_cleanup_strv_ struct strv all = { 0 };

	for (size_t i = 0; i < combine->kernel_count; i++) {
		struct image_conf conf;

		verify_input_conf(
			&combine->kernels[i].from->image, combine->kernels[i].krel, &conf);
		xstrv_split(&all, conf.addons, " ");
	}
	for (size_t i = 0; i < all.count; i++) {
		_cleanup_free_ char *driver = xstrndup(all.items[i], strcspn(all.items[i], ":"));
		const char *version = all.items[i] + strlen(driver);
		size_t first = 0, same = 0;

		while (strncmp(all.items[first], all.items[i], strlen(driver) + 1) != 0)
			first++;
		for (size_t k = 0; k < all.count; k++)
			same += strcmp(all.items[k], all.items[i]) == 0;
		if (first != i)
			continue;
		if (same == combine->kernel_count)
			image_addons_add(&combine->addons, driver, version + (*version == ':'),
				revision_of(combine), combine->context->os.id, versions);
		else
			progress_notef(&combine->context->progress,
				"%s is not of one version for all kernels: the image gets no name "
				"and no values for it",
				driver);
	}
}

/* Describes the image before it is made. */
static int describe(struct combine *combine, struct image *image, struct error *error)
{
	struct context *context = combine->context;
	const struct combine_input *first = &combine->inputs[0];
	const char *worst = "holds";
	const struct image_role *row = image_role_find(first->conf.role);
	const char *revision = revision_of(combine);
	_cleanup_strv_ struct strv versions = { 0 };
	_cleanup_strv_ struct strv tags = { 0 };
	size_t count = 0, loading = 0;
	int r = context_choose_os(context, first->conf.os, NULL, error);

	if (r < 0)
		return r;
	/* How many modules there are, and how many are in sets that were proven to load. */
	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", kernel->krel);
		_cleanup_free_ char *other = xasprintf(KERNEL_FACTS_FOLDER
			"/%s/" KERNEL_FACTS_OTHER "/" KERNEL_FACTS_OTHER_MODULES "/updates",
			kernel->krel);
		_cleanup_strv_ struct strv names = { 0 };
		size_t here;

		(void) !depends_list_modules(kernel->from->image.fd, folder, &names);
		if (kernel->other)
			(void) !depends_list_modules(kernel->other->image.fd, folder, &names);
		if (kernel->both)
			(void) !depends_list_modules(kernel->both->image.fd, other, &names);
		here = names.count + (kernel->peermem_count > 1 ? kernel->peermem_count - 1 : 0);
		count += here;
		loading += strcmp(kernel->proof, "holds") == 0 ? here : 0;
		if (image_proof_rank(kernel->proof) > image_proof_rank(worst))
			worst = kernel->proof;
	}
	image->role = xstrdup(row->role);
	image->version = xasprintf("%s%s%s", first->conf.version, *revision ? "-" : "", revision);
	image->proof = xstrdup(worst);
	image->modules = xasprintf("%zu", count);
	image->loading = xasprintf("%zu", loading);
	find_versions(combine, &versions);
	for (size_t i = 0; i < versions.count; i++)
		row->list_tags(&(struct image_tagged){ .version = image->version,
				       .os_id = context->os.id,
				       .os_version = versions.items[i],
				       .arch = combine->arch->oci },
			&tags);
	if (image_is_proven(image))
		name_addons(combine, &versions);
	for (size_t i = 0; i < tags.count; i++)
		image_add_tag(image, row->repository, tags.items[i],
			image_is_proven(image) ? "" : IMAGE_UNPROVEN);
	return 0;
}

/* The image to start from has to be in the storage, under whatever name it has there. */
static int base_id(const struct combine_input *input, char **ret_id, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	const char *transport = "oci";
	_cleanup_free_ char *source = NULL;

	if (input->image.kind == VERIFY_STORAGE) {
		*ret_id = buildah_image_id(input->image.place);
		return *ret_id ? 0
			       : error_set(error, -EINVAL, "%s: it is no longer in the storage",
					 input->image.name);
	}
	if (input->image.kind == VERIFY_ARCHIVE) {
		int r = local_image_open(
			input->image.place, true, input->image.arch, &image, error);

		if (r < 0)
			return r;
		/* Archives that docker writes have no manifest with a digest. */
		transport = *image.digest ? "oci-archive" : "docker-archive";
	}
	source = xasprintf("%s:%s", transport, input->image.place);
	return buildah_pull(source, input->image.arch, ret_id, error);
}

static int build(
	struct combine *combine, const char *folder, struct image *image, struct error *error)
{
	struct context *context = combine->context;
	_cleanup_free_ char *log =
		cache_log_path(&context->cache, "combine", basename(context->cache.run_path));
	_cleanup_close_ int log_fd =
		open(log, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	struct buildah buildah = { .log_fd = log_fd,
		.run_path = context->cache.run_path,
		.scratch_path = context->cache.scratch_path,
		.date = context->date };
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
	if (*revision_of(combine))
		xstrv_pushf(&arguments, "CONTAINER_VERSION=%s", revision_of(combine));
	buildah.target = image->role;
	buildah.has_stages = image_role_find(image->role)->combines_on_gpu;
	xstrv_pushf(&labels, "org.opencontainers.image.version=%s", image->version);
	xstrv_pushf(&labels, "io.slipway.krel=%s", krels);
	xstrv_pushf(&labels, "io.slipway.proof=%s", image->proof);
	xstrv_pushf(&labels, "io.slipway.proof.modules=%s", image->modules);
	xstrv_pushf(&labels, "io.slipway.proof.loading=%s", image->loading);
	progress_step(&context->progress, image->tag);
	r = buildah_build(&buildah, file, folder, &arguments, &labels, &image->id, error);
	if (r < 0)
		return error_prefix(error, r, "log %s", log);
	(void) unlink(log);
	progress_step(&context->progress, "write the OCI archive");
	return image_archive(context->cache.scratch_path, folder, image, error);
}

static struct image_use describe_use(const struct combine *combine)
{
	struct image_use use = {
		.operators = combine->operators,
		.os_id = combine->context->os.id,
		.os_version = combine->node_version,
		.os_major = combine->node_major,
		.compiles = fs_exists(combine->inputs[0].image.fd, IMAGE_KIT),
		.open_modules = combine->kernel_count > 0,
		.addons = combine->addons.used,
		.addon_count = combine->addons.count,
	};
	bool any_ofed = false;

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		_cleanup_free_ char *kind = combine_modules_kind(kernel->from, kernel->krel);

		use.open_modules &= kernel->other || kernel->both || strcmp(kind, "open") == 0;
		use.rdma |= kernel->peermem_count > 0;
		for (size_t k = 0; k < kernel->peermem_count; k++)
			any_ofed |= *kernel->peermems[k].ofed_version;
	}
	use.kernels_rdma = use.rdma && !any_ofed;
	return use;
}

/* Asks the registry, before the image is made and without its @folder, or pushes it. */
static int push(
	struct combine *combine, struct image *image, const char *folder, struct error *error)
{
	const struct push *push = &combine->push;
	struct progress *progress = &combine->context->progress;
	const struct image_use use = describe_use(combine);
	_cleanup_free_ char *archive = folder ? xasprintf("%s/" IMAGE_ARCHIVE, folder) : NULL;
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	if (!push->registry)
		return 0;
	if (!image_is_proven(image)) {
		if (archive)
			progress_notef(
				progress, "%s is not pushed: it is not proven", image->reference);
		return 0;
	}
	image_wanted_names(image, &use, &names);
	image_addons_wanted(&combine->addons, &use, &names);
	r = archive ? push_image(push, image, archive, NULL, combine->arch->oci, &names, progress,
			      &image->pushed, error)
		    : push_look(push, &names, NULL, combine->arch->oci, progress, error);
	if (r < 0)
		combine->context->failure =
			r == -EEXIST ? EXIT_CODE_REGISTRY : exit_code_for(r, EXIT_CODE_REGISTRY);
	return r;
}

int combine_make(struct combine *combine, struct image *ret, bool *ret_changed, struct error *error)
{
	struct error why = { 0 };
	bool written = false;
	int pushed = 0;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *root = NULL;
	_cleanup_free_ char *before = NULL;
	int r = describe(combine, ret, error);

	if (r == 0)
		r = push(combine, ret, NULL, error);
	if (r < 0)
		return r;
	r = cache_new_folder(&combine->context->cache, "context", &folder);
	if (r < 0)
		return error_set_errno(error, r, "context");
	root = xasprintf("%s/rootfs", folder);
	r = stage(combine, ret, root, error);
	if (r < 0)
		return r;
	r = build(combine, folder, ret, error);
	if (r < 0)
		return r;
	r = image_place(folder, ret, ret_changed, &before, error);
	if (r == 0)
		r = image_addons_place(&combine->addons, ret->id, ret_changed, error);
	if (r < 0)
		return r;
	/* A build with --sources-image has this tag too. */
	if (before)
		progress_notef(&combine->context->progress, "the tag %s " IMAGE_TAG_MOVED, ret->tag,
			before, before);
	/* In the order of a build's (output_write()). */
	r = image_place_files(combine->output, ret, (const char *const[]){ folder }, 1,
		combine_to_json(combine, ret), &written, error);
	if (r == 0) {
		pushed = push(combine, ret, folder, &why);
		r = image_place_list(
			combine->output, combine_to_json(combine, ret), &written, error);
	}
	if (r == 0 && output_place_is_folder(combine->output)) {
		struct image_use use = describe_use(combine);

		r = policies_place(combine->output, ret, 1, &use, &written, error);
	}
	if (r < 0)
		combine->context->failure =
			r == -EACCES ? EXIT_CODE_OUTPUT : exit_code_for(r, EXIT_CODE_OUTPUT);
	if (r == 0 && pushed < 0) {
		*error = why;
		return pushed;
	}
	return r;
}

/* ---- the report */

json_object *combine_to_json(const struct combine *combine, const struct image *image)
{
	json_object *root = json_object_new_object();
	json_object *kernels = json_object_new_array();
	json_object *images = json_object_new_array();

	json_add_texts(root, "os", combine->inputs[0].conf.os);
	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		json_object *object = json_object_new_object();
		json_object *peermems = json_object_new_array();

		for (size_t k = 0; k < kernel->peermem_count; k++) {
			const struct peermem *peermem = &kernel->peermems[k];
			json_object *item = json_object_new_object();

			json_add_texts(item, "ofed_version", peermem->ofed_version, "ofed_exporter",
				peermem->ofed_exporter, "crc", peermem->crc);
			(void) json_object_array_add(peermems, item);
		}
		json_add_texts(
			object, "krel", kernel->krel, "set", kernel->set, "proof", kernel->proof);
		json_add(object, "peermem", peermems);
		json_add(object, "both_kinds",
			json_object_new_boolean(kernel->other || kernel->both));
		(void) json_object_array_add(kernels, object);
	}
	json_add(root, "kernels", kernels);
	(void) json_object_array_add(images, image_to_json(image));
	json_add(root, "images", images);
	image_addons_add_json(&combine->addons, root);
	return root;
}

void combine_print(const struct combine *combine, const struct image *image)
{
	struct image_use use = describe_use(combine);
	bool in_folder = output_place_is_folder(combine->output);

	text_print(stdout, "%s image  %s  (%.1f MB), %zu kernel%s\n", image->role, image->reference,
		(double) image->size_bytes / 1e6, combine->kernel_count,
		combine->kernel_count == 1 ? "" : "s");
	for (size_t i = 0; i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];

		text_print(stdout, "  %s", kernel->krel);
		for (size_t k = 0; k < kernel->peermem_count; k++) {
			const char *version = kernel->peermems[k].ofed_version;

			text_print(stdout, "%s OFED %s", k ? "," : "  nvidia-peermem for",
				*version ? version : "the kernel's own");
		}
		if (kernel->other || kernel->both)
			text_print(stdout, ", open and proprietary modules");
		if (strcmp(kernel->proof, "holds") != 0)
			message_print(stdout, COLOUR_YELLOW, "  WARNING: not proven to load");
		(void) putchar('\n');
	}
	for (size_t i = 0; i < image->pushed.count; i++)
		text_print(stdout, "  pushed  %s\n", image->pushed.items[i]);
	if (!in_folder || !image_is_proven(image))
		image_print_use(image, &use);
	if (in_folder)
		policies_print(combine->output, image, 1, &use);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/bundle.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/image/buildah.h"
#include "cli/image/staging.h"
#include "common/slipway_version.h"
#include "cli/stage/build.h"
#include "cli/stage/plan.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/fetch/store.h"
#include "kernels/krel.h"
#include "kernels/tool.h"

#define BLOBS "blobs/sha256/"

/* ---- collecting */

struct collecting {
	struct build *build;
	struct bundle_manifest *manifest;
	struct bundle_target *target; /* the last of the manifest */
	struct staging folder;
};

/* Puts a file that lies in the folder on the list. */
static void list_file(struct collecting *collecting, const char *path)
{
	struct bundle_manifest *manifest = collecting->manifest;
	struct stat status = { 0 };
	char hex[HASH_HEX_SIZE] = "";
	int r = collecting->folder.result;

	if (r == 0)
		r = hash_file(collecting->folder.fd, path, hex);
	if (r == 0 && fstatat(collecting->folder.fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		(void) staging_fail(&collecting->folder, r, path);
	manifest->files =
		xreallocarray(manifest->files, manifest->file_count + 1, sizeof(*manifest->files));
	manifest->files[manifest->file_count++] = (struct bundle_file){
		.path = xstrdup(path),
		.sha256 = xstrdup(hex),
		.size_bytes = (uint64_t) status.st_size,
	};
}

/* Writes the image @id to the file @path of the bundle, unless another target has. */
static int save_image(
	struct collecting *collecting, const char *id, const char *path, struct error *error)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", collecting->folder.path, path);
	int r;

	if (bundle_has_file(collecting->manifest, path))
		return 0;
	staging_mkdir(&collecting->folder, "images");
	progress_step(&collecting->build->context.progress, path);
	r = collecting->folder.result;
	if (r == 0)
		r = buildah_save(id, full, error);
	if (r < 0)
		return r;
	list_file(collecting, path);
	return collecting->folder.result;
}

static int add_image(struct collecting *collecting, const struct stage *stage, struct error *error)
{
	struct bundle_target *target = collecting->target;
	_cleanup_free_ char *name = image_name(stage, error);
	_cleanup_free_ char *id = NULL;
	struct bundle_image *image;

	if (!name)
		return -EIO;
	id = buildah_image_id(name);
	if (!id)
		return error_set(
			error, -ENOENT, "image %s is gone from the storage: run again", name);
	target->images =
		xreallocarray(target->images, target->image_count + 1, sizeof(*target->images));
	image = &target->images[target->image_count++];
	*image = (struct bundle_image){
		.file = xasprintf("images/%.16s.tar", id),
		.id = TAKE_PTR(id),
		.key = xstrdup(stage->cached->key),
		.name = TAKE_PTR(name),
		.stage = xstrdup(stage->name),
	};
	return save_image(collecting, image->id, image->file, error);
}

/* The build container's image contains its base, which need not be saved separately. */
static int add_images(struct collecting *collecting, struct error *error)
{
	struct bundle_target *target = collecting->target;
	const struct build *build = collecting->build;
	const struct stage *base = stage_find(build, STAGE_RUNTIME_BASE, 0);
	const struct stage *toolchain = stage_find(build, STAGE_TOOLCHAIN, ROOT_KERNEL);
	const struct stage *other = stage_find(build, STAGE_TOOLCHAIN, ROOT_RUNTIME);
	int r = add_image(collecting, toolchain, error);

	if (r == 0 && other != toolchain)
		r = add_image(collecting, other, error);
	if (r < 0)
		return r;
	if (!build->options.base)
		return add_image(collecting, base, error);
	/* The user's own image goes by its ID: its name may mean another one elsewhere. */
	target->base_id = image_name(base, error);
	if (!target->base_id)
		return -EIO;
	target->base_file = xasprintf("images/%.16s.tar", target->base_id);
	return save_image(collecting, target->base_id, target->base_file, error);
}

/* Sorts the names and drops the times, so that the same tree makes the same bundle. */
static int pack_tree(
	const struct collecting *collecting, const char *from, const char *to, struct error *error)
{
	const char *const words[] = { "tar", "--create", "--sort=name", "--mtime=@0", "--owner=0",
		"--group=0", "--numeric-owner", "--exclude=.git", "--directory", from };
	_cleanup_strv_ struct strv argv = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(&argv, words[i]);
	xstrv_pushf(&argv, "--file=%s/%s", collecting->folder.path, to);
	xstrv_push(&argv, ".");
	return tool_run(&argv, NULL, error);
}

/* The output of a stage, unless it does not apply. */
static int add_output(
	struct collecting *collecting, enum stage_kind kind, int of, struct error *error)
{
	struct bundle_target *target = collecting->target;
	const struct stage *stage = stage_find(collecting->build, kind, of);
	struct bundle_output *output;

	if (!stage_applies(collecting->build, stage))
		return 0;
	target->outputs =
		xreallocarray(target->outputs, target->output_count + 1, sizeof(*target->outputs));
	output = &target->outputs[target->output_count++];
	*output = (struct bundle_output){
		.file = xasprintf("outputs/%s-%.16s.tar", stage->name, stage->cached->key),
		.key = xstrdup(stage->cached->key),
		.stage = xstrdup(stage->name),
	};
	if (bundle_has_file(collecting->manifest, output->file))
		return 0;
	progress_step(&collecting->build->context.progress, output->file);
	staging_mkdir(&collecting->folder, "outputs");
	if (collecting->folder.result == 0)
		collecting->folder.result =
			pack_tree(collecting, stage->cached->path, output->file, error);
	list_file(collecting, output->file);
	return collecting->folder.result;
}

static int add_outputs(struct collecting *collecting, struct error *error)
{
	int r = add_output(collecting, STAGE_INIT, 0, error);

	for (enum driver driver = 0; r == 0 && driver < DRIVER_COUNT; driver++)
		r = add_output(collecting, STAGE_CORE, driver, error);
	for (enum image_id image = 0; r == 0 && image < IMAGE_COUNT; image++)
		r = add_output(collecting, STAGE_USERSPACE, image, error);
	return r;
}

static struct bundle_source *add_source(
	struct bundle_target *target, const char *option, const char *kind)
{
	struct bundle_source *source;

	target->sources =
		xreallocarray(target->sources, target->source_count + 1, sizeof(*target->sources));
	source = &target->sources[target->source_count++];
	*source = (struct bundle_source){ .option = xstrdup(option), .kind = xstrdup(kind) };
	return source;
}

/* Puts what names the distribution into the folder, as it lies in the user's. */
static int put_os_release(const struct local_input *input, const char *folder, struct error *error)
{
	static const char *const files[] = { "etc/os-release", "usr/lib/os-release" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const char *text = local_scan_text(&input->scan, files[i]);
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, files[i]);
		_cleanup_free_ char *parent = xstrndup(path, (size_t) (strrchr(path, '/') - path));
		int r;

		if (!text)
			continue;
		r = fs_mkdir_parents(AT_FDCWD, parent, 0755);
		if (r == 0)
			r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
		if (r < 0)
			return error_set_errno(error, r, "%s", path);
	}
	return 0;
}

/*
 * Packs what is taken of a kernel's folder, as it lies in a root: links lead out of the folder, and
 * so may its Makefile's include, as Debian's headers' do. One that has a part of a kernel only is
 * packed as it is.
 */
static int pack_kernel(const struct collecting *collecting, struct local_input *input,
	const char *to, struct error *error)
{
	const struct local_kernel *kernel = &collecting->build->kernel.local;
	const struct local_kernel one = { .krel = kernel->krel,
		.inputs = input,
		.count = 1,
		.modules_unlisted = kernel->modules_unlisted };
	const struct local_place *tree = local_scan_tree(&input->scan, kernel->krel);
	const struct local_place *modules = local_scan_modules(&input->scan, kernel->krel);
	bool has_headers = tree && tree->symvers;
	bool has_modules = (tree && tree->builtin) ||
			   (modules && (modules->builtin || kernel->modules_unlisted));
	const struct cache *cache = &collecting->build->context.cache;
	_cleanup_free_ char *folder = NULL, *scratch = NULL;
	int r;

	if (!has_headers && !has_modules)
		return pack_tree(collecting, input->path, to, error);
	r = cache_new_folder(cache, "kernel", &folder);
	if (r == 0)
		r = cache_new_folder(cache, "unpacked", &scratch);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->path);
	if (has_headers)
		r = local_make(&one, false, scratch, folder, error);
	if (r == 0 && has_modules)
		r = local_make(&one, true, scratch, folder, error);
	if (r == 0)
		r = put_os_release(input, folder, error);
	return r < 0 ? r : pack_tree(collecting, folder, to, error);
}

/*
 * A file or folder of the user's, under a digest of its path: other targets may have it, too.
 * @kernel: of --kernel-from; else NULL. Of its folder, that of one kernel is packed.
 */
static int add_user_path(struct collecting *collecting, const char *option, const char *path,
	struct local_input *kernel, struct error *error)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	const char *name = basename(path);
	struct bundle_source *source;
	struct hash *hash;
	char hex[HASH_HEX_SIZE];
	struct stat status;
	bool is_folder;

	if (!real || stat(real, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	hash = hash_new();
	hash_add_text(hash, real);
	if (kernel)
		hash_add_text(hash, collecting->build->kernel.local.krel);
	hash_finish(hash, hex);
	is_folder = S_ISDIR(status.st_mode);
	if (!is_folder && status.st_size == 0)
		return error_set(error, -EINVAL, "--%s %s: the file is empty", option, path);
	source = add_source(
		collecting->target, option, is_folder ? BUNDLE_SOURCE_TREE : BUNDLE_SOURCE_FILE);
	source->name = xstrdup(name);
	source->file = xasprintf("sources/%.8s-%s%s", hex, name, is_folder ? ".tar" : "");
	if (bundle_has_file(collecting->manifest, source->file))
		return 0;
	progress_step(&collecting->build->context.progress, name);
	staging_mkdir(&collecting->folder, "sources");
	if (!is_folder)
		staging_copy_apart(&collecting->folder, source->file, real);
	else if (collecting->folder.result == 0)
		collecting->folder.result =
			kernel && kernel->kind == LOCAL_FOLDER
				? pack_kernel(collecting, kernel, source->file, error)
				: pack_tree(collecting, path, source->file, error);
	list_file(collecting, source->file);
	return collecting->folder.result;
}

static int add_sources(struct collecting *collecting, struct error *error)
{
	struct build *build = collecting->build;
	const struct strv *kernels = &build->options.kernel_from;

	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct source *source = &build->sources[driver];
		const char *option = driver_name(driver);
		int r = 0;

		if (source->path)
			r = add_user_path(collecting, option, source->path, NULL, error);
		else if (source->form == SOURCE_PACKAGE)
			(void) add_source(collecting->target, option, BUNDLE_SOURCE_PACKAGE);
		if (r < 0)
			return r;
	}
	if (build->options.plan && build->options.userspace) {
		int r = add_user_path(
			collecting, BUNDLE_USERSPACE, build->options.userspace, NULL, error);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < REDIST_COUNT && build->options.plan; i++) {
		const char *path = build->options.redist[i];
		int r = path ? add_user_path(collecting, redist_option(i), path, NULL, error) : 0;

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < kernels->count; i++) {
		int r = add_user_path(collecting, BUNDLE_KERNEL_FROM, kernels->items[i],
			&build->kernel.local.inputs[i], error);

		if (r < 0)
			return r;
	}
	return 0;
}

static struct bundle_target *new_target(struct bundle_manifest *manifest)
{
	struct bundle_target *target;

	manifest->targets = xreallocarray(
		manifest->targets, manifest->target_count + 1, sizeof(*manifest->targets));
	target = &manifest->targets[manifest->target_count++];
	*target = (struct bundle_target){ 0 };
	return target;
}

static bool is_named_before(const struct bundle_manifest *manifest, const struct lock *lock)
{
	for (size_t i = 0; i < manifest->target_count; i++)
		if (strcmp(manifest->targets[i].krel, lock->krel) == 0 &&
			strcmp(manifest->targets[i].os, lock->os) == 0)
			return true;
	return false;
}

static int add_target(struct collecting *collecting, const struct strv *args, struct error *error)
{
	struct build *build = collecting->build;
	const struct lock *lock = &build->kernel.lock;
	_cleanup_free_ char *path = xasprintf(
		"locks/%zu-%s-%s.json", collecting->manifest->target_count, lock->os, lock->krel);
	_cleanup_free_ char *text = lock_write(lock);
	struct bundle_target *target;
	int r;

	if (!args && is_named_before(collecting->manifest, lock))
		return error_set(error, -EINVAL, "kernel %s is named twice", lock->krel);
	target = collecting->target = new_target(collecting->manifest);
	for (size_t i = 0; args && i < args->count; i++)
		xstrv_push(&target->args, args->items[i]);
	target->krel = xstrdup(lock->krel);
	target->os = xstrdup(lock->os);
	target->arch = xstrdup(lock->arch);
	target->root = xstrdup(build->roots[ROOT_KERNEL].os.os);
	target->unsigned_lists = build->options.common.allow_unsigned;
	target->root_stamp = root_stamp(build, ROOT_KERNEL);
	target->runtime_stamp = root_stamp(build, ROOT_RUNTIME);
	staging_write(&collecting->folder, path, text, strlen(text));
	list_file(collecting, path);
	target->lock = TAKE_PTR(path);
	r = kernel_fetch(&build->kernel, NULL, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < lock->count; i++) {
		_cleanup_free_ char *blob = xasprintf(BLOBS "%s", lock->packages[i].sha256);

		xstrv_push_unique(&target->downloads, blob);
		if (bundle_has_file(collecting->manifest, blob))
			continue;
		staging_copy(&collecting->folder, blob, "%s/%s", build->context.cache.path, blob);
		list_file(collecting, blob);
	}
	r = collecting->folder.result;
	if (r == 0)
		r = add_images(collecting, error);
	if (r == 0 && args)
		r = add_outputs(collecting, error);
	return r < 0 ? r : add_sources(collecting, error);
}

#define IMAGES  (STAGE_BIT(STAGE_TOOLCHAIN) | STAGE_BIT(STAGE_RUNTIME_BASE))
#define OUTPUTS (STAGE_BIT(STAGE_INIT) | STAGE_BIT(STAGE_CORE) | STAGE_BIT(STAGE_USERSPACE))

int bundle_preflight(struct build *build, struct error *error)
{
	return build_preflight(build, IMAGES | (build->options.plan ? OUTPUTS : 0), error);
}

/* As build_run() does it, for the keys of stages that read a driver's source. */
static int look_at_sources(struct build *build, struct error *error)
{
	int r;

	if (build->options.base_image) {
		(void) error_set(error, -EINVAL,
			"--base-image %s: a bundle carries build roots, and no vendor's image",
			build->options.base_image);
		return context_fail(&build->context, EXIT_CODE_USAGE,
			error_try(error, -EINVAL, "a plan without --base-image"));
	}
	build_settle_jobs(build);
	r = source_look(build, error);
	if (r == 0)
		r = userspace_check(build, error);
	return r < 0 ? r : redist_check(build, error);
}

int bundle_collect(struct build *build, struct bundle_manifest *manifest, const struct strv *args,
	const char *folder, struct error *error)
{
	struct collecting collecting = { .build = build, .manifest = manifest };
	int r = build_set_target(build, error);

	if (r == 0)
		r = kernel_open_tree(&build->kernel, error);
	if (r == 0)
		kernel_override_compiler(&build->kernel);
	if (r == 0 && args)
		r = look_at_sources(build, error);
	if (r == 0)
		r = build_check_modules(build, error);
	if (r == 0)
		r = roots_keys(build, error);
	if (r == 0)
		r = roots_settle(build, error);
	if (r == 0)
		r = stages_make(build, IMAGES | (args ? OUTPUTS : 0), NULL, error);
	if (r < 0)
		return r;
	roots_lock(build);
	progress_begin(&build->context.progress, "collect");
	r = staging_open(&collecting.folder, folder, error);
	if (r == 0)
		r = add_target(&collecting, args, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	staging_close(&collecting.folder);
	return r;
}

/* ---- importing */

void bundle_close(struct bundle *bundle)
{
	bundle_manifest_free(&bundle->manifest);
	strv_free(&bundle->texts);
	free(bundle->folder);
	*bundle = (struct bundle){ 0 };
}

static int choose_target(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_manifest *manifest = &bundle->manifest;
	const char *krel = build->options.krel;
	bool any = !krel || strcmp(krel, KREL_NEWEST) == 0;
	_cleanup_strv_ struct strv krels = { 0 };
	size_t found = 0;
	_cleanup_free_ char *list = NULL;

	/* slipway build --plan has found which one it is, and gives its number. */
	if (build->options.plan_target) {
		char *end;
		size_t number = strtoul(build->options.plan_target, &end, 10);

		if (*end || number >= manifest->target_count)
			return error_set(error, -ENODATA,
				"--target %s: %s has %zu target%s, from 0",
				build->options.plan_target, build->options.bundle,
				manifest->target_count, manifest->target_count == 1 ? "" : "s");
		bundle->target = &manifest->targets[number];
		return 0;
	}
	for (size_t i = 0; i < manifest->target_count; i++) {
		const struct bundle_target *target = &manifest->targets[i];

		if (any ? manifest->target_count == 1 : strcmp(krel, target->krel) == 0) {
			bundle->target = target;
			found++;
		}
		xstrv_push_unique(&krels, target->krel);
	}
	if (found == 1)
		return 0;
	if (found > 1) {
		(void) error_set(error, -ENODATA, "%s: it has %zu builds for kernel %s",
			build->options.bundle, found, krel);
		return error_try(error, -ENODATA, "--plan with the plan that it was made of");
	}
	list = xstrv_join(&krels, ", ");
	(void) error_set(error, -ENODATA, "%s: %s%s; it has %s", build->options.bundle,
		any ? "it has several kernels" : "it was not made for kernel ", any ? "" : krel,
		list);
	return error_try(error, -ENODATA, "--kernel with one of them");
}

/* The build decides that, not the machine that made the bundle. */
static int check_signatures(
	const struct build *build, const struct bundle *bundle, struct error *error)
{
	if (!bundle->target->unsigned_lists || build->options.common.allow_unsigned)
		return 0;
	(void) error_set(error, -EKEYREJECTED,
		"%s: made with --allow-unsigned: no signature vouches for the packages in it",
		build->options.bundle);
	return error_try(
		error, -EKEYREJECTED, "--allow-unsigned here, too, to build from it all the same");
}

/* The path of something of the bundle, as long-lived as the bundle. */
static const char *path_of(struct bundle *bundle, const char *file, const char *ending)
{
	xstrv_pushf(&bundle->texts, "%s/%s%s", bundle->folder, file, ending);
	return bundle->texts.items[bundle->texts.count - 1];
}

#define TREE_ENDING ".d" /* of the folder that a tree is unpacked to */

static const char *source_path(struct bundle *bundle, const struct bundle_source *source)
{
	bool is_tree = strcmp(source->kind, BUNDLE_SOURCE_TREE) == 0;

	return path_of(bundle, source->file, is_tree ? TREE_ENDING : "");
}

/* Sets the driver's value in @sources, which has what the options of a build would have. */
static int set_driver(struct bundle *bundle, const struct bundle_source *source,
	const char **sources, struct error *error)
{
	bool is_package = strcmp(source->kind, BUNDLE_SOURCE_PACKAGE) == 0;
	enum driver driver = driver_find(source->option);

	if (driver != DRIVER_COUNT)
		sources[driver] =
			is_package ? driver_package_word(driver) : source_path(bundle, source);
	if (driver != DRIVER_COUNT && sources[driver])
		return 0;
	(void) error_set(error, -EBADMSG,
		"the bundle has a source for --%.80s as a %s, which this slipway cannot build",
		source->option, source->kind);
	return error_try(
		error, -EBADMSG, "slipway %.40s, which made the bundle", bundle->manifest.slipway);
}

static int set_options(struct build *build, struct bundle *bundle, struct error *error)
{
	const struct bundle_target *target = bundle->target;
	struct build_options *options = &build->options;
	const char *sources[DRIVER_COUNT] = { 0 };
	int r;

	if (options->plan_target) { /* paths where the plan was made */
		strv_free(&options->kernel_from);
		options->userspace = NULL;
		for (size_t i = 0; i < REDIST_COUNT; i++)
			options->redist[i] = NULL;
	}
	for (size_t i = 0; i < target->source_count; i++) {
		const struct bundle_source *source = &target->sources[i];
		enum redist_id redist;

		if (strcmp(source->option, BUNDLE_KERNEL_FROM) == 0) {
			xstrv_push(&options->kernel_from, source_path(bundle, source));
			continue;
		}
		if (strcmp(source->option, BUNDLE_USERSPACE) == 0) {
			if (!options->userspace)
				options->userspace = source_path(bundle, source);
			continue;
		}
		redist = redist_find(source->option);
		if (redist != REDIST_COUNT) {
			options->redist[redist] = source_path(bundle, source);
			continue;
		}
		r = set_driver(bundle, source, sources, error);
		if (r < 0)
			return r;
	}
	r = build_options_take_sources(options, sources, error);
	if (r < 0)
		return r;
	options->krel = target->krel;
	options->lock = path_of(bundle, target->lock, "");
	options->base = *target->base_id ? target->base_id : NULL;
	options->root = target->root;
	/* It is part of the keys of the images, which are of the bundle. */
	options->common.allow_unsigned = target->unsigned_lists;
	build->bundle_slipway = bundle->manifest.slipway;
	build->bundle_stamps[ROOT_KERNEL] = target->root_stamp;
	build->bundle_stamps[ROOT_RUNTIME] = target->runtime_stamp;
	return 0;
}

/* All that the manifest alone can tell, before minutes of unpacking. */
static int choose(struct build *build, struct bundle *bundle, struct error *error)
{
	struct context *context = &build->context;
	int r = bundle_open(build->options.bundle, &bundle->manifest, error);

	if (r == 0)
		r = choose_target(build, bundle, error);
	if (r == 0)
		r = check_signatures(build, bundle, error);
	if (r < 0)
		return context_fail(
			context, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_CONTENT, r);
	r = cache_new_folder(&context->cache, "bundle", &bundle->folder);
	if (r < 0)
		return context_fail(context, EXIT_CODE_CONTENT,
			error_set_errno(error, r, "%s", context->cache.path));
	r = set_options(build, bundle, error);
	if (r == 0)
		r = build_options_check_drivers(&build->options, error);
	return r < 0 ? context_fail(context, EXIT_CODE_USAGE, r) : 0;
}

/* A download is named by its digest, and that has been checked. */
static int take_downloads(struct build *build, const struct bundle *bundle, struct error *error)
{
	_cleanup_(store_close) struct store store = { .fd = -1 };
	int r = store_open(build->context.cache.fd, "blobs", &store, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < bundle->manifest.file_count; i++) {
		const struct bundle_file *file = &bundle->manifest.files[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", bundle->folder, file->path);

		if (!strv_contains(&bundle->target->downloads, file->path))
			continue;
		if (strncmp(file->path, BLOBS, strlen(BLOBS)) != 0 ||
			strcmp(file->path + strlen(BLOBS), file->sha256) != 0)
			return error_set(error, -EBADMSG,
				"%s: altered: %s has another SHA-256 than its name",
				build->options.bundle, file->path);
		/* One in the cache that is damaged makes room for the right one. */
		r = store_check(&store, file->sha256, file->size_bytes, error);
		if (r == -EUCLEAN)
			r = store_set_aside_damaged(&store, file->sha256, file->size_bytes, error);
		if (r < 0)
			return error_prefix(error, r, "%s", file->path);
		r = store_take(&store, AT_FDCWD, path, file->sha256);
		if (r < 0)
			return error_set_errno(error, r, "%s", file->path);
	}
	return 0;
}

/* An image, and with it the output of the stage that made it where the bundle comes from. */
static int take_image(struct build *build, const struct bundle *bundle,
	const struct bundle_image *image, struct error *error)
{
	const struct cache *cache = &build->context.cache;
	const char *name = image->name, *stage = image->stage, *key = image->key;
	_cleanup_free_ char *output = cache_output_path(cache, stage, key);
	_cleanup_free_ char *archive = xasprintf("%s/%s", bundle->folder, image->file);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *named = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = cache_lock(cache, stage, key, true, &lock_fd);

	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the cache", stage);
	/* Made here before, or taken: it is used as it is, whatever the bundle has. */
	if (cache_use(cache, output) && image_still_there(output))
		return 0;
	progress_step(&build->context.progress, name);
	r = buildah_bring(archive, image->id, error);
	if (r < 0)
		return r;
	named = buildah_image_id(name);
	r = named ? 0 : buildah_tag(image->id, name, error);
	if (r < 0)
		return r;
	r = cache_new_folder(cache, "imported", &folder);
	if (r == 0) {
		path = xasprintf("%s/" IMAGE_NAME_FILE, folder);
		r = fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);
	}
	if (r == 0)
		r = cache_replace(cache, folder, output);
	return r < 0 ? error_set_errno(error, r, "%s", stage) : 0;
}

static int take_images(struct build *build, const struct bundle *bundle, struct error *error)
{
	const struct bundle_target *target = bundle->target;
	_cleanup_free_ char *archive = xasprintf("%s/%s", bundle->folder, target->base_file);

	for (size_t i = 0; i < target->image_count; i++) {
		int r = take_image(build, bundle, &target->images[i], error);

		if (r < 0)
			return r;
	}
	return *target->base_id ? buildah_bring(archive, target->base_id, error) : 0;
}

/* One that is there already was made here, or taken before. */
static int take_output(struct build *build, const struct bundle *bundle,
	const struct bundle_output *output, struct error *error)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_free_ char *place = cache_output_path(cache, output->stage, output->key);
	_cleanup_free_ char *archive = xasprintf("%s/%s", bundle->folder, output->file);
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int lock_fd = -1;
	int r = cache_lock(cache, output->stage, output->key, true, &lock_fd);
	struct unpack unpack = { 0 };

	if (r == 0 && cache_use(cache, place))
		return 0;
	if (r == 0)
		r = cache_new_folder(cache, "imported", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", output->stage);
	progress_step(&build->context.progress, output->stage);
	unpack.folder = folder;
	r = unpack_run(&unpack, AT_FDCWD, archive, error);
	if (r < 0)
		return r;
	r = cache_keep(folder, place);
	return r < 0 ? error_set_errno(error, r, "%s", output->stage) : 0;
}

static int take_outputs(struct build *build, const struct bundle *bundle, struct error *error)
{
	for (size_t i = 0; i < bundle->target->output_count; i++) {
		int r = take_output(build, bundle, &bundle->target->outputs[i], error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* The user's folders, to where the build's options name them. */
static int unpack_trees(const struct bundle *bundle, struct error *error)
{
	for (size_t i = 0; i < bundle->target->source_count; i++) {
		const struct bundle_source *source = &bundle->target->sources[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", bundle->folder, source->file);
		_cleanup_free_ char *folder = xasprintf("%s" TREE_ENDING, path);
		const struct unpack unpack = { .folder = folder };
		int r;

		if (strcmp(source->kind, BUNDLE_SOURCE_TREE) != 0)
			continue;
		r = fs_mkdir_parents(AT_FDCWD, folder, 0755);
		if (r < 0)
			return error_set_errno(error, r, "%s", source->file);
		r = unpack_run(&unpack, AT_FDCWD, path, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take(struct build *build, const struct bundle *bundle, struct error *error)
{
	struct progress *progress = &build->context.progress;
	const struct bundle_manifest *manifest = &bundle->manifest;
	int r = bundle_unpack(
		build->options.bundle, manifest, bundle->target, bundle->folder, progress, error);

	if (r < 0)
		return r;
	if (strcmp(manifest->slipway, SLIPWAY_VERSION) != 0)
		progress_notef(progress,
			"the bundle was made by slipway %.40s, this is " SLIPWAY_VERSION,
			manifest->slipway);
	r = take_downloads(build, bundle, error);
	if (r == 0)
		r = take_images(build, bundle, error);
	if (r == 0)
		r = take_outputs(build, bundle, error);
	return r < 0 ? r : unpack_trees(bundle, error);
}

int bundle_import(struct build *build, struct bundle *bundle, struct error *error)
{
	struct context *context = &build->context;
	int r;

	progress_begin(&context->progress, "bundle");
	r = choose(build, bundle, error);
	if (r == 0) {
		r = take(build, bundle, error);
		if (r < 0)
			(void) context_fail(context, EXIT_CODE_CONTENT, r);
	}
	progress_end(&context->progress, r < 0 ? "failed" : "done");
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two driver images. An output folder holds the OCI archive and image.json, which names it. The
 * root file system (seam 3 of docs/architecture.md) is made of hard links: the set, what it needs
 * of the kernel, slipway-init, image.conf and what depmod makes.
 */
#include "cli/image/image_record.h"
#include "cli/image/operators.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "cli/stage/stage_internal.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/image_conf.h"
#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/tool.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/tree.h"
#include "module/running.h"
#include "module/symvers.h"

#define IMAGE_RECORD "image-19" /* what is kept of an image: one of an older form is made anew */

/* The image has one /usr, with /lib a link into it: modules must be staged where they really lie.
 */
#define MODULES_FOLDER "usr/lib/modules"

#define SYMVERS_LIMIT ((size_t) 64 << 20)
#define PACKING_LEVEL 19 /* 1.5 MB take a second, and unpack in two milliseconds at any level */

/* Adds everything that the tag is made of, but for the version, which is in the key of the set. */
void image_key(const struct stage *stage, struct key *key)
{
	const struct target *target = &key->build->target;

	key_text(key, IMAGE_RECORD);
	key_text(key, target->krel);
	key_text(key, target->arch->oci);
	key_text(key, target->os->os);
	key_text(key, target->os->id);
	key_text(key, target->os_version ? target->os_version : "");
	key_data(key, "containers/runtime/Containerfile.%s", stage->name);
	if (key->build->options.revision)
		key_text(key, key->build->options.revision);
	node_tool_key(key);
	if (key->build->context.date)
		key_text(key, key->build->context.date);
}

/* An image in the making. */
struct making {
	struct build *build;
	const struct image_row *row;
	enum image_id id;
	const struct stage *set;   /* the driver's */
	const struct stage *other; /* whose modules another image brings; NULL: none */
	char *version;             /* the driver's; image.version is what the operator is given */
	const char *revision;      /* of the tag; NULL: none */
	struct image image;
	struct staging root;
};

/* Differences between the images. */
struct image_row {
	enum driver driver;       /* that it is called by */
	const char *repository;   /* its name without the registry */
	const char *const *names; /* that slipway-init is called by there, to NULL */
	bool links;               /* its Containerfile makes ld.so.cache, in a stage */
	bool has_targets;         /* its Containerfile has "precompiled" and "sources" */
	void (*add_tags)(struct making *making, const char *end);
	/* Adds other facts, known before the image is made, to its image.conf and labels. */
	int (*describe)(struct making *making, struct error *error);
	int (*add_conf)(struct making *making, struct image_conf *conf, struct error *error);
	void (*add_labels)(const struct making *making, struct strv *labels);
};

static void making_free(struct making *making)
{
	free(making->version);
	image_free(&making->image);
	staging_close(&making->root);
}

/* ---- the modules in its root */

static void copy_set(struct making *making, const struct stage *set)
{
	const char *krel = making->build->target.krel;
	const char *output = set->cached->path;
	_cleanup_free_ char *modules = xasprintf(MODULES_FOLDER "/%s", krel);

	staging_copy(&making->root, modules, "%s/lib/modules/%s", output, krel);
	staging_copy_found(&making->root, "usr", "%s/usr", output);
	staging_copy_found(&making->root, "usr/lib/firmware", "%s/lib/firmware", output);
	staging_copy_found(&making->root, "etc", "%s/etc", output);
}

/* Copies the kernel's modules that @set needs, except those that @other provides. */
static int copy_kernel_modules(struct making *making, const struct stage *set,
	const struct stage *other, struct error *error)
{
	const struct build *build = making->build;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_close_ int usr_fd =
		openat(making->root.fd, "usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int kernel_fd = stage_open(stage_find(build, STAGE_MODULES, 0), error);
	_cleanup_close_ int set_fd = stage_open(set, error);
	_cleanup_close_ int other_fd = other ? stage_open(other, error) : -1;
	const struct depends depends = {
		.krel = build->target.krel,
		.kernel_fd = kernel_fd,
		.set_fd = set_fd,
		.other_fd = other_fd,
	};
	int r;

	if (making->root.result < 0)
		return making->root.result;
	if (usr_fd < 0)
		return staging_fail(&making->root, -ENOENT, "usr");
	if (kernel_fd < 0 || set_fd < 0 || (other && other_fd < 0))
		return -EIO;
	r = depends_closure(&depends, &paths, error);
	return r < 0 ? r : depends_copy(&depends, &paths, usr_fd, error);
}

/*
 * ---- what the load proof on the node wants, in KERNEL_FACTS_FOLDER/<krel>: the kernel's
 * Module.symvers, packed; of that the lines that the image's own modules use; a few facts about the
 * kernel; and in a GPU image the symvers of the OFED that it was bound to
 */

/* Packs @from to @to, where @from is there. */
static void pack_symvers(struct staging *root, const char *from, const char *to)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *packed = NULL;
	size_t size, capacity, length;
	int r = fs_read(AT_FDCWD, from, SYMVERS_LIMIT, &text, &size);

	if (r < 0) {
		(void) staging_fail(root, r, from);
		return;
	}
	capacity = ZSTD_compressBound(size);
	packed = xcalloc(1, capacity);
	length = ZSTD_compress(packed, capacity, text, size, PACKING_LEVEL);
	if (ZSTD_isError(length))
		out_of_memory();
	staging_write(root, to, packed, length);
}

static void put_known(struct symvers *used, const struct symvers *all, const char *symbol)
{
	const struct symvers_entry *entry = symvers_find(all, symbol);

	if (entry && symvers_put(used, entry) < 0)
		out_of_memory();
}

/* 24,000 lines are unpacked and read in 15 ms; the few hundred that matter in one. */
static int write_used(
	struct making *making, const char *symvers, const char *to, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *used = NULL;
	_cleanup_(symvers_close) struct symvers *all = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *modules = xasprintf(MODULES_FOLDER "/%s", making->build->target.krel);
	int r = symvers_open(making->root.fd, symvers, &all, error);

	if (r < 0)
		return r;
	if (symvers_new(&used) < 0)
		out_of_memory();
	put_known(used, all, "module_layout");
	r = depends_list_modules(making->root.fd, modules, &paths);
	if (r < 0)
		return error_set_errno(error, r, "%s", modules);
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		const struct elf_module_export *exports;
		const struct elf_undefined *undefined;
		size_t count;

		r = elf_module_open(making->root.fd, paths.items[i], &module, error);
		if (r < 0)
			return r;
		undefined = elf_module_undefined_symbols(module, &count);
		for (size_t k = 0; k < count; k++)
			put_known(used, all, undefined[k].name);
		/* Exports count too: a kernel that exports the same symbol refuses the module. */
		exports = elf_module_exports(module, &count);
		for (size_t k = 0; k < count; k++)
			put_known(used, all, exports[k].symbol);
	}
	for (size_t i = 0; i < symvers_count(used); i++) {
		const struct symvers_entry *entry = symvers_at(used, i);

		xstrv_pushf(&lines, "0x%08x\t%s\t%s\t%s\t%s", entry->crc, entry->symbol,
			entry->module, entry->export, entry->name_space);
	}
	staging_write_lines(&making->root, to, &lines);
	return making->root.result;
}

/* Reads the first of the kernel's own modules; the smallest are in lib. */
static int read_module(const struct build *build, struct kernel_facts *facts, struct error *error)
{
	static const char *const folders[] = { "kernel/lib", "kernel" };
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_close_ int fd = stage_open(stage_find(build, STAGE_MODULES, 0), error);
	const char *vermagic = build->kernel.record.vermagic;

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < ARRAY_SIZE(folders) && !paths.count; i++) {
		_cleanup_free_ char *folder =
			xasprintf("lib/modules/%s/%s", build->target.krel, folders[i]);

		(void) !depends_list_modules(fd, folder, &paths);
	}
	if (paths.count) {
		int r = elf_module_open(fd, paths.items[0], &module, error);

		if (r < 0)
			return r;
		facts->struct_size = elf_module_struct_size(module);
		kernel_options_of_module(module, &facts->options);
		vermagic = elf_module_info(module, "vermagic");
	}
	(void) snprintf(facts->vermagic, sizeof(facts->vermagic), "%s", vermagic ? vermagic : "");
	return 0;
}

static int write_facts(struct making *making, const char *to, struct error *error)
{
	const struct build *build = making->build;
	const char *config = build->kernel.record.config_source;
	_cleanup_free_ char *config_text = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int kernel_fd = stage_open(stage_find(build, STAGE_KERNEL, 0), error);
	_cleanup_close_ int build_fd = -1;
	_cleanup_free_ char *version = NULL;
	struct kernel_facts facts = { .struct_size = 0 };
	int r = kernel_fd < 0 ? kernel_fd : read_module(build, &facts, error);

	if (r == 0)
		r = kernel_tree_open(kernel_fd, build->target.krel, &build_fd, error);
	if (r < 0)
		return r;
	version = kernel_tree_version(build_fd);
	(void) snprintf(facts.build, sizeof(facts.build), "%s", version ? version : "");
	if (config && *config && fs_read(kernel_fd, config, 0, &config_text, NULL) == 0)
		kernel_options_of_config(config_text, &facts.options);
	text = kernel_facts_text(&facts);
	if (!text)
		out_of_memory();
	staging_write(&making->root, to, text, strlen(text));
	return making->root.result;
}

static int add_facts(struct making *making, struct error *error)
{
	const struct build *build = making->build;
	const char *krel = build->target.krel;
	_cleanup_free_ char *symvers =
		xasprintf("%s/lib/modules/%s/build/Module.symvers", build->kernel.tree.path, krel);
	_cleanup_free_ char *all = xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_SYMVERS, krel);
	_cleanup_free_ char *used = xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_USED, krel);
	_cleanup_free_ char *facts = xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, krel);
	int r = 0;

	/* A tree without one is lint's to report; the init then judges by less. */
	if (fs_exists(AT_FDCWD, symvers)) {
		pack_symvers(&making->root, symvers, all);
		r = making->root.result < 0 ? making->root.result
					    : write_used(making, all, used, error);
	}
	if (r == 0 && making->other) {
		_cleanup_free_ char *from =
			xasprintf("%s/usr/src/ofa_kernel/default/Module.symvers",
				making->other->cached->path);
		_cleanup_free_ char *ofed =
			xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OFED, krel);

		pack_symvers(&making->root, from, ofed);
	}
	return r < 0 ? r : write_facts(making, facts, error);
}

/* ---- its root */

/* For people, and for the init, which may have several kernels. */
static int write_conf(struct making *making, struct error *error)
{
	const struct build *build = making->build;
	const char *krel = build->target.krel;
	const struct module_cert *cert = build->signing.cert;
	_cleanup_free_ char *updates = xasprintf(MODULES_FOLDER "/%s/updates", krel);
	_cleanup_free_ char *of_kernel =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel);
	struct image_conf conf = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	image_conf_set(conf.role, making->image.role);
	image_conf_set(conf.version, making->version);
	image_conf_set(conf.revision, making->revision ? making->revision : "");
	image_conf_set(conf.os, build->target.os->os);
	image_conf_set(conf.os_id, build->target.os->id);
	image_conf_set(conf.os_version, build->target.os_version);
	image_conf_set(conf.krel, krel);
	image_conf_set(conf.proof, making->image.proof);
	/* The node asks whether the modules that are loaded are still the image's. */
	r = image_set_id(making->root.fd, updates, conf.set);
	if (r < 0)
		return error_set_errno(error, r, "%s", updates);
	if (making->row->add_conf) {
		r = making->row->add_conf(making, &conf, error);
		if (r < 0)
			return r;
	}
	if (cert) {
		char key_id[CMS_ID_HEX_SIZE];

		module_cert_key_id(cert, key_id);
		image_conf_set(conf.signed_by, module_cert_name(cert));
		image_conf_set(conf.signed_key, key_id);
	}
	text = image_conf_text(&conf);
	if (!text)
		out_of_memory();
	staging_write(&making->root, IMAGE_CONF, text, strlen(text));
	staging_write(&making->root, of_kernel, text, strlen(text));
	return making->root.result;
}

/* Is it in the image beside the driver that the image is called by? */
static bool is_beside(const struct making *making, enum driver driver)
{
	return driver_rows[driver].image == making->id && driver != making->row->driver &&
	       build_has(making->build, driver);
}

static int make_root(struct making *making, struct error *error)
{
	struct build *build = making->build;
	_cleanup_free_ char *usr = xasprintf("%s/usr", making->root.path);
	_cleanup_free_ char *defaults = NULL;
	_cleanup_strv_ struct strv depmod = { 0 };
	int r;

	progress_step(&build->context.progress, "stage the root file system");
	copy_set(making, making->set);
	staging_copy(&making->root, "usr", "%s/usr", stage_output(build, STAGE_INIT, 0));
	r = copy_kernel_modules(making, making->set, making->other, error);
	if (r < 0)
		return r;
	/* Modules that are bound to the driver's go into the same image. */
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct stage *set = stage_find(build, STAGE_SIGNED, driver);

		if (!is_beside(making, driver))
			continue;
		copy_set(making, set);
		r = copy_kernel_modules(making, set, making->set, error);
		if (r < 0)
			return r;
	}
	r = add_facts(making, error);
	if (r == 0)
		r = write_conf(making, error);
	if (r < 0)
		return r;
	/* By its own defaults: this machine's /etc/depmod.d says nothing of the node. */
	r = cache_new_folder(&build->context.cache, "depmod", &defaults);
	if (r < 0)
		return error_set_errno(error, r, "depmod");
	xstrv_push(&depmod, "depmod");
	xstrv_push(&depmod, "-C");
	xstrv_push(&depmod, defaults);
	xstrv_push(&depmod, "-b");
	xstrv_push(&depmod, usr);
	xstrv_push(&depmod, build->target.krel);
	r = tool_run(&depmod, NULL, error);
	if (r == 0)
		node_tool_stage(build, &making->root);
	return r < 0 ? r : making->root.result;
}

/* Its own folder in the context: part of the layer that the images of all kernels share. */
static int copy_userspace(struct making *making, const char *folder, struct error *error)
{
	static const char *const parts[] = { "usr", "opt", "etc" };
	const struct stage *stage = stage_find(making->build, STAGE_USERSPACE, making->id);
	_cleanup_(staging_close) struct staging userspace = { .fd = -1 };
	_cleanup_free_ char *found = NULL;
	int r;

	/* Containerfile.gpu copies it, empty or not. */
	r = staging_open(&userspace, folder, error);
	if (r < 0 || !stage_applies(making->build, stage))
		return r;
	found = set_value(stage, "version", error);
	if (!found)
		return -EIO;
	/* The library refuses to talk to a kernel module of another version. */
	if (strcmp(found, making->version) != 0) {
		(void) error_set(error, -EINVAL,
			"the userspace is from driver %s, the modules are from %s: only one "
			"version works together",
			found, making->version);
		(void) error_try(error, -EINVAL, "--userspace with the installer's folder of %s",
			making->version);
		return error_try(error, -EINVAL, "--nvidia with the modules' source of %s", found);
	}
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		staging_copy_found(&userspace, parts[i], "%s/%s", stage->cached->path, parts[i]);
	return userspace.result < 0
		       ? userspace.result
		       : userspace_record(making->build, folder, &making->image.userspace, error);
}

/* Its own folder, too: in the GPU image it is in that shared layer. */
static int stage_names(const struct making *making, const char *folder, struct error *error)
{
	_cleanup_(staging_close) struct staging staging = { .fd = -1 };
	int r = staging_open(&staging, folder, error);

	if (r < 0)
		return r;
	for (const char *const *name = making->row->names; *name; name++) {
		_cleanup_free_ char *path = xasprintf("usr/bin/%s", *name);

		staging_link(&staging, "slipway-init", path);
	}
	return staging.result;
}

/* ---- the image */

static int check_tags(const struct image *image, struct error *error)
{
	for (size_t i = 0; i <= image->also.count; i++) {
		const char *name = i ? image->also.items[i - 1] : image->reference;
		const char *tag = name ? strrchr(name, ':') : NULL;

		if (tag && strlen(tag + 1) > IMAGE_TAG_LIMIT)
			return error_set(error, -EINVAL,
				"%s image: tag %s is longer than %d characters", image->role,
				tag + 1, IMAGE_TAG_LIMIT);
	}
	return 0;
}

static char *version_with(const char *version, const char *revision)
{
	return revision ? xasprintf("%s-%s", version, revision) : xstrdup(version);
}

/* Describes the image before it is made. */
static int describe(struct making *making, const char *role, struct error *error)
{
	struct image *image = &making->image;
	struct proof_result proof;
	int r = proof_read(making->build, role, &proof, error);

	if (r < 0)
		return r;
	image->role = xstrdup(role);
	making->version = set_value(making->set, "version", error);
	if (!making->version)
		return -EIO;
	image->version = version_with(making->version, making->revision);
	image->proof = xstrdup(proof.verdict);
	image->modules = xstrdup(proof.modules);
	image->loading = xstrdup(proof.loading);
	r = making->row->describe ? making->row->describe(making, error) : 0;
	if (r < 0)
		return r;
	making->row->add_tags(making, image_is_proven(image) ? "" : IMAGE_UNPROVEN);
	return check_tags(image, error);
}

/* An image that --force made keeps what was known of it. */
static void add_labels(const struct making *making, struct strv *labels)
{
	const struct build *build = making->build;
	const struct image *image = &making->image;

	xstrv_pushf(labels, "org.opencontainers.image.version=%s", image->version);
	xstrv_pushf(labels, "org.opencontainers.image.title=slipway %s driver", image->role);
	xstrv_pushf(labels, "io.slipway.krel=%s", build->target.krel);
	xstrv_pushf(labels, "io.slipway.os=%s", build->target.os->os);
	if (build->options.compiler)
		xstrv_pushf(labels, "io.slipway.compiler=%s", build->options.compiler);
	if (making->row->add_labels)
		making->row->add_labels(making, labels);
	if (signing_wanted(build))
		xstrv_pushf(
			labels, "io.slipway.signed-by=%s", module_cert_name(build->signing.cert));
	xstrv_pushf(labels, "io.slipway.proof=%s", image->proof);
	xstrv_pushf(labels, "io.slipway.proof.modules=%s", image->modules);
	xstrv_pushf(labels, "io.slipway.proof.loading=%s", image->loading);
}

static int build_image(struct making *making, const struct stage_place *place, const char *folder,
	struct error *error)
{
	struct build *build = making->build;
	struct image *image = &making->image;
	bool sources = build->options.sources_image;
	/* A kit, where it is to be able to compile. */
	const struct stage *from = sources ? stage_find(build, STAGE_KIT, making->id)
					   : stage_find(build, STAGE_RUNTIME_BASE, 0);
	_cleanup_free_ char *file = xasprintf("runtime/Containerfile.%s", image->role);
	_cleanup_(made_image_free) struct made_image made = {
		.containerfile = file,
		.folder = folder,
		.target = !making->row->has_targets ? NULL
			  : sources                 ? "sources"
						    : "precompiled",
		.has_stages = making->row->links || sources,
		.date = build->context.date,
	};
	_cleanup_free_ char *base = image_name(from, error);
	_cleanup_free_ char *tools = NULL;
	int r;

	if (!base)
		return -EIO;
	if (making->row->links) {
		tools = image_name(stage_find(build, STAGE_TOOLCHAIN, ROOT_RUNTIME), error);
		if (!tools)
			return -EIO;
		xstrv_pushf(&made.arguments, "TOOLS=%s", tools);
		if (build_is_cross(build))
			xstrv_pushf(&made.arguments, "QEMU=qemu-%s", build->target.arch->uname);
	}
	xstrv_pushf(&made.arguments, "BASE=%s", base);
	xstrv_pushf(
		&made.arguments, "KEY=%s", stage_find(build, STAGE_IMAGE, making->id)->cached->key);
	xstrv_pushf(&made.arguments, "VERSION=%s", making->version);
	if (making->row->has_targets && making->revision)
		xstrv_pushf(&made.arguments, "CONTAINER_VERSION=%s", making->revision);
	if (sources)
		xstrv_pushf(&made.labels, "io.slipway.kit=%s", from->cached->key);
	add_labels(making, &made.labels);
	progress_step(&build->context.progress, image->tag);
	r = made_image_build(build, place, &made, &image->id, error);
	if (r < 0)
		return r;
	progress_step(&build->context.progress, "write the OCI archive");
	r = image_archive(build->context.cache.scratch_path, place->folder, image, error);
	return r < 0 ? r : image_write(place->folder, image, error);
}

/* ---- the NIC's */

/* As the network operator's chart has it by default: only the registry differs. */
static void add_nic_tag(struct making *making, const char *end)
{
	const struct build *build = making->build;
	const char *id = build->target.os->id;
	const char *arch = build->target.arch->oci;
	struct image *image = &making->image;
	_cleanup_free_ char *tag =
		build->options.sources_image
			? tag_nic_sources(image->version, id, build->target.os_version, arch)
			: tag_nic(image->version, build->target.krel, id, build->target.os_version,
				  arch);

	if (!tag)
		out_of_memory();
	image_add_tag(image, making->row->repository, tag, end);
}

static int describe_nic(struct making *making, struct error *error)
{
	_cleanup_free_ char *names = set_value(making->set, "inbox_only", error);

	if (!names)
		return -EIO;
	xstrv_split(&making->image.inbox_only, names, " ");
	return 0;
}

/* ---- the GPU's */

/*
 * Adds the tags that the GPU operator's chart has by default: two, if operators older than 26.7
 * compose another one.
 */
static void add_gpu_tags(struct making *making, const char *end)
{
	const struct build *build = making->build;
	struct image *image = &making->image;
	_cleanup_strv_ struct strv os_tags = { 0 };

	image_os_tags(build->target.os->id, build->target.os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag =
			build->options.sources_image
				? tag_gpu_sources(image->version, os_tags.items[i])
				: tag_gpu(image->version, build->target.krel, os_tags.items[i]);

		if (!tag)
			out_of_memory();
		image_add_tag(image, making->row->repository, tag, end);
	}
}

/* Sets the OFED that nvidia-peermem was bound to: images of two OFEDs share a tag. */
static int describe_gpu(struct making *making, struct error *error)
{
	_cleanup_free_ char *has = set_value(making->set, "peermem", error);
	_cleanup_free_ char *ofed = set_value(making->set, "ofed_version", error);

	if (!has || !ofed)
		return -EIO;
	making->image.peermem = xstrdup(!*has   ? IMAGE_NO_PEERMEM
					: *ofed ? ofed
						: IMAGE_KERNELS_PEERMEM);
	return 0;
}

/* For slipway combine: the operator asks for them by names of their own. */
static int add_addons(const struct making *making, struct image_conf *conf, struct error *error)
{
	_cleanup_strv_ struct strv addons = { 0 };
	_cleanup_free_ char *text = NULL;

	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct stage *set = stage_find(making->build, STAGE_SIGNED, driver);
		_cleanup_free_ char *version = NULL;

		if (!is_beside(making, driver))
			continue;
		version = set_value(set, "version", error);
		if (!version)
			return -EIO;
		xstrv_pushf(&addons, "%s:%s", driver_name(driver), version);
	}
	text = xstrv_join(&addons, " ");
	image_conf_set(conf->addons, text);
	return 0;
}

static int add_gpu_conf(struct making *making, struct image_conf *conf, struct error *error)
{
	_cleanup_free_ char *chips = NULL, *exporter = NULL, *version = NULL;
	_cleanup_free_ char *type = set_value(making->set, "kernel_module_type", error);
	int r;

	if (!type)
		return -EIO;
	image_conf_set(conf->kernel_module_type, type);
	r = add_addons(making, conf, error);
	if (r < 0)
		return r;
	r = userspace_chips(making->build, &chips, error);
	if (r < 0)
		return r;
	image_conf_set(conf->chips, chips);
	if (!making->other)
		return 0;
	/* Record what it was bound to, so that the init can explain why peermem does not fit. */
	exporter = set_value(making->other, "exporter", error);
	version = set_value(making->other, "version", error);
	if (!exporter || !version)
		return -EIO;
	image_conf_set(conf->ofed_exporter, exporter);
	image_conf_set(conf->ofed_version, version);
	return 0;
}

static void add_gpu_labels(const struct making *making, struct strv *labels)
{
	const struct image *image = &making->image;
	struct error ignored;
	_cleanup_free_ char *fixes = set_value(making->set, "fixes", &ignored);

	xstrv_pushf(labels, IMAGE_LABEL_PEERMEM "=%s", image->peermem);
	xstrv_pushf(labels, IMAGE_LABEL_USERSPACE "=%s",
		image_userspace(image, "version", IMAGE_NO_USERSPACE));
	xstrv_pushf(labels, IMAGE_LABEL_USERSPACE_ID "=%s", image_userspace(image, "id", ""));
	xstrv_pushf(labels, "io.slipway.fixes=%s", fixes ? fixes : "");
}

/* ---- the stage */

static const char *const nic_names[] = { "nic-driver", "ibdev2netdev", "show_gids", "mlnx_qos",
	"cma_roce_mode", "cma_roce_tos", NULL };
static const char *const gpu_names[] = { "nvidia-driver", "nvidia-gds-driver",
	"nvidia-gdrcopy-driver", "ocp_dtk_entrypoint", NULL };

static const struct image_row image_rows[IMAGE_COUNT] = {
	[IMAGE_NIC] = { .driver = DRIVER_OFED,
		.repository = IMAGE_NIC_REPOSITORY,
		.names = nic_names,
		.has_targets = true,
		.add_tags = add_nic_tag,
		.describe = describe_nic,
	},
	[IMAGE_GPU] = { .driver = DRIVER_NVIDIA,
		.repository = IMAGE_GPU_REPOSITORY,
		.names = gpu_names,
		.links = true,
		.add_tags = add_gpu_tags,
		.describe = describe_gpu,
		.add_conf = add_gpu_conf,
		.add_labels = add_gpu_labels,
	},
};

enum driver image_driver(int image)
{
	return image_rows[image].driver;
}

void image_foresee(struct build *build, int image, struct image *ret)
{
	const struct image_row *row = &image_rows[image];
	const struct driver_row *driver = &driver_rows[row->driver];
	_cleanup_free_ char *version = driver->version ? driver->version(build) : NULL;
	struct making making = { .build = build, .row = row };

	if (version) {
		making.image.version = version_with(version, build->options.revision);
		row->add_tags(&making, "");
	}
	*ret = making.image;
}

bool image_applies(const struct build *build, const struct stage *stage)
{
	return build_has(build, image_driver(stage->of));
}

int image_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct image_row *row = &image_rows[stage->of];
	enum driver bound_to = driver_rows[row->driver].bound_to;
	_cleanup_(making_free) struct making making = {
		.build = build,
		.row = row,
		.id = (enum image_id) stage->of,
		.set = stage_find(build, STAGE_SIGNED, row->driver),
		.other = bound_to != DRIVER_COUNT && build_has(build, bound_to)
				 ? stage_find(build, STAGE_SIGNED, bound_to)
				 : NULL,
		.revision = build->options.revision,
		.root = { .fd = -1 },
	};
	_cleanup_free_ char *context = NULL;
	_cleanup_free_ char *rootfs = NULL;
	_cleanup_free_ char *userspace = NULL;
	_cleanup_free_ char *names = NULL;
	int r = cache_new_folder(&build->context.cache, "context", &context);

	if (r < 0)
		return error_set_errno(error, r, "%s image", stage->name);
	rootfs = xasprintf("%s/rootfs", context);
	userspace = xasprintf("%s/userspace", context);
	names = xasprintf("%s/names", context);
	r = describe(&making, stage->name, error);
	if (r == 0)
		r = staging_open(&making.root, rootfs, error);
	if (r == 0)
		r = stage_names(&making, names, error);
	if (r == 0)
		r = copy_userspace(&making, userspace, error);
	if (r == 0)
		r = make_root(&making, error);
	return r < 0 ? r : build_image(&making, place, context, error);
}

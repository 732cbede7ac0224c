/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "cli/limits.h"
#include "cli/stage/stage_internal.h"
#include "common/json_text.h"
#include "common/text.h"
#include "common/xalloc.h"

/* Lint would find the same in the kernel's tree: here it is not fetched yet. */
static int check_arch(const struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	const struct arch *arch = arch_find(build->context.arch);
	const struct catalogue *os = &build->roots[ROOT_KERNEL].os;

	/* There are no drivers for others. */
	if (arch && !*arch->redist)
		return error_set(error, -EINVAL,
			"images are built for nodes of x86_64 and aarch64, not of %s", arch->uname);
	if (!arch || arch == arch_here() || options->force || options->base_image ||
		os->root.cross_packages.count)
		return 0;
	(void) error_set(error, -ECANCELED,
		"kernel-foreign-arch: the kernel is for %s, this machine is %s, and the catalogue "
		"of %s names no cross compiler",
		arch->uname, arch_here()->uname, os->os);
	(void) error_try(error, -ECANCELED,
		"a build root that has one of the kernel's version: --root debian12");
	return error_try(error, -ECANCELED, "the same command on a machine with architecture %s",
		arch->uname);
}

int build_prepare(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r = nvidia_modules_parse(options->kernel_module_type, &build->modules, error);

	plan_open(build, stage_rows, driver_rows);
	if (r < 0)
		return context_fail(&build->context, EXIT_CODE_USAGE, r);
	kernel_foresee_arch(&build->context, options->krel, options->lock);
	r = sources_identify(build, error);
	if (r == 0)
		r = userspace_open(build, error);
	if (r == 0)
		r = redist_open(build, error);
	if (r < 0)
		return context_fail(&build->context, EXIT_CODE_SOURCE, r);
	r = signing_check_import(build, error);
	if (r < 0)
		return context_fail(&build->context, EXIT_CODE_SIGNATURE, r);
	build->kernel.context = &build->context;
	build->kernel.request = (struct kernel_request){
		.krel = options->krel,
		.lock = options->lock,
		.bundle = options->bundle,
		.compiler = options->compiler,
		.files = options->kernel_from,
		.for_images = true,
		.ofed_package = build->sources[DRIVER_OFED].form == SOURCE_PACKAGE,
		.nvidia_package = build->sources[DRIVER_NVIDIA].form == SOURCE_PACKAGE,
		.nvidia_modules = build->modules,
	};
	r = kernel_find(&build->kernel, error);
	if (r < 0)
		return r;
	r = roots_open(build, error);
	if (r < 0)
		return context_fail(&build->context, context_exit_code(r), r);
	r = check_arch(build, error);
	if (r == -EINVAL)
		return context_fail(&build->context, EXIT_CODE_USAGE, r);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_LINT, r) : 0;
}

/* Notes the findings of lint: an error of them ends the build, unless --force. */
static int judge(struct build *build, struct error *error)
{
	const struct kernel_purpose purpose = {
		.ofed = build_has(build, DRIVER_OFED),
		.nvidia = build_has(build, DRIVER_NVIDIA),
		.signing = signing_wanted(build),
		.cross = build->roots[ROOT_KERNEL].os.root.cross_packages.count > 0,
	};
	_cleanup_(lint_free) struct lint lint = { 0 };
	_cleanup_strv_ struct strv ids = { 0 };
	int r = kernel_lint(&build->kernel, &purpose, &lint, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < lint.count; i++) {
		const struct lint_finding *finding = &lint.findings[i];
		bool ends = finding->severity == LINT_ERROR && !build->options.force;

		/* For findings that end the build, the cure follows below the final message. */
		if (finding->severity != LINT_NOTE)
			progress_notef(&build->context.progress, "%s %s: %s%s%s",
				lint_severity_text(finding->severity), finding->id, finding->reason,
				ends ? "" : "; ", ends ? "" : finding->fix);
		if (ends)
			xstrv_push(&ids, finding->id);
	}
	if (ids.count) {
		_cleanup_free_ char *text = xstrv_join(&ids, ", ");

		(void) error_set(error, -ECANCELED, "slipway lint found problems: %s", text);
		for (size_t i = 0; i < lint.count; i++)
			if (lint.findings[i].severity == LINT_ERROR)
				(void) error_try(error, -ECANCELED, "%s", lint.findings[i].fix);
		(void) error_try(error, -ECANCELED, "--force builds in spite of that");
		return context_fail(&build->context, EXIT_CODE_LINT, -ECANCELED);
	}
	kernel_override_compiler(&build->kernel);
	return 0;
}

int build_check_modules(struct build *build, struct error *error)
{
	const struct lock *lock = &build->kernel.lock;

	if (build->kernel.local.has_modules || lock_find(lock, LOCK_MODULES))
		return 0;
	build->context.failure = EXIT_CODE_KERNEL;
	if (build->kernel.local.has_headers)
		(void) error_set(error, -ENODATA,
			"kernel %s: the kernel's own modules, which drivers depend on, are neither "
			"in the files of --kernel-from nor in the lists of %s",
			lock->krel, lock->os);
	else
		(void) error_set(error, -ENODATA,
			"kernel %s: the lists of %s have its headers but not its modules",
			lock->krel, lock->os);
	(void) error_try(error, -ENODATA,
		"another --kernel-from with its package (linux-image-%s; kernel-core and "
		"kernel-modules-core; kernel on Enterprise Linux 7) or the folder made by make "
		"modules_install",
		lock->krel);
	if (build->kernel.local.has_headers)
		return -ENODATA;
	return error_try(error, -ENODATA,
		"--refresh later: the mirror may not have all packages "
		"yet");
}

/* All that images are made of, so that it is made beside what compiles; and whether they are made.
 */
#define BEFORE_IMAGES                                                                              \
	(STAGE_BIT(STAGE_PROOF) | STAGE_BIT(STAGE_INIT) | STAGE_BIT(STAGE_RUNTIME_BASE) |          \
		STAGE_BIT(STAGE_KIT))

/* The first half of a build whose key is elsewhere: no image is made. */
static int run_export(struct build *build, struct error *error)
{
	const char *folder = build->options.sign_export;
	size_t count;
	int r = stages_make(build, STAGE_BIT(STAGE_SET), NULL, error);

	if (r < 0)
		return r;
	r = sign_export_sets(build, &count, error);
	if (r < 0)
		return context_fail(&build->context, EXIT_CODE_OUTPUT, r);
	if (build->context.progress.json) {
		(void) printf("{\"event\":\"result\",\"exit_code\":0,\"modules\":%zu,\"digests\":",
			count);
		json_text_string(stdout, folder);
		(void) puts("}");
	} else {
		text_print(stdout,
			"The digests of %zu module%s are in %s: put the signatures into %s/%s, then "
			"run the same command with --sign-import %s instead of --sign-export\n",
			count, count == 1 ? "" : "s", folder, folder, SIGNING_SIGNATURES, folder);
	}
	return 0;
}

void build_settle_jobs(struct build *build)
{
	_cleanup_close_ int root_fd = -1;
	struct build_limits limits;

	if (build->options.jobs)
		return;
	root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	build_limits_find(root_fd, 0, 0, &limits);
	build->options.jobs = limits.jobs;
	if (limits.jobs < limits.processors)
		progress_notef(&build->context.progress, "%u compile job%s at once: %s",
			limits.jobs, limits.jobs == 1 ? "" : "s", limits.why);
}

/* Does VERSION_ID of a node belong to this distribution's release? */
static bool is_of_release(const struct catalogue *os, const char *version)
{
	size_t length = strlen(os->version_id);

	return strspn(version, "0123456789.") == strlen(version) &&
	       strncmp(version, os->version_id, length) == 0 &&
	       (length == 0 || !version[length] || version[length] == '.');
}

/* Nodes keep a pinned or EUS kernel when their distribution goes on to another minor release. */
static void note_minor_release(struct build *build, const char *stated)
{
	const struct catalogue *os = build->target.os;
	struct progress *progress = &build->context.progress;
	const char *krel = build->target.krel;
	_cleanup_free_ char *of_kernel =
		stated ? catalogue_other_release(os, krel, stated) : catalogue_release(os, krel);

	if (of_kernel && stated)
		progress_notef(progress,
			"the tags are for nodes with VERSION_ID %s; the kernel, of %s, is a pinned "
			"or EUS one",
			stated, of_kernel);
	else if (of_kernel && strcmp(of_kernel, build->os_version) == 0)
		progress_notef(progress,
			"tags with a minor release have that of the kernel, %s; for nodes that keep "
			"this kernel on a newer one (pinned, EUS): --os-version with their VERSION_ID",
			of_kernel);
}

/*
 * VERSION_ID of the nodes, which the operators put into the tags: --os-version, else what a probe
 * of the node has read, else what the kernel's release tells.
 */
static int settle_os_version(struct build *build, struct error *error)
{
	const struct catalogue *os = build->target.os;
	const struct local_kernel *local = &build->kernel.local;
	const char *stated = build->options.os_version;
	const char *krel = build->target.krel;

	if (stated && !is_of_release(os, stated))
		return error_set(error, -EINVAL,
			"--os-version %s: on nodes of %s, VERSION_ID in /etc/os-release is %s or "
			"begins with %s and a dot",
			stated, os->name, os->version_id, os->version_id);
	if (!stated && local->os && local->os_version && strcmp(local->os, os->id) == 0 &&
		is_of_release(os, local->os_version))
		stated = local->os_version;
	build->os_version = stated ? xstrdup(stated) : catalogue_node_version(os, krel);
	build->target.os_version = build->os_version;
	if (build->os_version) {
		note_minor_release(build, stated);
		return 0;
	}
	(void) error_set(error, -EINVAL,
		"--os-version is missing: the image tags contain the %s of the "
		"distribution, and the name of kernel %s does not tell which one of %s it is",
		catalogue_has_snapshots(os) ? "snapshot's date" : "minor release", krel, os->name);
	return error_try(error, -EINVAL,
		"--os-version with the VERSION_ID from the node's /etc/os-release%s",
		catalogue_has_snapshots(os) ? ", such as 20251120" : "");
}

int build_set_target(struct build *build, struct error *error)
{
	const struct lock *lock = &build->kernel.lock;

	build->target = (struct target){
		.os = &build->context.os,
		.arch = arch_find(lock->arch),
		.krel = lock->krel,
	};
	if (build->target.arch)
		return 0;
	(void) error_set(
		error, -EINVAL, "kernel %s: unknown architecture %s", lock->krel, lock->arch);
	(void) error_try(error, -EINVAL, "make a new lock: slipway resolve KREL -o FILE");
	return context_fail(&build->context, EXIT_CODE_USAGE, -EINVAL);
}

bool build_is_cross(const struct build *build)
{
	return build->target.arch && build->target.arch != arch_here();
}

/* Compiles, and makes the images and their records. */
static int make_images(struct build *build, struct error *error)
{
	int r = stages_make(build, BEFORE_IMAGES, NULL, error);

	if (r == 0)
		r = proof_judge(build, error);
	if (r < 0)
		return r;
	r = stages_make(build, STAGE_BIT(STAGE_IMAGE), NULL, error);
	if (r < 0)
		return r;
	roots_lock(build);
	return output_write(build, error);
}

int build_run(struct build *build, struct error *error)
{
	struct progress *progress = &build->context.progress;
	int r;

	build_settle_jobs(build);
	if (!build_has(build, DRIVER_OFED))
		progress_note(progress,
			"no --ofed: no NIC image will be built, and the GPU image will have no "
			"nvidia-peermem");
	if (!build_has(build, DRIVER_NVIDIA))
		progress_note(progress, "--nvidia none: no GPU image will be built");
	r = build_preflight(
		build, STAGE_BIT(build->options.sign_export ? STAGE_SET : STAGE_IMAGE), error);
	if (r == 0)
		r = roots_find(build, error);
	if (r == 0)
		r = kernel_lock(&build->kernel, error);
	if (r == 0)
		r = build_set_target(build, error);
	if (r < 0)
		return r;
	r = settle_os_version(build, error);
	if (r < 0)
		return context_fail(&build->context, EXIT_CODE_USAGE, r);
	r = roots_keys(build, error);
	if (r == 0)
		r = source_look(build, error);
	if (r == 0)
		r = userspace_check(build, error);
	if (r == 0)
		r = redist_check(build, error);
	if (r == 0)
		nvidia_note(build);
	if (r == 0)
		r = kernel_open_tree(&build->kernel, error);
	if (r == 0)
		r = signing_settle(build, error);
	if (r == 0)
		r = judge(build, error);
	if (r == 0)
		r = build_check_modules(build, error);
	if (r == 0 && !build->options.sign_export)
		r = userspace_require(build, error);
	if (r == 0)
		r = roots_settle(build, error);
	if (r < 0)
		return r;
	if (build->options.sign_export)
		return build->options.dry_run ? dry_run(build, STAGE_BIT(STAGE_SET), error)
					      : run_export(build, error);
	r = node_tool_open(build, error);
	if (r < 0)
		return context_fail(&build->context, context_exit_code(r), r);
	if (build->options.dry_run)
		return dry_run(build, STAGE_BIT(STAGE_IMAGE), error);
	r = output_look(build, error);
	return r < 0 || build->options.only_look ? r : make_images(build, error);
}

void build_done(struct build *build)
{
	signing_free(&build->signing);
	kernel_free(&build->kernel);
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		free(build->sources[driver].path);
		free(build->sources[driver].version);
	}
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		free(build->redist[i].path);
		free(build->redist[i].version);
	}
	free(build->userspace);
	free(build->userspace_version);
	free(build->os_version);
	for (enum root_id id = 0; id < ROOT_COUNT; id++)
		root_close(&build->roots[id]);
	plan_close(&build->plan);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* All that can be wrong with what was asked comes out here, before anything is fetched or made. */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/stage/userspace.h"
#include "cli/bundle/bundle.h"
#include "kernels/krel.h"
#include "kernels/resolve/resolve_kernel.h"

static int fail(struct build *build, enum exit_code code, int r)
{
	build->failure = exit_code_for(r, code);
	return r;
}

static bool is_newest(const struct build *build)
{
	return build->options.krel && strcmp(build->options.krel, KREL_NEWEST) == 0;
}

/* A lock, or files of the user's, say which kernel they are for: then --kernel only confirms it. */
static int agree_on_krel(
	struct build *build, const char *option, const char *krel, struct error *error)
{
	if (build->options.krel && !is_newest(build) && strcmp(build->options.krel, krel) != 0)
		return error_set(error, -EINVAL, "%s is for kernel %s, --kernel says %s", option,
			krel, build->options.krel);
	build->options.krel = krel;
	return 0;
}

/* --os may be a code name, and a lock has the distribution's name. */
static int agree_on_os(struct build *build, const char *option, struct error *error)
{
	const char *os = build->options.common.os;
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	int r;

	if (!os || strcmp(os, build->lock.os) == 0)
		return 0;
	r = catalogue_open(build->context.catalogues, os, &catalogue, error);
	if (r < 0)
		return r;
	return strcmp(catalogue.os, build->lock.os) == 0
		       ? 0
		       : error_set(error, -EINVAL, "%s is for %s, --os says %s", option,
				 build->lock.os, os);
}

static int read_lock(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r;

	if (!options->lock)
		return 0;
	r = lock_read_file(AT_FDCWD, options->lock, &build->lock, error);
	if (r < 0)
		return fail(build, r == -EBADMSG ? EXIT_CODE_CONTENT : EXIT_CODE_USAGE, r);
	r = agree_on_krel(build, options->lock, build->lock.krel, error);
	if (r == 0)
		r = agree_on_os(build, options->lock, error);
	if (r == 0 && strcmp(build->context.arch, build->lock.arch) != 0) {
		if (options->common.arch)
			r = error_set(error, -EINVAL, "%s is for %s, --arch says %s", options->lock,
				build->lock.arch, options->common.arch);
		else
			build->context.arch = build->lock.arch;
	}
	return r < 0 ? fail(build, EXIT_CODE_USAGE, r) : 0;
}

static int open_local(struct build *build, struct error *error)
{
	struct build_options *options = &build->options;
	_cleanup_free_ char *lacks = NULL;
	int r;

	if (!options->kernel_from.count)
		return 0;
	r = local_open(&options->kernel_from, is_newest(build) ? NULL : options->krel,
		&build->local, error);
	if (r == 0)
		r = agree_on_krel(build, "--kernel-from", build->local.krel, error);
	if (r < 0)
		return fail(build, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_USAGE, r);
	lacks = local_lacks(&build->local);
	if (lacks)
		progress_note(&build->context.progress, lacks);
	return 0;
}

/* A node of another name than its kernel's: the operators will ask for a tag of that name. */
static void tell_other_os(struct build *build)
{
	const struct catalogue *os = &build->context.os;
	const char *version = build->local.os_version ? build->local.os_version : "";
	struct error text;

	if (!build->local.os ||
		(strcmp(build->local.os, os->id) == 0 &&
			strncmp(version, os->version_id, strlen(os->version_id)) == 0))
		return;
	(void) error_set(&text, 0,
		"the node's os-release says %.64s%s%.32s, and its images are made as %s's: the "
		"operators will ask for a tag that ends with %.64s%.32s, this one's ends with %s%s. A "
		"catalogue file of its own gives it the right one (docs/catalogue.md, A derivative of "
		"Debian)",
		build->local.os, *version ? " " : "", version, os->name, build->local.os, version,
		os->id, os->version_id);
	progress_note(&build->context.progress, text.text);
}

/*
 * The distribution: --os, what the lock says, what lies in the user's own kernel, or what the
 * release tells. The newest of all is of the one whose images there were first.
 */
static int choose_os(struct build *build, struct error *error)
{
	struct context *context = &build->context;
	_cleanup_free_ char *found = NULL;
	const char *os = build->lock.os;
	int r = 0;

	if (!os && build->local.os) {
		r = context_find_os(
			context, build->local.os, build->local.os_version, &found, error);
		os = found;
	}
	if (!os && is_newest(build))
		os = CONTEXT_DEFAULT_OS;
	if (r == 0)
		r = context_choose_os(context, os, build->options.krel, error);
	if (r == -ENODATA && build->local.count)
		return fail(build, EXIT_CODE_USAGE,
			error_prefix(error, -EINVAL,
				"--os is missing: nothing in --kernel-from tells whose images are "
				"wanted"));
	if (r < 0)
		return fail(build, context_exit_code(r), r);
	if (!build->tree_only && !*context->os.image.containers)
		return fail(build, EXIT_CODE_USAGE,
			error_set(error, -EINVAL,
				"%s: its kernels are found (slipway resolve), but there are no base "
				"images of it yet: its catalogue names no containers",
				context->os.os));
	if (!build->tree_only)
		tell_other_os(build);
	return 0;
}

static int check_compiler(struct build *build, struct error *error)
{
	const char *compiler = build->options.compiler;
	_cleanup_free_ char *name = compiler ? resolve_compiler_name(compiler) : NULL;

	if (!compiler || (name && strcmp(name, compiler) == 0))
		return 0;
	return fail(build, EXIT_CODE_USAGE,
		error_set(error, -EINVAL,
			"--compiler %s: a package such as gcc-12 or clang-16 is wanted", compiler));
}

static int identify_sources(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r = 0;

	if (options->ofed)
		r = source_identify("--ofed", options->ofed, "reference", &build->ofed, error);
	if (r == 0 && strcmp(options->nvidia, "none") != 0)
		r = source_identify("--nvidia", options->nvidia, "debian", &build->nvidia, error);
	if (r == 0 && options->userspace)
		r = userspace_open(
			options->userspace, &build->userspace, &build->userspace_version, error);
	if (r == 0 && options->gdrcopy)
		r = source_identify("--gdrcopy", options->gdrcopy, NULL, &build->gdrcopy, error);
	if (r == 0 && options->nvidia_fs)
		r = source_identify(
			"--nvidia-fs", options->nvidia_fs, NULL, &build->nvidia_fs, error);
	if (r == 0 && build->gdrcopy.kind == SOURCE_TREE)
		r = source_check_gdrcopy(build->gdrcopy.path, error);
	if (r == 0 && build->nvidia_fs.kind == SOURCE_TREE)
		r = source_check_nvidia_fs(build->nvidia_fs.path, error);
	if (r == 0 && build->ofed.kind == SOURCE_TREE)
		r = source_check_ofed(build->ofed.path, error);
	if (r == 0 && build->nvidia.kind == SOURCE_TREE)
		r = source_check_nvidia(build->nvidia.path, error);
	return r < 0 ? fail(build, EXIT_CODE_SOURCE, r) : 0;
}

static int import_bundle(struct build *build, struct error *error)
{
	int r = bundle_import(build, error);

	if (r < 0)
		return fail(build, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_CONTENT, r);
	r = build_options_check_gpu(&build->options, error);
	return r < 0 ? fail(build, EXIT_CODE_USAGE, r) : 0;
}

int build_prepare(struct build *build, struct error *error)
{
	int r = check_compiler(build, error);

	if (r == 0 && build->options.bundle)
		r = import_bundle(build, error);
	if (r == 0)
		r = identify_sources(build, error);
	if (r == 0)
		r = read_lock(build, error);
	if (r == 0)
		r = open_local(build, error);
	return r < 0 ? r : choose_os(build, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the kernel, its distribution and its lock, all before anything is fetched. */
#include "cli/kernel/kernel.h"

#include <fcntl.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

void kernel_free(struct kernel *kernel)
{
	kconfig_free(&kernel->node.config);
	kernel_record_free(&kernel->node.record);
	local_free(&kernel->local);
	lock_free(&kernel->lock);
	strv_free(&kernel->compilers);
	kernel_record_free(&kernel->record);
	cached_free(&kernel->tree);
	cached_free(&kernel->modules);
}

int kernel_check_compiler(struct context *context, const char *compiler, struct error *error)
{
	_cleanup_free_ char *name = compiler ? resolve_compiler_name(compiler) : NULL;

	if (!compiler || (name && strcmp(name, compiler) == 0))
		return 0;
	return context_fail(context, EXIT_CODE_USAGE,
		error_set(error, -EINVAL, "--compiler %s: not a package such as gcc-12 or clang-16",
			compiler));
}

static bool is_newest(const struct kernel *kernel)
{
	return kernel->request.krel && strcmp(kernel->request.krel, KREL_NEWEST) == 0;
}

/* A lock, or files of the user's, say which kernel they are for: then --kernel only confirms it. */
static int agree_on_krel(
	struct kernel *kernel, const char *option, const char *krel, struct error *error)
{
	struct kernel_request *request = &kernel->request;

	if (request->krel && !is_newest(kernel) && strcmp(request->krel, krel) != 0)
		return error_set(error, -EINVAL, "%s is for kernel %s, but --kernel is %s", option,
			krel, request->krel);
	request->krel = krel;
	return 0;
}

/* --os may be a code name, and a lock has the distribution's name. */
static int agree_on_lock(struct kernel *kernel, struct error *error)
{
	const char *path = kernel->request.lock;
	const struct lock *lock = &kernel->lock;
	struct context *context = kernel->context;
	const char *os = context->options->os;
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	int r = agree_on_krel(kernel, path, lock->krel, error);

	if (r == 0 && os && strcmp(os, lock->os) != 0) {
		r = catalogue_open(context->catalogues, os, &catalogue, error);
		if (r == 0 && strcmp(catalogue.os, lock->os) != 0)
			r = error_set(
				error, -EINVAL, "%s is for %s, but --os is %s", path, lock->os, os);
	}
	if (r < 0 || strcmp(context->arch, lock->arch) == 0)
		return r;
	if (context->options->arch)
		return error_set(error, -EINVAL, "%s is for %s, but --arch is %s", path, lock->arch,
			context->options->arch);
	context->arch = lock->arch;
	return 0;
}

/* A node of another name than its kernel's: the operators will ask for a tag of that name. */
static void note_other_os(const struct kernel *kernel)
{
	const struct catalogue *os = &kernel->context->os;
	const char *id = kernel->local.os;
	const char *version = kernel->local.os_version ? kernel->local.os_version : "";

	if (!id || (strcmp(id, os->id) == 0 &&
			   strncmp(version, os->version_id, strlen(os->version_id)) == 0))
		return;
	progress_notef(&kernel->context->progress,
		"the node's os-release says %.64s%s%.32s, but its images are made as for %s: the "
		"operators will ask for a tag that ends with %.64s%.32s, and this one ends with "
		"%s%s. A catalogue file of its own fixes the tag (slipway-catalogue(5), A "
		"derivative of Debian)",
		id, *version ? " " : "", version, os->name, id, version, os->id, os->version_id);
}

/* Has a list to be asked for something that the files have not got? */
static bool needs_lists(const struct kernel *kernel)
{
	return !kernel->local.has_headers ||
	       !(kernel->local.has_modules || kernel->request.no_modules);
}

/*
 * The distribution: --os, that of the lock, of the user's own kernel, or of the
 * release. The newest of all is of the one whose images there were first.
 */
static int choose_os(struct kernel *kernel, struct error *error)
{
	struct context *context = kernel->context;
	_cleanup_free_ char *found = NULL;
	const char *os = kernel->lock.os;
	int r = 0;

	if (!os && kernel->local.os) {
		r = context_find_os(
			context, kernel->local.os, kernel->local.os_version, &found, error);
		os = found;
	}
	if (!os && is_newest(kernel))
		os = CONTEXT_DEFAULT_OS;
	if (r == 0)
		r = context_choose_os(context, os, kernel->request.krel, error);
	if ((r == -ENODATA || r == -ENOTUNIQ) && kernel->request.no_os && !needs_lists(kernel))
		return 0;
	if (r == -ENODATA && kernel->local.count) {
		(void) error_set(error, -EINVAL,
			"%s: the distribution of kernel %s is unknown: the files do not name it, "
			"and no distribution in the catalogue uses such names",
			kernel_files_option(kernel), kernel->local.krel);
		(void) error_try(error, -EINVAL, "name the distribution: --os");
		if (kernel->request.no_os)
			(void) error_try(error, -EINVAL,
				"give the kernel's headers too; then it need not be known");
		return context_fail(context, EXIT_CODE_USAGE, -EINVAL);
	}
	if (r < 0)
		return context_fail(context, context_exit_code(r), r);
	if (!kernel->request.for_images)
		return 0;
	if (!*context->os.root.family)
		return context_fail(context, EXIT_CODE_USAGE,
			error_set(error, -EINVAL,
				"%s: slipway resolve can find its kernels, but no images can be "
				"built for them: its catalogue file describes no build root "
				"([root])",
				context->os.os));
	note_other_os(kernel);
	return 0;
}

void kernel_foresee_arch(struct context *context, const char *krel, const char *lock)
{
	struct lock found = { 0 };
	struct error ignored; /* kernel_find() reads it again, and says what is wrong */
	const struct arch *arch = NULL;

	if (context->options->arch)
		return;
	if (lock && lock_read_file(AT_FDCWD, lock, &found, &ignored) == 0)
		arch = arch_find(found.arch);
	lock_free(&found);
	if (arch)
		context->arch = arch->uname;
	else if (krel && krel_arch(krel))
		context->arch = krel_arch(krel);
}

int kernel_find(struct kernel *kernel, struct error *error)
{
	const struct kernel_request *request = &kernel->request;
	struct context *context = kernel->context;
	_cleanup_free_ char *lacks = NULL;
	int r = kernel_check_compiler(context, request->compiler, error);

	if (r < 0)
		return r;
	if (request->lock) {
		r = lock_read_file(AT_FDCWD, request->lock, &kernel->lock, error);
		if (r < 0)
			return context_fail(
				context, r == -EBADMSG ? EXIT_CODE_CONTENT : EXIT_CODE_USAGE, r);
		r = agree_on_lock(kernel, error);
		if (r < 0)
			return context_fail(context, EXIT_CODE_USAGE, r);
	}
	if (!request->files.count)
		return choose_os(kernel, error);
	r = local_open(
		&request->files, is_newest(kernel) ? NULL : request->krel, &kernel->local, error);
	if (r < 0)
		(void) error_prefix(error, r, "%s", kernel_files_option(kernel));
	else
		r = agree_on_krel(kernel, kernel_files_option(kernel), kernel->local.krel, error);
	if (r < 0)
		return context_fail(context, r == -ENODATA ? EXIT_CODE_KERNEL : EXIT_CODE_USAGE, r);
	r = kernel_read_node(kernel, error);
	if (r < 0)
		return context_fail(context, EXIT_CODE_CONTENT, r);
	lacks = local_lacks(&kernel->local);
	if (lacks && !(request->no_modules && kernel->local.has_headers))
		progress_note(&context->progress, lacks);
	return choose_os(kernel, error);
}

/*
 * Reads the package list of the userspace: packages of the same driver version, "?NAME" for one
 * that need not exist, "+NAME" for one of any version.
 */
static int read_userspace(const char *data, struct strv *names, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/containers/recipes/userspace.packages", data);
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	xstrv_split(names, text, "\n");
	for (size_t i = names->count; i-- > 0;)
		if (names->items[i][0] == '#')
			strv_remove(names, i);
	return 0;
}

int nvidia_modules_parse(const char *text, enum nvidia_modules *ret, struct error *error)
{
	*ret = !text ? NVIDIA_NONE : strcmp(text, "open") == 0 ? NVIDIA_OPEN : NVIDIA_PROPRIETARY;
	if (*ret != NVIDIA_PROPRIETARY || strcmp(text, "proprietary") == 0)
		return 0;
	(void) error_set(
		error, -EINVAL, "--kernel-module-type %s: must be open or proprietary", text);
	return error_try(
		error, -EINVAL, "slipway combine makes one image with both kinds of modules");
}

int extras_list(const char *data, const struct catalogue *os, bool ofed, bool nvidia,
	enum nvidia_modules modules, struct extras *ret, struct error *error)
{
	const char *package = modules == NVIDIA_PROPRIETARY ? os->image.nvidia_proprietary_package
							    : os->image.nvidia_package;
	struct resolve_extra *extra;

	*ret = (struct extras){ 0 };
	if (ofed && !*os->image.linux_source_package) {
		(void) error_set(error, -EINVAL,
			"--ofed reference is made of the distribution's kernel source, and the "
			"catalogue of %s names no package of it: Debian's and Ubuntu's do",
			os->os);
		return error_try(error, -EINVAL,
			"--ofed with NVIDIA's sources: MLNX_OFED_SRC-….tgz, or DOCA's "
			"mlnx-ofed-kernel, as a tarball or a tree");
	}
	if (nvidia && !*package) {
		(void) error_set(error, -EINVAL,
			"--nvidia debian: the catalogue of %s names no package of NVIDIA's %s "
			"modules",
			os->os, modules == NVIDIA_PROPRIETARY ? "proprietary" : "open");
		return error_try(
			error, -EINVAL, "give --nvidia an installer, a source tree or a tarball");
	}
	if (nvidia) {
		int r = read_userspace(data, &ret->names, error);

		if (r < 0)
			return r;
	}
	extra = ret->items = xcalloc(ret->names.count + 2, sizeof(*ret->items));
	if (ofed)
		*extra++ = (struct resolve_extra){ .name = os->image.linux_source_package,
			.purpose = LOCK_OFED_SOURCE,
			.beside_kernel = true };
	if (nvidia)
		*extra++ = (struct resolve_extra){ .name = package, .purpose = LOCK_NVIDIA_SOURCE };
	for (size_t i = 0; i < ret->names.count; i++) {
		const char mark = ret->names.items[i][0];
		bool optional = mark == '?' || mark == '+';

		*extra++ = (struct resolve_extra){
			.name = ret->names.items[i] + optional,
			.purpose = LOCK_NVIDIA_USERSPACE,
			.same_upstream_as = mark == '+' ? NULL : package,
			.optional = optional,
		};
	}
	ret->count = (size_t) (extra - ret->items);
	return 0;
}

void extras_free(struct extras *extras)
{
	free(extras->items);
	strv_free(&extras->names);
	*extras = (struct extras){ 0 };
}

/* The user must supply what the lists lack: says what to give, and where it usually is. */
static int explain_missing(const struct kernel *kernel, struct error *error)
{
	const struct local_kernel *local = &kernel->local;
	const char *option = kernel_files_option(kernel);
	const struct error why = *error;

	if (!local->count && is_newest(kernel))
		return -ENODATA;
	if (!local->count)
		return error_try(error, -ENODATA,
			"%s with its packages or folders, if no repository has it "
			"(docs/kernels.md)",
			option);
	(void) error_set(error, -ENODATA,
		local->has_headers ? "kernel %s: %s has headers, but not the kernel's own modules"
				   : "kernel %s: %s has no headers to compile against",
		local->krel, option);
	(void) error_line(error, -ENODATA, "the lists do not have them: %s", why.text);
	(void) error_try(error, -ENODATA,
		local->has_headers
			? "another %s with the image or modules package of this exact kernel"
			: "another %s with the headers package of this exact kernel",
		option);
	(void) error_try(error, -ENODATA,
		local->has_headers
			? "another %s with a folder that has lib/modules/%s"
			: "another %s with its build folder: the target of /lib/modules/%s/build "
			  "on a machine that has it",
		option, local->krel);
	return error_take_lines(error, -ENODATA, &why);
}

static int ask_lists(struct kernel *kernel, struct error *error)
{
	struct context *context = kernel->context;
	_cleanup_(resolve_answer_free) struct resolve_answer answer = { 0 };
	_cleanup_(extras_free) struct extras extras = { 0 };
	struct resolve_request request = {
		.krel = kernel->request.krel,
		.has_headers = kernel->local.has_headers,
		.has_modules = kernel->local.has_modules || kernel->request.no_modules,
	};
	int r = extras_list(context->data, &context->os, kernel->request.ofed_package,
		kernel->request.nvidia_package, kernel->request.nvidia_modules, &extras, error);

	if (r < 0) {
		context_name_makers(context, request.krel, error);
		return r;
	}
	request.extras = extras.items;
	request.extra_count = extras.count;
	r = context_resolve(context, &request, &answer, error);
	for (size_t i = 0; i < answer.warnings.count; i++)
		progress_note(&context->progress, answer.warnings.items[i]);
	if (r == -ENODATA && !(kernel->local.count && request.has_headers && request.has_modules))
		return explain_missing(kernel, error);
	if (r < 0)
		return r;
	kernel->lock = answer.lock;
	kernel->compilers = answer.compilers;
	answer.lock = (struct lock){ 0 };
	answer.compilers = (struct strv){ 0 };
	return 0;
}

static bool has_file(const struct local_kernel *local, const char *sha256)
{
	for (size_t i = 0; i < local->count; i++)
		if (strcmp(local->inputs[i].sha256, sha256) == 0)
			return true;
	return false;
}

/* Are the locked modules of NVIDIA's of the kind that was asked for? */
static int check_lock_modules(const struct kernel *kernel, struct error *error)
{
	const struct kernel_request *request = &kernel->request;
	const struct lock_package *package = lock_find(&kernel->lock, LOCK_NVIDIA_SOURCE);
	enum nvidia_modules found = NVIDIA_OPEN;

	if (!request->nvidia_package || !package || request->nvidia_modules == NVIDIA_NONE)
		return 0;
	if (strcmp(package->name, kernel->context->os.image.nvidia_proprietary_package) == 0)
		found = NVIDIA_PROPRIETARY;
	if (found == request->nvidia_modules)
		return 0;
	(void) error_set(error, -EINVAL,
		"%s has %s, NVIDIA's %s modules, but --kernel-module-type asks for the other kind",
		request->lock, package->name, found == NVIDIA_OPEN ? "open" : "proprietary");
	(void) error_try(error, -EINVAL,
		"make a new lock or bundle: slipway resolve and bundle have --kernel-module-type, "
		"too");
	return error_try(error, -EINVAL, "leave out --kernel-module-type");
}

/*
 * Packages that a lock lacks are not looked up elsewhere. A lock that was made with --kernel-from
 * requires the same files again, and no others.
 */
static int check_lock(const struct kernel *kernel, struct error *error)
{
	const struct lock *lock = &kernel->lock;
	const struct kernel_request *request = &kernel->request;
	const struct {
		bool wanted;
		const char *purpose;
		const char *advice;
	} purposes[] = {
		{ !kernel->local.has_headers, LOCK_HEADERS,
			"make a new lock: slipway resolve -o FILE" },
		{ request->ofed_package, LOCK_OFED_SOURCE,
			"give --ofed a source tree or a tarball; or, if the distribution packages "
			"its kernel source, make a new lock: slipway resolve --ofed reference" },
		{ request->nvidia_package, LOCK_NVIDIA_SOURCE,
			"give --nvidia an installer, a source tree, a tarball or none; or, for "
			"Debian's package, make a new lock: slipway resolve --nvidia debian" },
	};

	for (size_t i = 0; i < lock->kernel_from_count; i++) {
		const struct lock_local *made_of = &lock->kernel_from[i];

		/* A bundle has its own digests; a folder lies in another place there. */
		if (request->bundle || has_file(&kernel->local, made_of->sha256))
			continue;
		(void) error_set(error, -EINVAL,
			"%s was made with --kernel-from %s (%s, sha256 %s), which is missing here",
			request->lock, made_of->name, made_of->kind, made_of->sha256);
		return error_try(error, -EINVAL, "give the same file: --kernel-from FILE");
	}
	if (kernel->local.count != lock->kernel_from_count) {
		(void) error_set(error, -EINVAL,
			"%s was made with %zu --kernel-from options, not "
			"with %zu",
			request->lock, lock->kernel_from_count, kernel->local.count);
		return error_try(error, -EINVAL, "%s", purposes[0].advice);
	}
	for (size_t i = 0; i < ARRAY_SIZE(purposes); i++)
		if (purposes[i].wanted && !lock_find(lock, purposes[i].purpose)) {
			(void) error_set(error, -EINVAL, "%s has no package for %s", request->lock,
				purposes[i].purpose);
			return error_try(error, -EINVAL, "%s", purposes[i].advice);
		}
	return check_lock_modules(kernel, error);
}

int kernel_lock(struct kernel *kernel, struct error *error)
{
	struct progress *progress = &kernel->context->progress;
	int r;

	/* The distribution is not known: there are only the files. */
	if (!kernel->request.lock && !kernel->context->os.os) {
		kernel->lock.krel = xstrdup(kernel->local.krel);
		return 0;
	}
	progress_begin(progress, "resolve");
	r = kernel->request.lock ? check_lock(kernel, error) : ask_lists(kernel, error);
	if (r < 0) {
		progress_end(progress, "failed");
		return context_fail(kernel->context, context_exit_code(r), r);
	}
	/* The user's own files: what they are and what is in them. */
	for (size_t i = 0; !kernel->request.lock && i < kernel->local.count; i++) {
		const struct local_input *input = &kernel->local.inputs[i];
		const char *slash = strrchr(input->path, '/');
		struct lock_local local = {
			.kind = xstrdup(local_kind_name(input->kind)),
			.name = xstrdup(slash ? slash + 1 : input->path),
			.sha256 = xstrdup(input->sha256),
		};

		lock_add_local(&kernel->lock, &local);
	}
	progress_step(progress, kernel->lock.krel);
	progress_end(progress, "done");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <fcntl.h>
#include <string.h>

#include "cli/accept_key.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/repo/signature.h"

static bool holds_data(const char *path)
{
	_cleanup_free_ char *recipes = xasprintf("%s/containers/recipes", path);

	return fs_exists(AT_FDCWD, recipes);
}

/*
 * The data folder: $SLIPWAY_DATADIR; else share/slipway beside the folder that the program is in;
 * else the source tree whose build folder the program is in. -ENOENT with the places tried.
 */
static int find_data(char **ret_path, struct error *error)
{
	const char *named = getenv("SLIPWAY_DATADIR");
	static const char *const places[] = { "../share/slipway", ".." };
	_cleanup_free_ char *folder = NULL;
	char *slash;

	if (named && *named) {
		*ret_path = holds_data(named) ? realpath(named, NULL) : NULL;
		return *ret_path
			       ? 0
			       : error_set(error, -ENOENT,
					 "SLIPWAY_DATADIR=%s: it has no containers/recipes", named);
	}
	folder = realpath("/proc/self/exe", NULL);
	slash = folder ? strrchr(folder, '/') : NULL;
	if (!slash)
		return error_set_errno(error, folder ? -EINVAL : -errno, "/proc/self/exe");
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *place = xasprintf("%s/%s", folder, places[i]);

		if (!holds_data(place))
			continue;
		*ret_path = realpath(place, NULL);
		if (*ret_path)
			return 0;
	}
	(void) error_set(error, -ENOENT,
		"data folder not found: neither %s/../share/slipway nor the source tree above %s "
		"has containers/recipes",
		folder, folder);
	return error_try(error, -ENOENT, "set SLIPWAY_DATADIR=FOLDER in the environment");
}

int context_open(const struct common_options *options, struct context *ret, struct error *error)
{
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	int r = find_data(&context.data, error);

	if (r < 0)
		return r;
	context.options = options;
	context.arch = options->arch ? options->arch : arch_here()->uname;
	context.catalogues = xasprintf("%s/kernels/catalogue", context.data);
	r = cache_open(options->cache, &context.cache, error);
	if (r < 0)
		return r;
	*ret = context;
	context = (struct context) CONTEXT_CLOSED;
	return 0;
}

void context_show_progress(struct context *context, bool events)
{
	const struct common_options *options = context->options;
	struct progress *progress = &context->progress;

	progress_start(progress, events && options->json);
	progress->verbose = options->verbose && !progress->json;
	if (progress->verbose)
		progress->terminal = false;
	if (options->quiet) {
		progress->text = NULL;
		progress->terminal = false;
	}
}

void context_close(struct context *context)
{
	download_close(&context->download);
	mirrors_free(&context->mirrors);
	catalogue_free(&context->os);
	cache_close(&context->cache);
	free(context->data);
	free(context->catalogues);
	*context = (struct context) CONTEXT_CLOSED;
}

int context_read_date(struct context *context, struct error *error)
{
	const char *date = getenv("SOURCE_DATE_EPOCH");

	context->date = date && *date ? date : NULL;
	if (!context->date || (strspn(date, "0123456789") == strlen(date) && strlen(date) < 12))
		return 0;
	context->failure = EXIT_CODE_USAGE;
	return error_set(error, -EINVAL,
		"SOURCE_DATE_EPOCH=%.40s: not a number of seconds since 1970", date);
}

#define APT_STAGE "mirrors"

/* Apt needs a second or two to answer, the first thing that a build waits for. */
static void on_ask_apt(void *data)
{
	struct context *context = data;

	if (!progress_stage_name(&context->progress))
		progress_begin(&context->progress, APT_STAGE);
	progress_step(&context->progress, "ask apt for its mirrors");
}

int context_mirrors(struct context *context, struct error *error)
{
	struct mirrors_request request = {
		.options = &context->options->mirrors,
		.os = &context->os,
		.arch = context->arch,
		.cache_fd = context->cache.fd,
		.offline = context->options->offline,
		.on_ask_apt = on_ask_apt,
		.context = context,
	};
	_cleanup_free_ char *defaults = xasprintf("%s/" MIRRORS_DEFAULTS, context->data);
	const char *stage;
	int r;

	if (context->has_mirrors)
		return 0;
	request.defaults = defaults;
	r = mirrors_open(&request, &context->mirrors, error);
	stage = progress_stage_name(&context->progress);
	if (stage && strcmp(stage, APT_STAGE) == 0)
		progress_end(&context->progress, r < 0 ? "failed" : "done");
	context->has_mirrors = r == 0;
	return r;
}

/* Two releases of one distribution differ in VERSION_ID; RHEL's has a minor one after a dot. */
static bool is_version(const struct catalogue *os, const char *wanted)
{
	const char *version_id = os->version_id;
	size_t length = strlen(version_id);

	return strncmp(version_id, wanted, length) == 0 &&
	       (!wanted[length] || (wanted[length] == '.' && !strchr(version_id, '.')) ||
		       catalogue_has_snapshots(os));
}

int context_find_os(const struct context *context, const char *id, const char *version_id,
	char **ret_os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = catalogue_names(context->catalogues, &names, error);

	*ret_os = NULL;
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_free_ char *own_name = NULL;

		r = catalogue_open(context->catalogues, names.items[i], &os, error);
		if (r < 0)
			return r;
		if (strcmp(os.id, id) != 0 || !is_version(&os, version_id ? version_id : ""))
			continue;
		free(*ret_os);
		*ret_os = xstrdup(names.items[i]);
		/* Not a CoreOS that says it is RHEL, nor an SL Micro that says it is SLES. */
		own_name = xasprintf("%s%s", os.id, os.version_id);
		if (strcmp(names.items[i], own_name) == 0)
			return 0;
	}
	return 0;
}

static int refuse_arch(const char *krel, const char *arch, struct error *error)
{
	_cleanup_free_ char *other = krel_for_arch(krel, arch);

	(void) error_set(
		error, -EINVAL, "--arch %s: kernel %s is for %s", arch, krel, krel_arch(krel));
	(void) error_try(error, -EINVAL, "leave out --arch");
	return error_try(error, -EINVAL, "use %s, if there is such a kernel", other);
}

int context_choose_os(
	struct context *context, const char *os, const char *krel, struct error *error)
{
	const char *asked = context->options->arch;
	_cleanup_free_ char *guessed = NULL;
	int r;

	if (asked && krel && krel_arch(krel) && strcmp(krel_arch(krel), asked) != 0)
		return refuse_arch(krel, asked, error);

	if (context->options->os)
		os = context->options->os;
	if (!asked && krel && krel_arch(krel))
		context->arch = krel_arch(krel);
	if (!os && krel && strcmp(krel, KREL_NEWEST) != 0) {
		r = krel_check(krel, error);
		if (r == 0)
			r = catalogue_guess(context->catalogues, krel, &guessed, error);
		if (r < 0)
			return r;
		os = guessed;
	}
	if (!os)
		return error_set(error, -EINVAL,
			"--os is missing: the distribution of the kernel is "
			"unknown");
	r = catalogue_open(context->catalogues, os, &context->os, error);
	if (r == -ENODATA) /* a distribution, not a kernel, is what is not known */
		return -EINVAL;
	return r;
}

int context_download(struct context *context, struct error *error)
{
	struct download_options options = {
		.offline = context->options->offline,
		.on_progress = progress_on_download,
		.on_retry = progress_on_retry,
		.context = &context->progress,
	};

	int r = context_mirrors(context, error);

	if (r < 0 || context->download)
		return r;
	context->download = download_open(&options);
	mirrors_follow(&context->mirrors, context->download, context->cache.fd);
	return 0;
}

int context_fail(struct context *context, enum exit_code code, int r)
{
	context->failure = exit_code_for(r, code);
	return r;
}

/* -EACCES is a wrong password here, and no mirror's refusal. */
int context_fail_key(struct context *context, int r)
{
	if (r != -EACCES && r != -ENOKEY)
		return context_fail(context, EXIT_CODE_USAGE, r);
	context->failure = EXIT_CODE_SIGNATURE;
	return r;
}

enum exit_code context_exit_code(int error_number)
{
	switch (error_number) {
	case -EINVAL:
		return EXIT_CODE_USAGE;
	case -ENODATA:
		return EXIT_CODE_KERNEL;
	case -ENOENT:
		return EXIT_CODE_SOURCE;
	default:
		return exit_code_for(error_number, EXIT_CODE_INTERNAL);
	}
}

/*
 * Selects lists that are asked for a kernel and need a key: a list of signed packages needs none.
 */
static bool is_asked(const void *data, const struct repository *repository)
{
	const struct resolve_request *request = data;

	return repository->trust == TRUST_INDEX && !repository->root_only &&
	       (strcmp(request->krel, KREL_NEWEST) == 0 ||
		       repository_concerns(repository, request->krel));
}

/* Asks for a kernel's packages, or, with @krels, for all releases. */
static int ask(struct context *context, struct resolve_request *request, struct strv *krels,
	struct resolve_answer *ret, struct error *error)
{
	const struct common_options *common = context->options;
	struct index_options options = {
		.folder_fd = -1,
		.refresh = common->refresh,
		.allow_unsigned = common->allow_unsigned,
		.allow_expired = common->allow_expired,
		.keyring = common->keyring,
	};
	const struct resolve_places places = {
		.mirrors = &context->mirrors,
		.options = &options,
		.snapshot = common->snapshot,
	};
	_cleanup_close_ int folder_fd = -1;
	_cleanup_free_ char *keys = NULL;
	size_t size;
	int r = common->keyring ? signature_read_keyring(common->keyring, &keys, &size, error) : 0;

	*ret = (struct resolve_answer){ 0 };
	if (r < 0)
		return r;
	folder_fd = openat(context->cache.fd, "indexes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s/indexes", context->cache.path);
	r = context_download(context, error);
	if (r == 0)
		r = keys_obtain(context, &context->os, &context->mirrors, is_asked, request, error);
	if (r < 0)
		return r;
	options.folder_fd = folder_fd;
	options.download = context->download;
	request->os = &context->os;
	request->arch = context->arch;
	request->machine = krels ? NULL : arch_here()->uname;
	r = krels ? resolve_list(&places, request, krels, ret, error)
		  : resolve(&places, request, ret, error);
	r = keys_unreached(context, r, error);
	return cache_name_full(&context->cache, r, error);
}

void context_name_makers(const struct context *context, const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv makers = { 0 };
	_cleanup_strv_ struct strv others = { 0 };
	_cleanup_free_ char *names = NULL;
	const struct error why = *error;
	struct error ignored;

	if (!krel_is_valid(krel) || /* "newest", too */
		catalogue_makers(context->catalogues, krel, &makers, &ignored) < 0 ||
		catalogue_others(context->catalogues, krel, &others, &ignored) < 0 ||
		makers.count + others.count == 0 || strv_contains(&makers, context->os.os))
		return;
	names = xstrv_join(makers.count ? &makers : &others, ", ");
	(void) error_set(error, -ENODATA, "%s", why.text);
	if (makers.count)
		(void) error_try(error, -ENODATA,
			"use another --os than %s: kernels with such names are made by %s",
			context->os.os, names);
	else
		(void) error_line(error, -ENODATA,
			"kernels with such names are made by %s, which Slipway does not support",
			names);
	(void) error_take_lines(error, -ENODATA, &why);
}

int context_resolve(struct context *context, struct resolve_request *request,
	struct resolve_answer *ret, struct error *error)
{
	int r = ask(context, request, NULL, ret, error);

	if (r == -ENODATA && context->options->os)
		context_name_makers(context, request->krel, error);
	return r;
}

int context_list(struct context *context, struct strv *krels, struct resolve_answer *ret,
	struct error *error)
{
	struct resolve_request request = { .krel = KREL_NEWEST };

	return ask(context, &request, krels, ret, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <string.h>
#include <sys/utsname.h>

#include "cli/data.h"
#include "kernels/krel.h"

/* The machine's own architecture, as a text that lives as long as the program. */
static const char *machine_arch(void)
{
	static const char *const known[] = { "x86_64", "aarch64", "ppc64le", "s390x", "riscv64",
		"i686", "armv7l", "loongarch64" };
	struct utsname names;

	if (uname(&names) < 0)
		return known[0];
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i], names.machine) == 0)
			return known[i];
	return known[0];
}

int context_open(const struct common_options *options, struct context *ret, struct error *error)
{
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	int r = data_find(&context.data, error);

	if (r < 0)
		return r;
	context.options = options;
	context.arch = options->arch ? options->arch : machine_arch();
	if (asprintf(&context.catalogues, "%s/kernels/catalogue", context.data) < 0)
		return error_set_errno(error, -ENOMEM, "slipway");
	r = cache_open(options->cache, &context.cache, error);
	if (r < 0)
		return r;
	*ret = context;
	context = (struct context) CONTEXT_CLOSED;
	return 0;
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

int context_mirrors(struct context *context, struct error *error)
{
	struct mirrors_request request = {
		.options = &context->options->mirrors,
		.os = &context->os,
		.cache_fd = context->cache.fd,
		.offline = context->options->offline,
	};
	int r;

	if (context->has_mirrors)
		return 0;
	r = mirrors_open(&request, &context->mirrors, error);
	context->has_mirrors = r == 0;
	return r;
}

/* Two releases of one distribution differ in VERSION_ID; RHEL's has a minor one after a dot. */
static bool is_version(const char *version_id, const char *wanted)
{
	size_t length = strlen(version_id);

	return strncmp(version_id, wanted, length) == 0 &&
	       (!wanted[length] || (wanted[length] == '.' && !strchr(version_id, '.')));
}

int context_find_os(const struct context *context, const char *id, const char *version_id,
	char **ret_os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = catalogue_names(context->catalogues, &names, error);

	*ret_os = NULL;
	for (size_t i = 0; i < names.count && r == 0 && !*ret_os; i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };

		r = catalogue_open(context->catalogues, names.items[i], &os, error);
		if (r < 0 || strcmp(os.id, id) != 0 ||
			!is_version(os.version_id, version_id ? version_id : ""))
			continue;
		*ret_os = strdup(names.items[i]);
		if (!*ret_os)
			r = error_set_errno(error, -ENOMEM, "%s", id);
	}
	return r;
}

int context_choose_os(
	struct context *context, const char *os, const char *krel, struct error *error)
{
	_cleanup_free_ char *guessed = NULL;
	int r;

	if (context->options->os)
		os = context->options->os;
	if (!context->options->arch && krel && krel_arch(krel))
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
		return error_set(
			error, -EINVAL, "--os is missing: nothing tells whose kernel is meant");
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
	return download_open(&options, &context->download, error);
}

int context_fail(struct context *context, enum exit_code code, int r)
{
	context->failure = exit_code_for(r, code);
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

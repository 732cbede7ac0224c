/* SPDX-License-Identifier: Apache-2.0 */
/* Will these modules load on that kernel? Nothing is loaded, started or asked of a kernel for that.
 */
#include "cli/cmd_verify.h"

#include <string.h>
#include <unistd.h>

#include "cli/image/buildah.h"
#include "cli/stage/supervise.h"
#include "cli/verify/verify.h"
#include "common/json_text.h"

static const char usage_text[] =
	"Usage: slipway verify WHAT… --kernel TREE|KREL|RECORD [--with SYMVERS|DIR]… [options]\n"
	"       slipway verify WHAT… --running\n"
	"\n"
	"Says of each module whether that kernel will load it, by the kernel's own rules and without\n"
	"loading it: vermagic, the CRC of every symbol, GPL-only symbols, name spaces, signatures,\n"
	"architecture; then of all together: the order, what is missing, what clashes.\n"
	"docs/verify.md explains each finding. Exit code 0: all will load, 3: some will not, 4: of\n"
	"some it cannot be told.\n"
	"\n"
	"WHAT is a folder with modules anywhere in it, a .ko file (.gz, .xz, .zst), an image: an OCI\n"
	"or docker archive, oci:FOLDER, containers-storage:NAME or just its name; a .deb, .rpm or\n"
	"tarball. Several are judged as one set: the NIC image and the GPU image of one node.\n"
	"\n"
	"  --kernel WHERE   a kernel tree, a build folder, /lib/modules/KREL, record.json of a tree,\n"
	"                   what build --kernel-from takes (packages, slipway probe's bundle), or a\n"
	"                   release or newest, which is found and fetched; repeated for files that\n"
	"                   are one kernel together\n"
	"  --with PATH      what is loaded before and is not WHAT: a Module.symvers, or a folder or\n"
	"                   image with modules or such a file; may be repeated, later ones count more\n"
	"  --running        the kernel of this machine, as it is now\n"
	"  --enforce-signatures\n"
	"                   judge as with module.sig_enforce=1\n"
	"  --trust CERT     whose signatures count (PEM or DER); may be repeated. The kernel's own\n"
	"                   modules need none\n"
	"  --order          print the order in which all load\n"
	"  --all            fold nothing: every module and finding\n"
	"  --jobs N         threads [the processors of this machine]\n";

enum {
	OPTION_KERNEL = COMMON_OPTION_END,
	OPTION_WITH,
	OPTION_RUNNING,
	OPTION_ENFORCE,
	OPTION_TRUST,
	OPTION_ORDER,
	OPTION_ALL,
	OPTION_JOBS,
};

static const struct option own_options[] = {
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "with", required_argument, NULL, OPTION_WITH },
	{ "running", no_argument, NULL, OPTION_RUNNING },
	{ "enforce-signatures", no_argument, NULL, OPTION_ENFORCE },
	{ "trust", required_argument, NULL, OPTION_TRUST },
	{ "order", no_argument, NULL, OPTION_ORDER },
	{ "all", no_argument, NULL, OPTION_ALL },
	{ "jobs", required_argument, NULL, OPTION_JOBS },
	{ 0 },
};

static int take_jobs(const char *text, unsigned int *ret_jobs, struct error *error)
{
	char *end;
	unsigned long jobs;

	errno = 0;
	jobs = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || jobs == 0 || jobs > 4096)
		return error_set(
			error, -EINVAL, "--jobs %s: a number from 1 to 4096 is wanted", text);
	*ret_jobs = (unsigned int) jobs;
	return 0;
}

static int push(struct strv *list, const char *value, const char *option, struct error *error)
{
	if (!*value)
		return error_set(error, -EINVAL, "%s: its value is empty", option);
	return strv_push(list, value) < 0 ? error_set_errno(error, -ENOMEM, "%s", option) : 0;
}

static int take(void *context, int option, char *value, struct error *error)
{
	struct verify *verify = context;

	switch (option) {
	case OPTION_KERNEL:
		return push(&verify->kernels, value, "--kernel", error);
	case OPTION_WITH:
		return push(&verify->with, value, "--with", error);
	case OPTION_TRUST:
		return push(&verify->trust_files, value, "--trust", error);
	case OPTION_RUNNING:
		verify->running = true;
		return 0;
	case OPTION_ENFORCE:
		verify->enforce = true;
		return 0;
	case OPTION_ORDER:
		verify->order = true;
		return 0;
	case OPTION_ALL:
		verify->all = true;
		return 0;
	default:
		return take_jobs(value, &verify->jobs, error);
	}
}

static int take_argument(void *context, char *argument, struct error *error)
{
	struct verify *verify = context;

	return push(&verify->what, argument, "WHAT", error);
}

static int check(const struct verify *verify, struct error *error)
{
	if (verify->what.count == 0)
		return error_set(error, -EINVAL,
			"what is to be verified is missing: a folder of modules, .ko files or an "
			"image");
	if (verify->running && verify->kernels.count)
		return error_set(error, -EINVAL, "--running and --kernel: which of the two?");
	if (verify->running && verify->with.count)
		return error_set(error, -EINVAL,
			"--with: with --running the modules that are loaded speak for themselves");
	if (!verify->running && !verify->kernels.count)
		return error_set(error, -EINVAL,
			"--kernel is missing: a kernel tree, a release such as uname -r prints on the "
			"node, or --running");
	return 0;
}

static int parse(int argc, char **argv, struct verify *verify, struct error *error)
{
	const struct option_parser parser = {
		.own = own_options,
		.short_own = "",
		.take = take,
		.take_argument = take_argument,
		.context = verify,
	};
	struct common_options *common = &verify->common;
	int r = common_options_parse(argc, argv, &parser, common, error);

	if (r < 0 || common->help)
		return r;
	r = check(verify, error);
	return r < 0 ? r : verify_tell(verify, error);
}

static enum exit_code exit_code(const struct verify *verify, int r)
{
	switch (r) {
	case -EINVAL:
	case -ENOENT:
	case -ENOTDIR:
	case -ENODATA:
	case -ENOEXEC:
	case -ENOMSG:
	case -ELOOP:
		return verify->failure;
	case -EACCES:
	case -EPERM:
		return verify->context.failure ? verify->context.failure : EXIT_CODE_INTERNAL;
	default:
		return exit_code_for(r, verify->failure);
	}
}

/* Also in the supervised child. Returns the exit code. */
static int work(void *context)
{
	struct verify *verify = context;
	struct error error = { 0 };
	int code = EXIT_CODE_OK;
	int r = verify_run(verify, &code, &error);

	if (r == 0)
		return code;
	code = (int) exit_code(verify, r);
	(void) fflush(stdout);
	(void) fprintf(stderr, "slipway verify: %s\n", error.text);
	if (verify->common.json) {
		(void) printf("{\"exit_code\":%d,\"message\":", code);
		json_text_string(stdout, error.text);
		(void) puts("}");
	}
	return code;
}

/* With a folder of this run, which goes when the work ends in whatever way. */
static int supervised(struct verify *verify)
{
	struct context *context = &verify->context;
	bool json = verify->common.json;
	struct error error = { 0 };
	int r = context_open(&verify->common, context, &error);

	if (r == 0)
		r = cache_start_run(&context->cache, buildah_sweep, &error);
	if (r < 0) {
		(void) fprintf(stderr, "slipway verify: %s\n", error.text);
		return (int) exit_code_for(r, EXIT_CODE_INTERNAL);
	}
	if (!json)
		progress_start(&context->progress, false);
	r = supervise(work, verify);
	cache_end_run(&context->cache);
	return supervise_report(r, "verify", json, "nothing was judged");
}

int verify_command(int argc, char **argv)
{
	struct verify verify = VERIFY_CLOSED;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct error error = { 0 };
	int r;

	verify.jobs = processors > 0 ? (unsigned int) processors : 1;
	r = parse(argc, argv, &verify, &error);
	if (r < 0) {
		(void) fprintf(stderr,
			"slipway verify: %s\nslipway verify --help lists the options\n",
			error.text);
		r = EXIT_CODE_USAGE;
	} else if (verify.common.help) {
		(void) fputs(usage_text, stdout);
		common_options_usage(stdout);
		r = EXIT_CODE_OK;
	} else {
		r = verify_needs_cache(&verify) ? supervised(&verify) : work(&verify);
	}
	verify_close(&verify);
	kernel_free(&verify.found);
	context_close(&verify.context);
	common_options_free(&verify.common);
	return r;
}

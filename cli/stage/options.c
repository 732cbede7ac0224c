/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/options.h"

#include <string.h>

#include "cli/output_place.h"

static const char usage_text[] =
	"Usage: slipway build [--kernel] KREL|newest [options]\n"
	"       slipway build --lock FILE | --kernel-from PATH … | --bundle FILE [options]\n"
	"\n"
	"Builds the NIC and the GPU driver image, or one of them, for one kernel release.\n"
	"\n"
	"  --kernel KREL    what uname -r prints on the node, or newest: the newest of the\n"
	"                   distribution's own series\n"
	"  --lock FILE      build what a lock names (slipway resolve -o); no package list is asked\n"
	"  --kernel-from PATH  a kernel that no repository has: its build folder, its headers as a\n"
	"                   folder, tarball, .deb, .rpm or OCI archive, or what slipway probe\n"
	"                   collected; may be given several times\n"
	"  --bundle FILE    everything from one file that slipway bundle wrote; nothing is fetched\n"
	"  --ofed SRC       OFED kernel sources: a tree, a tarball, or reference (made from "
	"Debian's\n"
	"                   kernel source); without it there is no NIC image, and no\n"
	"                   nvidia-peermem in the GPU image\n"
	"  --nvidia SRC     NVIDIA's open kernel modules: a tree, a tarball, or debian; with none "
	"there\n"
	"                   is no GPU image [debian]\n"
	"  --userspace DIR  programs, libraries and firmware of the same driver version, where it is\n"
	"                   not Debian's: a folder where NVIDIA's installer was unpacked (.run -x),\n"
	"                   and the archives of fabric manager, IMEX or nvlsm that the image needs\n"
	"  --gdrcopy SRC    GDRCopy's source, a tree or a tarball: gdrdrv goes into the GPU image\n"
	"  --nvidia-fs SRC  likewise GPUDirect Storage's (gds-nvidia-fs), for nvidia-fs\n"
	"  --compiler NAME  gcc-12, clang-16: instead of the one that the kernel was made with\n"
	"  --sign-key KEY   signs all modules, for kernels that load no others: a file (PEM, PKCS#8,\n"
	"                   PKCS#12), or a pkcs11: URI (docs/signing.md)\n"
	"  --sign-cert FILE its certificate, X.509 in DER or PEM, which the kernel trusts\n"
	"  --sign-export DIR, --sign-import DIR\n"
	"                   instead of --sign-key, with a key that this machine cannot reach: the\n"
	"                   first run writes what has to be signed, the second takes the signatures\n"
	"  --sign-hash ALG  sha256, sha384, sha512 … [what the kernel's configuration names]\n"
	"  --password-file FILE, --password-fd N, --password-env NAME\n"
	"                   the key's passphrase or the token's PIN: the first line of a file or\n"
	"                   descriptor, or a variable of the environment\n"
	"  --force          go on where slipway lint finds an error, and make images of modules that\n"
	"                   will not load: their labels say so\n"
	"  --jobs N         compile jobs at once [the processors of this machine]\n"
	"  --output WHERE   DIR, containers-storage: or oci-archive:FILE, which is FILE.nic and\n"
	"                   FILE.gpu where both are built [containers-storage:]\n"
	"  --sources-image  images that can also compile their modules on a node, for kernels that\n"
	"                   they have none for: with the compiler, the source, the recipes and\n"
	"                   what fetches headers that a node lacks, from the mirrors known here\n"
	"  --base REF       image that the driver images start from [a minimal one is made]\n"
	"\n"
	"--refresh also makes the base images anew when the package lists have changed: it brings\n"
	"the distribution's updates into the images. Without --os, newest is debian12's.\n"
	"\n";

enum {
	OPTION_KERNEL = COMMON_OPTION_END,
	OPTION_LOCK,
	OPTION_KERNEL_FROM,
	OPTION_BUNDLE,
	OPTION_OFED,
	OPTION_NVIDIA,
	OPTION_USERSPACE,
	OPTION_GDRCOPY,
	OPTION_NVIDIA_FS,
	OPTION_COMPILER,
	OPTION_SIGN_KEY,
	OPTION_SIGN_EXPORT,
	OPTION_SIGN_IMPORT,
	OPTION_SIGN_CERT,
	OPTION_SIGN_HASH,
	OPTION_PASSWORD_FILE,
	OPTION_PASSWORD_FD,
	OPTION_PASSWORD_ENV,
	OPTION_FORCE,
	OPTION_JOBS,
	OPTION_OUTPUT,
	OPTION_BASE,
	OPTION_SOURCES_IMAGE,
};

static const struct option own_options[] = {
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "lock", required_argument, NULL, OPTION_LOCK },
	{ "kernel-from", required_argument, NULL, OPTION_KERNEL_FROM },
	{ "bundle", required_argument, NULL, OPTION_BUNDLE },
	{ "ofed", required_argument, NULL, OPTION_OFED },
	{ "nvidia", required_argument, NULL, OPTION_NVIDIA },
	{ "userspace", required_argument, NULL, OPTION_USERSPACE },
	{ "gdrcopy", required_argument, NULL, OPTION_GDRCOPY },
	{ "nvidia-fs", required_argument, NULL, OPTION_NVIDIA_FS },
	{ "compiler", required_argument, NULL, OPTION_COMPILER },
	{ "sign-key", required_argument, NULL, OPTION_SIGN_KEY },
	{ "sign-export", required_argument, NULL, OPTION_SIGN_EXPORT },
	{ "sign-import", required_argument, NULL, OPTION_SIGN_IMPORT },
	{ "sign-cert", required_argument, NULL, OPTION_SIGN_CERT },
	{ "sign-hash", required_argument, NULL, OPTION_SIGN_HASH },
	{ "password-file", required_argument, NULL, OPTION_PASSWORD_FILE },
	{ "password-fd", required_argument, NULL, OPTION_PASSWORD_FD },
	{ "password-env", required_argument, NULL, OPTION_PASSWORD_ENV },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "jobs", required_argument, NULL, OPTION_JOBS },
	{ "output", required_argument, NULL, OPTION_OUTPUT },
	{ "base", required_argument, NULL, OPTION_BASE },
	{ "sources-image", no_argument, NULL, OPTION_SOURCES_IMAGE },
	{ 0 },
};

void build_options_usage(FILE *file)
{
	(void) fputs(usage_text, file);
	common_options_usage(file);
}

static int parse_jobs(const char *text, unsigned int *ret_jobs, struct error *error)
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

static int take_file(const char *option, const char *value, const char **slot, struct error *error)
{
	if (!*value)
		return error_set(error, -EINVAL, "%s: its value is empty", option);
	*slot = value;
	return 0;
}

static int take_argument(void *context, char *argument, struct error *error)
{
	struct build_options *options = context;

	if (options->krel)
		return error_set(error, -EINVAL,
			"%s: one kernel release is expected, and %s is named already", argument,
			options->krel);
	options->krel = argument;
	return 0;
}

static int take_signing(
	struct build_options *options, int option, const char *value, struct error *error)
{
	struct sign_password_source *password = &options->sign_password;

	switch (option) {
	case OPTION_SIGN_KEY:
		return take_file("--sign-key", value, &options->sign_key, error);
	case OPTION_SIGN_EXPORT:
		return take_file("--sign-export", value, &options->sign_export, error);
	case OPTION_SIGN_IMPORT:
		return take_file("--sign-import", value, &options->sign_import, error);
	case OPTION_SIGN_CERT:
		return take_file("--sign-cert", value, &options->sign_cert, error);
	case OPTION_SIGN_HASH:
		return take_file("--sign-hash", value, &options->sign_hash, error);
	case OPTION_PASSWORD_FILE:
		return take_file("--password-file", value, &password->file, error);
	case OPTION_PASSWORD_ENV:
		return take_file("--password-env", value, &password->variable, error);
	default:
		return sign_password_take_fd(password, value, error);
	}
}

static int take(void *context, int option, char *value, struct error *error)
{
	struct build_options *options = context;

	if (option >= OPTION_SIGN_KEY && option <= OPTION_PASSWORD_ENV)
		return take_signing(options, option, value, error);
	switch (option) {
	case OPTION_KERNEL:
		return take_argument(context, value, error);
	case OPTION_LOCK:
		return take_file("--lock", value, &options->lock, error);
	case OPTION_KERNEL_FROM:
		return strv_push(&options->kernel_from, value) < 0
			       ? error_set_errno(error, -ENOMEM, "--kernel-from")
			       : 0;
	case OPTION_BUNDLE:
		return take_file("--bundle", value, &options->bundle, error);
	case OPTION_OFED:
		options->ofed = value;
		return 0;
	case OPTION_NVIDIA:
		options->nvidia = value;
		return 0;
	case OPTION_USERSPACE:
		return take_file("--userspace", value, &options->userspace, error);
	case OPTION_GDRCOPY:
		return take_file("--gdrcopy", value, &options->gdrcopy, error);
	case OPTION_NVIDIA_FS:
		return take_file("--nvidia-fs", value, &options->nvidia_fs, error);
	case OPTION_COMPILER:
		options->compiler = value;
		return 0;
	case OPTION_FORCE:
		options->force = true;
		return 0;
	case OPTION_JOBS:
		return parse_jobs(value, &options->jobs, error);
	case OPTION_OUTPUT:
		options->output = value;
		return 0;
	case OPTION_SOURCES_IMAGE:
		options->sources_image = true;
		return 0;
	case OPTION_BASE:
		options->base = value;
		return 0;
	default:
		return error_set(error, -EINVAL, "no such option");
	}
}

/* What says which kernel is meant, and what such a thing excludes. */
static int check_kernel(const struct build_options *options, struct error *error)
{
	bool told = options->lock || options->bundle || options->kernel_from.count;

	if (!told && (!options->krel || !*options->krel))
		return error_set(error, -EINVAL,
			"--kernel is missing: name a kernel release (uname -r on the node) or "
			"newest");
	if (options->bundle && (options->lock || options->kernel_from.count || options->ofed ||
				       options->common.refresh))
		return error_set(error, -EINVAL,
			"--bundle has everything in it: --lock, --kernel-from, --ofed and --refresh "
			"do not go with it");
	if (options->bundle && access(options->bundle, R_OK) < 0)
		return error_set(
			error, -EINVAL, "--bundle %s: %s", options->bundle, strerror(errno));
	if (options->lock && options->common.refresh)
		return error_set(error, -EINVAL, "--lock asks no list: there is none to --refresh");
	return 0;
}

static int check_signing(const struct build_options *options, struct error *error)
{
	const struct sign_password_source *password = &options->sign_password;
	bool has_password = password->file || password->variable || password->fd >= 0;
	int ways = (options->sign_key != NULL) + (options->sign_export != NULL) +
		   (options->sign_import != NULL);

	if (ways > 1)
		return error_set(error, -EINVAL,
			"only one of --sign-key, --sign-export and --sign-import: the key is here or "
			"elsewhere");
	if (ways == 1 && !options->sign_cert)
		return error_set(error, -EINVAL,
			"--sign-cert is missing: the certificate of the key, by which the kernel "
			"knows it");
	if (has_password && !options->sign_key)
		return error_set(error, -EINVAL, "--sign-key is missing: a password is for a key");
	if (ways == 0 && (options->sign_cert || options->sign_hash))
		return error_set(error, -EINVAL,
			"--sign-key is missing: a certificate or a hash is for a key");
	return 0;
}

int build_options_check_gpu(const struct build_options *options, struct error *error)
{
	bool wants_gpu = options->gdrcopy || options->nvidia_fs || options->userspace;

	if (!wants_gpu || strcmp(options->nvidia, "none") != 0)
		return 0;
	return error_set(error, -EINVAL,
		"--gdrcopy, --nvidia-fs and --userspace go with NVIDIA's modules, and %s builds "
		"none",
		options->bundle ? options->bundle : "--nvidia none");
}

static int check(const struct build_options *options, struct error *error)
{
	int r = check_kernel(options, error);

	if (r == 0)
		r = check_signing(options, error);
	if (r < 0)
		return r;
	if (options->ofed && !*options->ofed)
		return error_set(error, -EINVAL, "--ofed: the source is empty");
	if (!options->ofed && !options->bundle && strcmp(options->nvidia, "none") == 0)
		return error_set(error, -EINVAL,
			"--nvidia none without --ofed: there would be no image at all");
	r = build_options_check_gpu(options, error);
	return r < 0 ? r : output_place_check(options->output, error);
}

int build_options_parse(int argc, char **argv, struct build_options *ret, struct error *error)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	const struct option_parser parser = {
		.own = own_options,
		.short_own = "",
		.take = take,
		.take_argument = take_argument,
		.context = ret,
	};
	int r;

	*ret = (struct build_options){
		.nvidia = "debian",
		.output = "containers-storage:",
		.sign_password.fd = -1,
		.jobs = processors > 0 ? (unsigned int) processors : 1,
	};
	r = common_options_parse(argc, argv, &parser, &ret->common, error);
	if (r == 0 && !ret->common.help)
		r = check(ret, error);
	if (ret->bundle)
		ret->common.offline = true;
	return r;
}

void build_options_free(struct build_options *options)
{
	common_options_free(&options->common);
	strv_free(&options->kernel_from);
}

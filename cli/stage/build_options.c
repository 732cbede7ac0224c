/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/stage_internal.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/image/output_place.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct build_options *options = target;

	if (options->krel)
		return error_set(error, -EINVAL,
			"%s: only one kernel release can be given, and %s is already named",
			argument, options->krel);
	xstrv_split(&options->krels, argument, ",");
	options->krel = options->krels.count ? options->krels.items[0] : argument;
	return 0;
}

static bool is_asked_for(const struct build_options *options, enum driver driver)
{
	const char *text = options->sources[driver];

	return text && !(driver_rows[driver].usual && strcmp(text, "none") == 0);
}

static int try_bundle(enum driver driver, struct error *error)
{
	return error_try(error, -EINVAL, "a new bundle that has it: slipway bundle --%s SRC",
		driver_rows[driver].name);
}

static int check_is_for(const struct build_options *options, const char *option, enum driver driver,
	struct error *error)
{
	if (is_asked_for(options, driver))
		return 0;
	(void) error_set(error, -EINVAL, "--%s applies only to %s, which %s", option,
		driver_rows[driver].title,
		options->bundle ? "is not built from the bundle" : "this build does not include");
	(void) error_try(error, -EINVAL, "leave out --%s", option);
	return options->bundle ? try_bundle(driver, error) : -EINVAL;
}

/* The drivers' own options beside those with their sources. */
enum driver_option {
	OPTION_USERSPACE,
	OPTION_IMEX,
	OPTION_FABRICMANAGER,
	OPTION_KERNEL_MODULE_TYPE,
	OPTION_NFSRDMA,
	OPTION_OFED_FLAG,
	OPTION_VERIFY_CONFIGURE,
	OPTION_COUNT,
};

static const struct {
	const char *name;
	enum driver driver;
} driver_options[OPTION_COUNT] = {
	[OPTION_USERSPACE] = { "userspace", DRIVER_NVIDIA },
	[OPTION_IMEX] = { "imex", DRIVER_NVIDIA },
	[OPTION_FABRICMANAGER] = { "fabricmanager", DRIVER_NVIDIA },
	[OPTION_KERNEL_MODULE_TYPE] = { "kernel-module-type", DRIVER_NVIDIA },
	[OPTION_NFSRDMA] = { "nfsrdma", DRIVER_OFED },
	[OPTION_OFED_FLAG] = { "ofed-flag", DRIVER_OFED },
	[OPTION_VERIFY_CONFIGURE] = { "verify-configure", DRIVER_OFED },
};

static bool is_option(const char *word, const char *name, bool *ret_follows)
{
	return strncmp(word, "--", 2) == 0 && options_is_word(word + 2, name, 0, ret_follows);
}

static bool has_value(const char *name)
{
	for (size_t i = 0; i < build_options.count; i++) {
		const struct option_row *row = &build_options.rows[i];

		if (row->name && strcmp(row->name, name) == 0)
			return row->argument;
	}
	return false;
}

/* The driver that an option is about; DRIVER_COUNT: it is for all. */
static enum driver driver_of(const char *word, bool *ret_follows)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (is_option(word, driver_options[i].name, ret_follows)) {
			*ret_follows &= has_value(driver_options[i].name);
			return driver_options[i].driver;
		}
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		if (driver_rows[driver].needs_bound_to &&
			is_option(word, driver_rows[driver].name, ret_follows))
			return driver_rows[driver].bound_to;
	return DRIVER_COUNT;
}

void build_options_add(const struct strv *words, bool ofed, bool nvidia, struct strv *args)
{
	for (size_t i = 0; i < words->count; i++) {
		bool follows = false;
		enum driver driver = driver_of(words->items[i], &follows);

		if ((driver == DRIVER_OFED && !ofed) || (driver == DRIVER_NVIDIA && !nvidia))
			i += follows;
		else
			xstrv_push(args, words->items[i]);
	}
}

int build_options_check_drivers(const struct build_options *options, struct error *error)
{
	const bool given[OPTION_COUNT] = {
		[OPTION_USERSPACE] = options->userspace,
		[OPTION_IMEX] = options->redist[REDIST_IMEX],
		[OPTION_FABRICMANAGER] = options->redist[REDIST_FABRICMANAGER],
		[OPTION_KERNEL_MODULE_TYPE] = options->kernel_module_type,
		[OPTION_NFSRDMA] = options->nfsrdma,
		[OPTION_OFED_FLAG] = options->ofed_flags.count > 0,
		[OPTION_VERIFY_CONFIGURE] = options->verify_configure,
	};
	bool any = false;

	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		any |= !driver_rows[driver].needs_bound_to && is_asked_for(options, driver);
	if (!any)
		return error_set(error, -EINVAL, "--nvidia none %s: no image would be built",
			options->bundle ? "with a bundle that has no OFED" : "without --ofed");
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct driver_row *row = &driver_rows[driver];
		int r = row->needs_bound_to && is_asked_for(options, driver)
				? check_is_for(options, row->name, row->bound_to, error)
				: 0;

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		int r = given[i] ? check_is_for(options, driver_options[i].name,
					   driver_options[i].driver, error)
				 : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

void build_options_default(struct build_options *options)
{
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		options->sources[driver] = driver_rows[driver].usual;
}

/* Does an option name a source, where a bundle has those that are built? */
static int refuse_named(
	const struct build_options *options, enum driver driver, bool bundled, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	const char *text = options->sources[driver];

	/* A plan's words name what was taken into the bundle. */
	if (options->plan_target || !is_asked_for(options, driver) ||
		(row->usual && strcmp(text, row->usual) == 0))
		return 0;
	(void) error_set(error, -EINVAL, "--%s %s: the bundle %s %s", row->name, text,
		bundled ? "has its own source of" : "has no source of", row->title);
	(void) error_try(error, -EINVAL, "leave out --%s", row->name);
	return bundled ? -EINVAL : try_bundle(driver, error);
}

int build_options_take_sources(
	struct build_options *options, const char *const *sources, struct error *error)
{
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct driver_row *row = &driver_rows[driver];
		bool left_out = (row->usual && !is_asked_for(options, driver)) ||
				(row->needs_bound_to && !is_asked_for(options, row->bound_to));
		int r = refuse_named(options, driver, sources[driver], error);

		if (r < 0)
			return r;
		options->sources[driver] = sources[driver] && !left_out ? sources[driver]
					   : row->usual                 ? "none"
									: NULL;
	}
	return 0;
}

/* Such a word is data for the recipe's shell: it splits them at blanks. */
static int check_flags(const struct strv *flags, struct error *error)
{
	for (size_t i = 0; i < flags->count; i++) {
		const char *flag = flags->items[i];

		if (strncmp(flag, "--", 2) == 0 && flag[2] != '-' && flag[2] &&
			!strpbrk(flag, " \t\n"))
			continue;
		(void) error_set(
			error, -EINVAL, "--ofed-flag %s: not an option of OFED's configure", flag);
		return error_try(error, -EINVAL, "--ofed-flag=--with-sf-cfg-drv, one for each");
	}
	return 0;
}

/* ---- several architectures */

/* A list of releases says the architectures: each names its own. */
static int take_archs_of_kernels(struct build_options *options, struct error *error)
{
	struct strv *all = &options->common.archs;
	_cleanup_strv_ struct strv asked = *all;

	*all = (struct strv){ 0 };
	for (size_t i = 0; i < options->krels.count; i++) {
		const char *krel = options->krels.items[i];
		const char *arch = krel_arch(krel);

		if (!arch || (asked.count && !strv_contains(&asked, arch)))
			return error_set(error, -EINVAL,
				"--kernel: %s is in a list, which has a release for each "
				"architecture, and %s%s",
				krel, arch ? "--arch has no " : "it names none", arch ? arch : "");
		if (strv_contains(all, arch)) {
			(void) error_set(error, -EINVAL,
				"--kernel: %s is the second release for %s, and an index has one "
				"image for each architecture",
				krel, arch);
			return error_try(
				error, -EINVAL, "one build for each of them, then slipway combine");
		}
		xstrv_push(all, arch);
	}
	for (size_t i = 0; i < asked.count; i++)
		if (!strv_contains(all, asked.items[i]))
			return error_set(error, -EINVAL,
				"--kernel: the list has no release for %s, which --arch names",
				asked.items[i]);
	options->common.arch = all->items[0];
	return 0;
}

/* One release for all of them names none. */
static int check_one_kernel(const struct build_options *options, struct error *error)
{
	const struct strv *all = &options->common.archs;
	const char *arch = options->krel ? krel_arch(options->krel) : NULL;
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *list = NULL;

	if (!arch)
		return 0;
	for (size_t i = 0; i < all->count; i++) {
		char *other = krel_for_arch(options->krel, all->items[i]);

		xstrv_push(&krels, other);
		free(other);
	}
	list = xstrv_join(&krels, ",");
	(void) error_set(error, -EINVAL,
		"--kernel %s: it is for %s, and --arch names several architectures", options->krel,
		arch);
	return error_try(
		error, -EINVAL, "a release for each, if there are such: --kernel %s", list);
}

/* These are files and folders for one architecture. */
static int check_several(struct build_options *options, struct error *error)
{
	const struct {
		const char *name;
		bool given;
		const char *why;
	} rows[] = {
		{ "lock", options->lock, "a lock is for one architecture" },
		{ "kernel-from", options->kernel_from.count > 0, "those files are for one" },
		{ "bundle", options->bundle && !options->plan,
			"a bundle without --plan is for one" },
		{ "userspace", options->userspace, "that folder is for one" },
		{ "base-image", options->base_image, "that image is for one" },
		{ "base", options->base, "that image is for one" },
		{ "sign-export", options->sign_export, "it is one folder" },
		{ "sign-import", options->sign_import, "it is one folder" },
		{ "sources-image", options->sources_image,
			"the images would have this program, which is for one" },
	};

	if (options->krels.count > 1) {
		int r = take_archs_of_kernels(options, error);

		if (r < 0)
			return r;
	} else if (options->common.archs.count > 1) {
		int r = check_one_kernel(options, error);

		if (r < 0)
			return r;
	}
	if (options->common.archs.count < 2)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].given) {
			(void) error_set(error, -EINVAL,
				"--%s cannot be combined with several architectures: %s",
				rows[i].name, rows[i].why);
			return error_try(error, -EINVAL,
				"one slipway build for each architecture, then slipway index");
		}
	return output_place_is_folder(options->output)
		       ? 0
		       : error_set(error, -EINVAL,
				 "--output %s: images for several architectures and their indexes "
				 "need a folder: --output DIR",
				 options->output);
}

static int check(void *target, struct error *error)
{
	struct build_options *options = target;
	int r = revision_check(options->revision, error);

	if (r == 0)
		r = check_flags(&options->ofed_flags, error);
	if (r == 0 && options->nfsrdma && options->sources[DRIVER_OFED] &&
		strcmp(options->sources[DRIVER_OFED], driver_package_word(DRIVER_OFED)) == 0)
		r = error_set(error, -EINVAL,
			"--nfsrdma: the reference OFED has no NFS and NVMe over RDMA");
	if (r == 0 && !options->bundle && !options->plan) /* what they have is known later */
		r = build_options_check_drivers(options, error);
	if (r < 0)
		return r;
	if (options->bundle && access(options->bundle, R_OK) < 0)
		return error_set(
			error, -EINVAL, "--bundle %s: %s", options->bundle, strerror(errno));
	if (options->bundle)
		options->common.offline = true;
	r = push_check(&options->push, &options->operators, error);
	if (r == 0)
		r = operators_check(&options->operators, error);
	if (r == 0)
		r = output_place_check(options->output, error);
	return r < 0 ? r : check_several(options, error);
}

#define BUILD_OPTION(name, argument, kind, member, help)                                           \
	OPTION(name, 0, argument, kind, struct build_options, member, help)

static const struct option_row rows[] = {
	OPTION_HEADING("Kernel"),
	OPTION_CALL("kernel", 0, "KREL", take_kernel,
		"kernel release (uname -r on the node), or newest for the newest one of the\n"
		"distribution's own series; a list, 6.1.0-57-amd64,6.1.0-57-arm64, has one for\n"
		"each architecture"),
	BUILD_OPTION("lock", "FILE", OPTION_TEXT, lock,
		"build with the packages named in a lock (slipway resolve -o), without reading\n"
		"package lists"),
	BUILD_OPTION("kernel-from", "PATH", OPTION_LIST, kernel_from,
		"  a kernel that no repository has: its build folder, its headers\n"
		"(folder, tarball, .deb, .rpm or OCI archive), or a file from slipway probe;\n"
		"may be repeated"),
	BUILD_OPTION("bundle", "FILE", OPTION_TEXT, bundle,
		"take everything from a file made by slipway bundle, with --plan by its\n"
		"--plan; nothing is fetched"),
	BUILD_OPTION("plan", "FILE", OPTION_TEXT, plan,
		"all builds of slipway plan --json, one after another; - for stdin. Into the\n"
		"folder of --output each puts a folder of its own"),
	BUILD_OPTION("target", "I[/N]", OPTION_TEXT, plan_target,
		"of the plan only target I, or every Nth target from I on\n"
		"[$JOB_COMPLETION_INDEX, or all]"),
	OPTION_HEADING("Drivers"),
	DRIVER_OPTIONS(struct build_options, sources),
	SOURCES_OPTION(struct build_options, source_folders),
	BUILD_OPTION("nfsrdma", NULL, OPTION_FLAG, nfsrdma,
		"add OFED's NFS and NVMe over RDMA to the NIC image, for ENABLE_NFSRDMA and\n"
		"for nodes whose storage goes over RDMA; with nvidia-fs they know it"),
	BUILD_OPTION("ofed-flag", "FLAG", OPTION_LIST, ofed_flags,
		"an option of OFED's own configure (its help lists them), with its dashes; may\n"
		"be repeated"),
	BUILD_OPTION("kernel-module-type", "KIND", OPTION_TEXT, kernel_module_type,
		"open or proprietary; GPUs older than Turing need proprietary [open, if the\n"
		"source has both]"),
	BUILD_OPTION("userspace", "DIR", OPTION_TEXT, userspace,
		"programs, libraries and firmware of the same driver version, unless they are\n"
		"Debian's or in the installer given as --nvidia: a folder with the unpacked\n"
		"installer (.run -x) and what else the image needs, such as nvlsm"),
	BUILD_OPTION("imex", "FILE", OPTION_TEXT, redist[REDIST_IMEX],
		"NVIDIA's archive of IMEX (imex-linux-….tar.xz) of the driver's version, which\n"
		"ComputeDomains need in the GPU image"),
	BUILD_OPTION("fabricmanager", "FILE", OPTION_TEXT, redist[REDIST_FABRICMANAGER],
		"NVIDIA's archive of the fabric manager (fabricmanager-linux-….tar.xz) of the\n"
		"driver's version, for nodes with NVSwitches"),
	OPTION_HEADING("Output"),
	OPTION("output", 'o', "WHERE", OPTION_TEXT, struct build_options, output,
		"DIR, containers-storage: or oci-archive:FILE, which becomes FILE.nic and\n"
		"FILE.gpu if both images are built [containers-storage:]; into DIR go also the\n"
		"operators' policies, and push.sh"),
	PUSH_OPTIONS(struct build_options, push),
	OPERATORS_OPTIONS(struct build_options, operators),
	BUILD_OPTION("revision", "N", OPTION_TEXT, revision,
		"make VERSION-N the version in the tags, so that nodes pull a rebuilt image;\n"
		"give the operators VERSION-N too"),
	BUILD_OPTION("os-version", "VERSION", OPTION_TEXT, os_version,
		"VERSION_ID of the nodes' os-release for the tags, such as 8.10; needed for\n"
		"Oracle's UEK kernels and Tumbleweed [derived from the kernel release]"),
	BUILD_OPTION("sources-image", NULL, OPTION_FLAG, sources_image,
		"make images that can also compile their modules on a node, for kernels that\n"
		"they have no modules for: they contain the compiler, the source, the recipes\n"
		"and a program that fetches missing headers from the mirrors known here"),
	OPTION_HEADING("Signing"),
	BUILD_OPTION("sign-key", "KEY", OPTION_TEXT, sign_key,
		"sign all modules with this private key, for kernels that require it: a file\n"
		"(PEM, PKCS#8, PKCS#12) or a pkcs11: URI (docs/build.md)"),
	BUILD_OPTION("sign-cert", "FILE", OPTION_TEXT, sign_cert,
		"the key's certificate (X.509 in DER or PEM), which the kernel must trust"),
	BUILD_OPTION("sign-export", "DIR", OPTION_TEXT, sign_export, NULL),
	BUILD_OPTION("sign-import", "DIR", OPTION_TEXT, sign_import,
		"instead of --sign-key, if this machine cannot reach the key: the first run\n"
		"writes the digests to be signed, the second reads their signatures"),
	BUILD_OPTION("sign-hash", "ALG", OPTION_TEXT, sign_hash,
		"sha256, sha384, sha512 … [the one in the kernel's configuration]"),
	SIGN_PASSWORD_OPTIONS(struct build_options, sign_password),
	OPTION_HEADING("Build"),
	BUILD_OPTION("dry-run", NULL, OPTION_FLAG, dry_run,
		"compile nothing: print the image tags, each stage with its key and whether\n"
		"it has to be built and why, and the packages to be fetched"),
	BUILD_OPTION("force", NULL, OPTION_FLAG, force,
		"continue after an error of slipway lint, and make images even if modules\n"
		"will not load or the userspace is missing; the image labels say so"),
	BUILD_OPTION("jobs", "N", OPTION_JOBS, jobs,
		"number of parallel compile jobs [the number of processors, or fewer if\n"
		"memory is short]"),
	BUILD_OPTION("compiler", "NAME", OPTION_TEXT, compiler,
		"compile with gcc-12, clang-16 … [the compiler that built the kernel]"),
	BUILD_OPTION("verify-configure", NULL, OPTION_FLAG, verify_configure,
		"also run OFED's configure through the kernel's own build and compare the\n"
		"results; takes minutes"),
	BUILD_OPTION("root", "OS", OPTION_TEXT, root,
		"compile the modules in a build root of this distribution [the kernel's own]"),
	BUILD_OPTION("base-image", "REF", OPTION_TEXT, base_image,
		"compile in this vendor image from the local storage instead of a build root;\n"
		"its own repositories provide the packages"),
	BUILD_OPTION("base", "REF", OPTION_TEXT, base,
		"base of the driver images [a minimal one is made]"),
};

static const struct option_rule rules[] = {
	{ .needs = "kernel " OPTION_RULE_ARGUMENT " lock bundle kernel-from plan",
		.why = "--kernel is missing: name a kernel release (uname -r on the node) or "
		       "newest" },
	{ .given = "plan",
		.refuses = "kernel lock kernel-from os arch ofed nvidia " OPTION_RULE_ARGUMENT,
		.why = "the plan has a command line for each build" },
	{ .given = "plan",
		.refuses = "password-fd",
		.why = "it can be read only once: --password-env and --password-file can be read "
		       "for each build" },
	{ .given = "target", .needs = "plan bundle", .why = "it is one of a plan's targets" },
	{ .given = "bundle",
		.refuses = "lock kernel-from root base-image base refresh snapshot accept-key "
			   "allow-expired",
		.unless = "target",
		.why = "the bundle already contains everything" },
	{ .given = "bundle",
		.refuses = "nvidia",
		.unless = "nvidia=none target",
		.why = "the bundle contains NVIDIA's modules; only --nvidia none, which leaves "
		       "them out, is allowed" },
	/* Nodes may ask them. */
	{ .given = "bundle",
		.refuses = "mirror keyring",
		.unless = "sources-image target",
		.why = "nothing is fetched" },
	{ .given = "lock",
		.refuses = "refresh",
		.why = "a lock already names the packages, so no "
		       "list is read" },
	{ .given = "root",
		.refuses = "base-image",
		.why = "the build container is made from only one of them" },
	{ .given = "sign-key",
		.refuses = "sign-export sign-import",
		.why = "they are for a key that is not on this machine" },
	PUSH_RULE,
	{ .given = "push", .refuses = "offline", .why = "pushing opens a socket" },
	{ .given = "push", .refuses = "sign-export", .why = "that makes no image" },
	{ .given = "sign-export",
		.refuses = "sign-import",
		.why = "the first run exports, the second imports" },
	{ .given = "password-file password-fd password-env",
		.needs = "sign-key",
		.why = "the password belongs to a key" },
	{ .given = "sign-key sign-export sign-import",
		.needs = "sign-cert",
		.why = "the kernel identifies the key by its certificate" },
	{ .given = "sign-cert sign-hash",
		.needs = "sign-key sign-export sign-import",
		.why = "nothing is signed without a key" },
};

const struct option_table build_options = {
	.verb = "build",
	.usage = "Usage: slipway build [--kernel] KREL|newest [options]\n"
		 "       slipway build --lock FILE | --kernel-from PATH … | --bundle FILE "
		 "[options]\n"
		 "       slipway build --plan FILE [--target I[/N]] [--bundle FILE] [options]\n"
		 "\n"
		 "Builds the NIC image, the GPU image or both for one kernel release. With --arch "
		 "x86_64,aarch64\n"
		 "it does so for each architecture, and makes an index of each image. Without "
		 "--os, newest\n"
		 "means debian12's newest. If the package lists have changed, --refresh also "
		 "rebuilds the base\n"
		 "images, so that the images get the distribution's updates.\n"
		 "\n",
	.notes = "\nAll verbs:\n",
	.examples =
		"  slipway build newest --ofed reference --dry-run\n"
		"  slipway build \"$(uname -r)\" --ofed ~/mlnx-ofed-kernel \\\n"
		"      --nvidia ~/NVIDIA-Linux-x86_64-595.58.03.run -o out \\\n"
		"      --registry registry.example/drivers --gpu-operator 25.10\n"
		"  slipway build newest --os debian12 --arch x86_64,aarch64 --ofed reference -o "
		"out\n"
		"  slipway build --kernel-from /usr/src/linux --nvidia none --ofed "
		"~/mlnx-ofed-kernel\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct build_options, common),
	.several_archs = true,
	.take_argument = take_kernel,
	.check = check,
};

bool build_options_start(char **argv, struct build_options *ret, int *ret_code)
{
	*ret = (struct build_options){
		.output = OUTPUT_STORAGE,
		.sign_password.fd = -1,
	};
	build_options_default(ret);
	for (char *const *word = argv; *word; word++) /* parsing sorts them */
		xstrv_push(&ret->arguments, *word);
	return options_start(&build_options, argv, ret, ret_code);
}

void build_options_free(struct build_options *options)
{
	common_options_free(&options->common);
	strv_free(&options->krels);
	strv_free(&options->source_folders);
	strv_free(&options->kernel_from);
	strv_free(&options->ofed_flags);
	strv_free(&options->arguments);
}

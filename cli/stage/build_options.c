/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/stage_internal.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/image/place.h"
#include "common/fs.h"

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct build_options *options = target;

	if (options->krel)
		return error_set(error, -EINVAL,
			"%s: one kernel release is expected, and %s is named already", argument,
			options->krel);
	options->krel = argument;
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
	(void) error_set(error, -EINVAL, "--%s is for %s, and %s", option,
		driver_rows[driver].title,
		options->bundle ? "none is built from the bundle" : "this builds none");
	(void) error_try(error, -EINVAL, "leave out --%s", option);
	return options->bundle ? try_bundle(driver, error) : -EINVAL;
}

int build_options_check_drivers(const struct build_options *options, struct error *error)
{
	const struct {
		const char *name;
		bool given;
		enum driver driver;
	} rows[] = {
		{ "userspace", options->userspace, DRIVER_NVIDIA },
		{ "kernel-module-type", options->kernel_module_type, DRIVER_NVIDIA },
		{ "verify-configure", options->verify_configure, DRIVER_OFED },
	};
	bool any = false;
	int r = 0;

	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		any |= !driver_rows[driver].needs_bound_to && is_asked_for(options, driver);
	if (!any)
		return error_set(error, -EINVAL, "--nvidia none %s: there would be no image at all",
			options->bundle ? "with a bundle that has no OFED" : "without --ofed");
	for (enum driver driver = 0; driver < DRIVER_COUNT && r == 0; driver++)
		if (driver_rows[driver].needs_bound_to && is_asked_for(options, driver))
			r = check_is_for(options, driver_rows[driver].name,
				driver_rows[driver].bound_to, error);
	for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++)
		if (rows[i].given)
			r = check_is_for(options, rows[i].name, rows[i].driver, error);
	return r;
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

	if (!is_asked_for(options, driver) || (row->usual && strcmp(text, row->usual) == 0))
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

static int check(void *target, struct error *error)
{
	struct build_options *options = target;
	const char *revision = options->revision;
	int r = 0;

	if (revision && (revision[strspn(revision, "0123456789")] || strlen(revision) > 9))
		return error_set(
			error, -EINVAL, "--revision: a number of at most nine digits is wanted");
	if (!options->bundle) /* what is in a bundle is known later */
		r = build_options_check_drivers(options, error);
	if (r < 0)
		return r;
	if (options->bundle && access(options->bundle, R_OK) < 0)
		return error_set(
			error, -EINVAL, "--bundle %s: %s", options->bundle, strerror(errno));
	if (options->bundle)
		options->common.offline = true;
	return output_place_check(options->output, error);
}

#define BUILD_OPTION(name, argument, kind, member, help)                                           \
	OPTION(name, 0, argument, kind, struct build_options, member, help)

static const struct option_row rows[] = {
	OPTION_CALL("kernel", 0, "KREL", take_kernel,
		"what uname -r prints on the node, or newest: the newest of the\n"
		"distribution's own series"),
	BUILD_OPTION("lock", "FILE", OPTION_TEXT, lock,
		"build what a lock names (slipway resolve -o); no package list is asked"),
	BUILD_OPTION("kernel-from", "PATH", OPTION_LIST, kernel_from,
		"  a kernel that no repository has: its build folder, its headers as a\n"
		"folder, tarball, .deb, .rpm or OCI archive, or what slipway probe\n"
		"collected; may be given several times"),
	BUILD_OPTION("bundle", "FILE", OPTION_TEXT, bundle,
		"everything from one file that slipway bundle wrote; nothing is fetched"),
	DRIVER_OPTIONS(struct build_options, sources),
	BUILD_OPTION("kernel-module-type", "KIND", OPTION_TEXT, kernel_module_type,
		"open, or proprietary, which GPUs before Turing want [open, where the source\n"
		"has both]"),
	BUILD_OPTION("userspace", "DIR", OPTION_TEXT, userspace,
		"programs, libraries and firmware of the same driver version, where they are\n"
		"neither Debian's nor in the installer that --nvidia names: a folder where\n"
		"that was unpacked (.run -x), and the archives of fabric manager, IMEX or\n"
		"nvlsm that the image needs"),
	BUILD_OPTION("compiler", "NAME", OPTION_TEXT, compiler,
		"gcc-12, clang-16: instead of the one that the kernel was made with"),
	BUILD_OPTION("sign-key", "KEY", OPTION_TEXT, sign_key,
		"signs all modules, for kernels that load no others: a file (PEM, PKCS#8,\n"
		"PKCS#12), or a pkcs11: URI (docs/build.md)"),
	BUILD_OPTION("sign-cert", "FILE", OPTION_TEXT, sign_cert,
		"its certificate, X.509 in DER or PEM, which the kernel trusts"),
	BUILD_OPTION("sign-export", "DIR", OPTION_TEXT, sign_export, NULL),
	BUILD_OPTION("sign-import", "DIR", OPTION_TEXT, sign_import,
		"instead of --sign-key, with a key that this machine cannot reach: the\n"
		"first run writes what has to be signed, the second takes the signatures"),
	BUILD_OPTION("sign-hash", "ALG", OPTION_TEXT, sign_hash,
		"sha256, sha384, sha512 … [what the kernel's configuration names]"),
	SIGN_PASSWORD_OPTIONS(struct build_options, sign_password),
	BUILD_OPTION("force", NULL, OPTION_FLAG, force,
		"go on where slipway lint finds an error, and make images of modules that\n"
		"will not load, or without a userspace: their labels say so"),
	BUILD_OPTION("verify-configure", NULL, OPTION_FLAG, verify_configure,
		"runs OFED's configure by the kernel's own build, too, and compares: minutes"),
	BUILD_OPTION("dry-run", NULL, OPTION_FLAG, dry_run,
		"compile nothing: print the stages with their keys, which are to be made and\n"
		"why, the images' tags and what is to be fetched"),
	BUILD_OPTION("jobs", "N", OPTION_JOBS, jobs,
		"compile jobs at once [the processors of this machine, fewer where its memory\n"
		"does not go so far]"),
	BUILD_OPTION("output", "WHERE", OPTION_TEXT, output,
		"DIR, containers-storage: or oci-archive:FILE, which is FILE.nic and\n"
		"FILE.gpu where both are built [containers-storage:]"),
	BUILD_OPTION("sources-image", NULL, OPTION_FLAG, sources_image,
		"images that can also compile their modules on a node, for kernels that\n"
		"they have none for: with the compiler, the source, the recipes and\n"
		"what fetches headers that a node lacks, from the mirrors known here"),
	BUILD_OPTION("revision", "N", OPTION_TEXT, revision,
		"of the images, which the operators then ask for with VERSION-N: an image\n"
		"that was built anew gets a new tag, which nodes pull"),
	BUILD_OPTION("os-version", "VERSION", OPTION_TEXT, os_version,
		"VERSION_ID of the nodes' os-release, which is in the tags, where the\n"
		"kernel's release does not tell it: 8.10 for a UEK [what it tells]"),
	BUILD_OPTION("root", "OS", OPTION_TEXT, root,
		"the distribution whose packages the build root is made of, what modules are\n"
		"compiled in [the kernel's own]"),
	BUILD_OPTION("base-image", "REF", OPTION_TEXT, base_image,
		"instead of a build root: a vendor's image, in the local storage, which gets\n"
		"the packages from its own repositories"),
	BUILD_OPTION("base", "REF", OPTION_TEXT, base,
		"image that the driver images start from [a minimal one is made]"),
};

static const struct option_rule rules[] = {
	{ .needs = "kernel " OPTION_RULE_ARGUMENT " lock bundle kernel-from",
		.why = "--kernel is missing: name a kernel release (uname -r on the node) or "
		       "newest" },
	{ .given = "bundle",
		.refuses = "lock kernel-from root base-image base refresh snapshot accept-key "
			   "allow-expired",
		.why = "the bundle has everything in it" },
	{ .given = "bundle",
		.refuses = "nvidia",
		.unless = "nvidia=none",
		.why = "the bundle has its own, which --nvidia none leaves out" },
	/* Nodes may ask them. */
	{ .given = "bundle",
		.refuses = "mirror keyring",
		.unless = "sources-image",
		.why = "nothing is fetched" },
	{ .given = "lock", .refuses = "refresh", .why = "no list is asked for what a lock names" },
	{ .given = "root",
		.refuses = "base-image",
		.why = "the build container is made of one of them" },
	{ .given = "sign-key",
		.refuses = "sign-export sign-import",
		.why = "the key is here or elsewhere" },
	{ .given = "sign-export",
		.refuses = "sign-import",
		.why = "the first run exports, the second imports" },
	{ .given = "password-file password-fd password-env",
		.needs = "sign-key",
		.why = "a password is for a key" },
	{ .given = "sign-key sign-export sign-import",
		.needs = "sign-cert",
		.why = "the kernel knows the key by its certificate" },
	{ .given = "sign-cert sign-hash",
		.needs = "sign-key sign-export sign-import",
		.why = "without a key nothing is signed" },
};

const struct option_table build_options = {
	.verb = "build",
	.usage =
		"Usage: slipway build [--kernel] KREL|newest [options]\n"
		"       slipway build --lock FILE | --kernel-from PATH … | --bundle FILE [options]\n"
		"\n"
		"Builds the NIC and the GPU driver image, or one of them, for one kernel release.\n"
		"\n",
	.notes =
		"\n--refresh also makes the base images anew when the package lists have changed: it brings\n"
		"the distribution's updates into the images. Without --os, newest is debian12's.\n"
		"\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct build_options, common),
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
	return options_start(&build_options, argv, ret, ret_code);
}

void build_options_free(struct build_options *options)
{
	common_options_free(&options->common);
	strv_free(&options->kernel_from);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit_code.h"
#include "cli/json.h"
#include "cli/sign/sign_folder.h"
#include "common/arch.h"
#include "common/nearest.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/local/local_image.h"

enum action {
	ACTION_SIGN,
	ACTION_EXPORT,
	ACTION_IMPORT,
};

struct verb {
	struct common_options options;
	enum action action;
	const char *folder;
	const char *key;
	const char *cert;
	const char *hash;
	const char *kernel;
	const char *output;
	const char *digests_path;
	struct sign_password_source password;
	struct strv signatures;
	/* Open files, keys and digests. */
	struct sign_job job;
	struct module_key *private_key;
	struct sign_digests digests;
	char *kernel_hash;
};

static int take_argument(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	if (!verb->folder && access(argument, F_OK) < 0 &&
		(is_slip_of(argument, "export", 2) || is_slip_of(argument, "import", 2)))
		return error_set(error, -EINVAL,
			"%s: no such action, and no such folder; the actions are export and import",
			argument);
	if (!verb->folder) {
		verb->folder = argument;
		return 0;
	}
	if (verb->action != ACTION_IMPORT)
		return error_set(
			error, -EINVAL, "%s: only one folder can be signed at a time", argument);
	xstrv_push(&verb->signatures, argument);
	return 0;
}

/* The modules of an image are signed before it is made. */
static int refuse_image(const char *path, struct error *error)
{
	_cleanup_(local_images_free) struct local_images images = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *list = NULL;
	struct error ignored = { 0 };
	struct stat status;

	if (stat(path, &status) < 0 ||
		local_images_list(path, S_ISREG(status.st_mode), &images, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < images.count; i++)
		xstrv_push_unique(&names, images.items[i].arch);
	list = xstrv_join(&names, ", ");
	(void) error_set(error, -EINVAL, "%s: %s for %s: only a folder of modules can be signed",
		path, names.count > 1 ? "an index with images" : "an image", list);
	for (size_t i = 0; i < names.count; i++) {
		const struct arch *arch = arch_find(names.items[i]);

		(void) error_try(error, -EINVAL,
			"for its %s modules: slipway build --arch %s --sign-key KEY --sign-cert FILE",
			names.items[i], arch ? arch->uname : names.items[i]);
	}
	if (names.count > 1)
		(void) error_try(error, -EINVAL, "then slipway index of the signed images");
	return error_try(error, -EINVAL,
		"to sign what was pushed, with all its images: cosign sign --recursive REFERENCE");
}

/* Each action with what it needs and what means nothing to it. */
static int check(void *target, struct error *error)
{
	const struct verb *verb = target;
	bool has_hash = verb->hash || verb->kernel;
	bool signs = verb->action == ACTION_SIGN;
	bool imports = verb->action == ACTION_IMPORT;

	if (!verb->folder)
		return error_set(error, -EINVAL, "the folder of modules is missing");
	if (signs && !verb->key)
		return error_set(error, -EINVAL, "--key is missing");
	if (!signs && verb->key)
		return error_set(error, -EINVAL,
			"--key: export and import do not use the private "
			"key");
	if (verb->action != ACTION_EXPORT && !verb->cert)
		return error_set(error, -EINVAL, "--cert is missing");
	if (imports != (verb->digests_path != NULL))
		return error_set(error, -EINVAL, "--digests %s",
			imports ? "is missing: the file that export wrote"
				: "applies only to import");
	if (imports && verb->signatures.count == 0)
		return error_set(error, -EINVAL, "the signatures are missing");
	if (!imports && !has_hash)
		return error_set(error, -EINVAL,
			"--hash or --kernel is missing: a kernel knows only the hashes that it was "
			"built with");
	if (imports && has_hash)
		return error_set(error, -EINVAL,
			"--hash and --kernel: the digests file already "
			"names the hash");
	if (verb->output && verb->action != ACTION_EXPORT)
		return error_set(error, -EINVAL,
			"--output applies only to sign export: modules are signed in place");
	return refuse_image(verb->folder, error);
}

static const struct option_rule rules[] = {
	{ .given = "hash", .refuses = "kernel", .why = "only one of them can name the hash" },
	{ .given = "password-file password-fd password-env",
		.needs = "key",
		.why = "the password belongs to a key" },
};

#define SIGN_OPTION(name, letter, argument, kind, member, help)                                    \
	OPTION(name, letter, argument, kind, struct verb, member, help)

static const struct option_row rows[] = {
	SIGN_OPTION("key", 0, "KEY", OPTION_TEXT, key,
		"the private key: a file (PEM, PKCS#8, PKCS#12), or a pkcs11: URI"),
	SIGN_OPTION("cert", 0, "FILE", OPTION_TEXT, cert,
		"the key's certificate (X.509 in DER or PEM), which the kernel must trust"),
	SIGN_OPTION("hash", 0, "ALG", OPTION_TEXT, hash, "sha256, sha384, sha512 …"),
	SIGN_OPTION("kernel", 0, "PATH|KREL", OPTION_TEXT, kernel,
		"take the hash from CONFIG_MODULE_SIG_HASH of this config file, build\n"
		"folder, kernel tree or unpacked kernel package, or of a release whose\n"
		"configuration this machine has; --hash or --kernel is required"),
	SIGN_OPTION("replace", 0, NULL, OPTION_FLAG, job.replace,
		"replace existing signatures; without it they are an error"),
	SIGN_PASSWORD_OPTIONS(struct verb, password),
	SIGN_OPTION("output", 'o', "FILE", OPTION_TEXT, output,
		"export: the file to write, - for stdout [-]"),
	SIGN_OPTION("digests", 0, "FILE", OPTION_TEXT, digests_path,
		"import: the file that export "
		"wrote"),
	SIGN_OPTION("json", 0, NULL, OPTION_FLAG, options.json, "print the result as JSON"),
	SIGN_OPTION("help", 'h', NULL, OPTION_FLAG, options.help, "show this help"),
};

const struct option_table sign_options = {
	.verb = "sign",
	.usage =
		"Usage: slipway sign --key KEY --cert FILE HASH DIR\n"
		"       slipway sign export HASH [-o FILE] DIR\n"
		"       slipway sign import --cert FILE --digests FILE DIR SIGNATURE…\n"
		"\n"
		"Signs all kernel modules below DIR as the kernel's sign-file does, or none. Strip "
		"modules\n"
		"before signing and compress them afterwards. If this machine cannot reach the "
		"key, export\n"
		"writes the digests, and import reads the signatures made elsewhere: files named "
		"DIGEST.sig,\n"
		"or folders of them. docs/build.md has the formats and the commands.\n"
		"\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.only_common = "",
	.common = offsetof(struct verb, options),
	.take_argument = take_argument,
	.check = check,
};

static int open_all(struct verb *verb, struct error *error)
{
	struct module_signer *signer = &verb->job.signer;
	_cleanup_(sign_password_free) char *password = NULL;
	int r = 0;

	signer->hash = verb->hash;
	if (verb->action == ACTION_IMPORT) {
		r = sign_digests_read(verb->digests_path, &verb->digests, error);
		if (r < 0)
			return error_prefix(error, r, "--digests");
		signer->hash = verb->digests.hash;
	} else if (!verb->hash) {
		r = sign_job_kernel_hash(verb->kernel, &verb->kernel_hash, error);
		signer->hash = verb->kernel_hash;
	}
	if (r == 0 && verb->key)
		r = sign_password_read(&verb->password, &password, error);
	if (r == 0 && verb->key)
		r = sign_key_open(verb->key, password, &verb->private_key, error);
	signer->key = verb->private_key;
	if (r == 0 && verb->cert)
		r = module_cert_read(AT_FDCWD, verb->cert, &signer->cert, error);
	if (r == 0 && verb->cert)
		r = module_signer_check(signer, error);
	return r < 0 ? r : sign_set_open(verb->folder, &verb->job.set, error);
}

static void report(const struct verb *verb)
{
	const struct sign_job *job = &verb->job;
	const char *name = module_cert_name(job->signer.cert);
	json_object *root;

	if (!verb->options.json) {
		text_print(stdout, "%zu module%s signed as %s with %s", job->set.paths.count,
			job->set.paths.count == 1 ? "" : "s", name, job->signer.hash);
		if (job->replaced)
			text_print(stdout, ", %zu of them replaced", job->replaced);
		(void) putchar('\n');
		return;
	}
	root = json_object_new_object();
	json_add(root, "modules", json_list(&job->set.paths));
	json_add(root, "replaced", json_object_new_int64((int64_t) job->replaced));
	json_add(root, "hash", json_text(job->signer.hash));
	json_add(root, "certificate", json_text(name));
	json_print(root, stdout);
}

static int run(struct verb *verb, struct error *error)
{
	struct sign_job *job = &verb->job;
	int r = open_all(verb, error);

	if (r < 0)
		return r;
	if (verb->action == ACTION_EXPORT)
		return sign_export(job, verb->output ? verb->output : "-", error);
	r = verb->action == ACTION_IMPORT
		    ? sign_import(job, &verb->digests, &verb->signatures, error)
		    : sign_job_run(job, error);
	if (r == 0)
		r = sign_set_commit(&job->set, error);
	if (r == 0)
		report(verb);
	return r;
}

static enum exit_code exit_code(int r)
{
	switch (r) {
	case -EACCES:
	case -ENOKEY:
		return EXIT_CODE_SIGNATURE;
	case -EINVAL:
	case -ENOENT:
	case -ENOTDIR:
	case -EEXIST:
	case -EBUSY:
	case -ENODATA:
		return EXIT_CODE_USAGE;
	default:
		return exit_code_for(r, EXIT_CODE_INTERNAL);
	}
}

static void verb_close(struct verb *verb)
{
	sign_set_close(&verb->job.set);
	module_key_free(&verb->private_key);
	module_cert_free(&verb->job.signer.cert);
	sign_digests_free(&verb->digests);
	free(verb->kernel_hash);
	strv_free(&verb->signatures);
	common_options_free(&verb->options);
}

int sign_command(char **argv)
{
	_cleanup_(verb_close) struct verb verb = {
		.password.fd = -1,
		.job.set = SIGN_SET_CLOSED,
	};
	struct error error = { 0 };
	int code, r;

	if (argv[1] && strcmp(argv[1], "export") == 0)
		verb.action = ACTION_EXPORT;
	else if (argv[1] && strcmp(argv[1], "import") == 0)
		verb.action = ACTION_IMPORT;
	if (verb.action != ACTION_SIGN)
		argv++;
	if (!options_start(&sign_options, argv, &verb, &code))
		return code;
	r = run(&verb, &error);
	if (r == 0)
		return EXIT_CODE_OK;
	return json_fail("sign", verb.options.json ? "" : NULL, (int) exit_code(r), &error);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/signing.h"

#include <fcntl.h>
#include <string.h>

#include "cli/stage/build.h"

bool signing_wanted(const struct build *build)
{
	return build->options.sign_cert != NULL;
}

/* A descriptor, or a variable of the environment, is every child's; a file's name tells nothing. */
static void hide(const struct sign_password_source *source)
{
	if (source->variable)
		(void) unsetenv(source->variable);
	if (source->fd > STDERR_FILENO)
		(void) fcntl(source->fd, F_SETFD, FD_CLOEXEC);
}

int signing_read_password(struct build *build, struct error *error)
{
	const struct sign_password_source *source = &build->options.sign_password;
	int r = sign_password_read(source, &build->signing.password, error);

	hide(source);
	return r;
}

static int open_pair(struct build *build, struct error *error)
{
	struct signing *signing = &build->signing;
	const struct build_options *options = &build->options;
	struct module_signer signer = { .hash = options->sign_hash ? options->sign_hash
								   : "sha256" };
	int r = module_cert_read(AT_FDCWD, options->sign_cert, &signing->cert, error);

	if (r == 0 && options->sign_key)
		r = module_key_open(options->sign_key, signing->password, &signing->key, error);
	sign_password_free(&signing->password);
	if (r < 0)
		return r;
	signer.cert = signing->cert;
	signer.key = signing->key;
	r = module_signer_check(&signer, error);
	return r < 0 ? r : module_cert_fingerprint(signing->cert, signing->fingerprint, error);
}

static int fail(struct build *build, int r)
{
	if (r == -EACCES || r == -ENOKEY)
		build->context.failure = EXIT_CODE_SIGNATURE;
	else
		(void) context_fail(&build->context, EXIT_CODE_USAGE, r);
	return r;
}

int signing_open(struct build *build, struct error *error)
{
	int r = signing_wanted(build) ? open_pair(build, error) : 0;

	return r < 0 ? fail(build, r) : 0;
}

static void say_other_hash(struct build *build, const char *own)
{
	_cleanup_free_ char *note = NULL;

	if (asprintf(&note,
		    "--sign-hash %s: the kernel's own modules are signed with %s, and whether it "
		    "has another hash built in is not checked",
		    build->options.sign_hash, own) >= 0)
		progress_note(&build->context.progress, note);
}

int signing_settle(struct build *build, struct error *error)
{
	struct build_options *options = &build->options;
	const char *own = build->kernel.record.sig_hash;

	if (!signing_wanted(build))
		return 0;
	if (!options->sign_hash && !*own)
		return fail(build,
			error_set(error, -EINVAL,
				"--sign-cert: kernel %s was built without CONFIG_MODULE_SIG and checks no "
				"signatures: to sign all the same, name the hash with --sign-hash",
				build->kernel.lock.krel));
	if (options->sign_hash && *own && strcmp(options->sign_hash, own) != 0)
		say_other_hash(build, own);
	if (!options->sign_hash)
		options->sign_hash = own;
	return 0;
}

void signing_free(struct signing *signing)
{
	sign_password_free(&signing->password);
	module_key_free(&signing->key);
	module_cert_free(&signing->cert);
}

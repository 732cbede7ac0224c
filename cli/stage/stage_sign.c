/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed sets: a copy of what a recipe left, stripped, with every module of it signed. The key of
 * such a set hashes the unsigned one, the certificate and the hash, and nothing of the private key.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/sign/sign_folder.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define SIGNED_SET "signed-1" /* how sets are signed: those of an older form are made anew */

/* ---- the key */

bool signing_wanted(const struct build *build)
{
	return build->options.sign_cert != NULL;
}

int signing_read_password(struct build *build, struct error *error)
{
	const struct sign_password_source *source = &build->options.sign_password;
	int r = sign_password_read(source, &build->signing.password, error);

	/* A descriptor, or a variable of the environment, is every child's. */
	if (source->variable)
		(void) unsetenv(source->variable);
	if (source->fd > STDERR_FILENO)
		(void) fcntl(source->fd, F_SETFD, FD_CLOEXEC);
	return r;
}

int signing_open(struct build *build, struct error *error)
{
	struct signing *signing = &build->signing;
	const struct build_options *options = &build->options;
	struct module_signer signer = { .hash = options->sign_hash ? options->sign_hash
								   : "sha256" };
	int r;

	if (!signing_wanted(build))
		return 0;
	r = module_cert_read(AT_FDCWD, options->sign_cert, &signing->cert, error);
	if (r == 0 && options->sign_key)
		r = sign_key_open(options->sign_key, signing->password, &signing->key, error);
	sign_password_free(&signing->password);
	if (r < 0)
		return context_fail_key(&build->context, r);
	signer.cert = signing->cert;
	signer.key = signing->key;
	r = module_signer_check(&signer, error);
	if (r == 0)
		r = module_cert_fingerprint(signing->cert, signing->fingerprint, error);
	return r < 0 ? context_fail_key(&build->context, r) : 0;
}

int signing_check_import(const struct build *build, struct error *error)
{
	const char *folder = build->options.sign_import;
	_cleanup_free_ char *signatures = NULL;

	if (!folder)
		return 0;
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const char *set = stage_find(build, STAGE_SET, driver)->name;
		_cleanup_(sign_digests_free) struct sign_digests digests = { 0 };
		_cleanup_free_ char *file = xasprintf("%s/%s.json", folder, set);
		int r = build_has(build, driver) ? sign_digests_read(file, &digests, error) : 0;

		if (r < 0)
			return error_prefix(error, r, "--sign-import");
	}
	signatures = xasprintf("%s/" SIGNING_SIGNATURES, folder);
	return fs_exists(AT_FDCWD, signatures)
		       ? 0
		       : error_set_errno(error, -ENOENT, "--sign-import: %s", signatures);
}

int signing_settle(struct build *build, struct error *error)
{
	struct build_options *options = &build->options;
	const char *own = build->kernel.record.sig_hash;

	if (!signing_wanted(build))
		return 0;
	if (!options->sign_hash && !*own) {
		(void) error_set(error, -EINVAL,
			"--sign-cert: kernel %s was built without CONFIG_MODULE_SIG and checks no "
			"signatures",
			build->target.krel);
		return context_fail_key(&build->context,
			error_try(error, -EINVAL, "--sign-hash HASH, to sign its modules anyway"));
	}
	if (options->sign_hash && *own && strcmp(options->sign_hash, own) != 0)
		progress_notef(&build->context.progress,
			"--sign-hash %s: the kernel's own modules are signed with %s; whether the "
			"kernel supports the other hash is not checked",
			options->sign_hash, own);
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

/* ---- the sets */

bool sign_applies(const struct build *build, const struct stage *stage)
{
	return signing_wanted(build) && build_has(build, stage->of);
}

void sign_key(const struct stage *stage, struct key *key)
{
	(void) stage;
	key_text(key, SIGNED_SET);
	key_text(key, key->build->signing.fingerprint);
	key_text(key, key->build->options.sign_hash);
}

static void job_close(struct sign_job *job)
{
	sign_set_close(&job->set);
}

/* Opens the modules of the set in @folder. */
static int open_set(
	const struct build *build, const char *folder, struct sign_job *job, struct error *error)
{
	_cleanup_free_ char *modules =
		xasprintf("%s/lib/modules/%s/updates", folder, build->target.krel);

	*job = (struct sign_job){
		.set = SIGN_SET_CLOSED,
		.signer = { .key = build->signing.key,
			.cert = build->signing.cert,
			.hash = build->options.sign_hash },
		/* Ours takes the place of one that the source's own build made. */
		.replace = true,
	};
	return sign_set_open(modules, &job->set, error);
}

/* The set's signatures came from elsewhere: --sign-export has written what they are of. */
static int import(struct build *build, struct sign_job *job, const char *set, struct error *error)
{
	const char *folder = build->options.sign_import;
	_cleanup_(sign_digests_free) struct sign_digests digests = { 0 };
	_cleanup_free_ char *file = xasprintf("%s/%s.json", folder, set);
	_cleanup_strv_ struct strv from = { 0 };
	int r = sign_digests_read(file, &digests, error);

	if (r < 0)
		return r;
	if (strcmp(digests.hash, job->signer.hash) != 0) {
		(void) error_set(error, -EINVAL, "%s: the digests are %s, but the kernel needs %s",
			file, digests.hash, job->signer.hash);
		return error_try(error, -EINVAL, "export again: --sign-export");
	}
	xstrv_pushf(&from, "%s/" SIGNING_SIGNATURES, folder);
	return sign_import(job, &digests, &from, error);
}

int sign_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct stage *set = stage_find(build, STAGE_SET, stage->of);
	const char *from = set->cached->path;
	_cleanup_(job_close) struct sign_job job = { .set = SIGN_SET_CLOSED };
	char text[160];
	int r = copy_tree(AT_FDCWD, from, AT_FDCWD, place->folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", from);
	r = open_set(build, place->folder, &job, error);
	if (r == 0)
		r = build->options.sign_import ? import(build, &job, set->name, error)
					       : sign_job_run(&job, error);
	if (r == 0)
		r = sign_set_commit(&job.set, error);
	if (r < 0)
		return r;
	(void) snprintf(text, sizeof(text), "%zu module%s signed as %s with %s",
		job.set.paths.count, job.set.paths.count == 1 ? "" : "s",
		module_cert_name(job.signer.cert), job.signer.hash);
	progress_step(&build->context.progress, text);
	return 0;
}

int sign_export_sets(struct build *build, size_t *ret_count, struct error *error)
{
	const char *folder = build->options.sign_export;
	_cleanup_free_ char *signatures = xasprintf("%s/" SIGNING_SIGNATURES, folder);
	int r = fs_mkdir_parents(AT_FDCWD, signatures, 0755);

	*ret_count = 0;
	if (r < 0)
		return error_set_errno(error, r, "%s", signatures);
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct stage *set = stage_find(build, STAGE_SET, driver);
		_cleanup_(job_close) struct sign_job job = { .set = SIGN_SET_CLOSED };
		_cleanup_free_ char *file = xasprintf("%s/%s.json", folder, set->name);

		if (!build_has(build, driver))
			continue;
		r = open_set(build, set->cached->path, &job, error);
		if (r == 0)
			r = sign_export(&job, file, error);
		if (r < 0)
			return r;
		*ret_count += job.set.paths.count;
	}
	return 0;
}

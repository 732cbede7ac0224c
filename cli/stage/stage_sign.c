/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed sets: a copy of what a recipe left, stripped, with every module of it signed. The key of
 * such a set hashes the unsigned one, the certificate and the hash, and nothing of the private key.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/sign/sign_exchange.h"
#include "common/fs.h"
#include "common/copy.h"

#define SIGNED_SET "signed-1" /* how sets are signed: those of an older form are made anew */

bool ofed_signed_applies(const struct build *build)
{
	return signing_wanted(build) && ofed_applies(build);
}

bool nvidia_signed_applies(const struct build *build)
{
	return signing_wanted(build) && nvidia_applies(build);
}

bool gdrcopy_signed_applies(const struct build *build)
{
	return signing_wanted(build) && gdrcopy_applies(build);
}

bool nvidia_fs_signed_applies(const struct build *build)
{
	return signing_wanted(build) && nvidia_fs_applies(build);
}

int sign_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	(void) error;
	hash_add_text(hash, SIGNED_SET);
	hash_add_text(hash, build->signing.fingerprint);
	hash_add_text(hash, build->options.sign_hash);
	return 0;
}

static void job_close(struct sign_job *job)
{
	sign_set_close(&job->set);
}

static void say_signed(struct build *build, const struct sign_job *job)
{
	char text[160];

	(void) snprintf(text, sizeof(text), "%zu modules signed as %s with %s",
		job->set.paths.count, module_cert_name(job->signer.cert), job->signer.hash);
	progress_step(&build->context.progress, text);
}

static struct sign_job job_of(const struct build *build)
{
	return (struct sign_job){
		.set = SIGN_SET_CLOSED,
		.signer = { .key = build->signing.key,
			.cert = build->signing.cert,
			.hash = build->options.sign_hash },
		/* Ours takes the place of one that the source's own build made. */
		.replace = true,
	};
}

/* The set's signatures came from elsewhere: --sign-export has written what they are of. */
static int import(struct build *build, struct sign_job *job, const char *set, struct error *error)
{
	const char *folder = build->options.sign_import;
	_cleanup_(sign_digests_free) struct sign_digests *digests = NULL;
	_cleanup_strv_ struct strv from = { 0 };
	_cleanup_free_ char *file = NULL;
	int r;

	if (asprintf(&file, "%s/%s.json", folder, set) < 0 ||
		strv_pushf(&from, "%s/" SIGNING_SIGNATURES, folder) < 0)
		return error_set_errno(error, -ENOMEM, "sign");
	r = sign_digests_read(file, &digests, error);
	if (r < 0)
		return r;
	if (strcmp(sign_digests_hash(digests), job->signer.hash) != 0)
		return error_set(error, -EINVAL,
			"%s: its digests are %s, the kernel wants %s: export them anew", file,
			sign_digests_hash(digests), job->signer.hash);
	return sign_import(job, digests, &from, error);
}

static int sign_folder(
	struct build *build, const char *set, const char *folder, struct error *error)
{
	_cleanup_(job_close) struct sign_job job = job_of(build);
	int r = sign_set_open(folder, &job.set, error);

	if (r == 0)
		r = build->options.sign_import ? import(build, &job, set, error)
					       : sign_job_run(&job, error);
	if (r == 0)
		r = sign_set_commit(&job.set, error);
	if (r == 0)
		say_signed(build, &job);
	return r;
}

static char *modules_folder(const struct build *build, const char *set_folder)
{
	char *folder;

	return asprintf(&folder, "%s/lib/modules/%s/updates", set_folder, build->kernel.lock.krel) <
			       0
		       ? NULL
		       : folder;
}

static int export_set(struct build *build, enum stage_id set, size_t *count, struct error *error)
{
	_cleanup_(job_close) struct sign_job job = job_of(build);
	_cleanup_free_ char *folder = modules_folder(build, stage_output(build, set));
	_cleanup_free_ char *file = NULL;
	int r;

	if (!folder ||
		asprintf(&file, "%s/%s.json", build->options.sign_export, stage_get(set)->name) < 0)
		return error_set_errno(error, -ENOMEM, "sign");
	r = sign_set_open(folder, &job.set, error);
	if (r == 0)
		r = sign_export(&job, file, error);
	*count += job.set.paths.count;
	return r;
}

int sign_export_sets(struct build *build, size_t *ret_count, struct error *error)
{
	_cleanup_free_ char *signatures = NULL;
	int r;

	*ret_count = 0;
	if (asprintf(&signatures, "%s/" SIGNING_SIGNATURES, build->options.sign_export) < 0)
		return error_set_errno(error, -ENOMEM, "sign");
	r = fs_mkdir_parents(AT_FDCWD, signatures, 0755);
	if (r < 0)
		return error_set_errno(error, r, "%s", signatures);
	if (ofed_applies(build))
		r = export_set(build, STAGE_OFED, ret_count, error);
	if (r == 0 && nvidia_applies(build))
		r = export_set(build, STAGE_NVIDIA, ret_count, error);
	if (r == 0 && gdrcopy_applies(build))
		r = export_set(build, STAGE_GDRCOPY, ret_count, error);
	if (r == 0 && nvidia_fs_applies(build))
		r = export_set(build, STAGE_NVIDIA_FS, ret_count, error);
	return r;
}

static int run(struct build *build, enum stage_id unsigned_set, const struct stage_place *place,
	struct error *error)
{
	const char *from = stage_output(build, unsigned_set);
	_cleanup_free_ char *folder = modules_folder(build, place->folder);
	int r = copy_tree(AT_FDCWD, from, AT_FDCWD, place->folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", from);
	if (!folder)
		return error_set_errno(error, -ENOMEM, "sign");
	return sign_folder(build, stage_get(unsigned_set)->name, folder, error);
}

int ofed_sign_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, STAGE_OFED, place, error);
}

int nvidia_sign_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, STAGE_NVIDIA, place, error);
}

int gdrcopy_sign_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, STAGE_GDRCOPY, place, error);
}

int nvidia_fs_sign_run(struct build *build, const struct stage_place *place, struct error *error)
{
	return run(build, STAGE_NVIDIA_FS, place, error);
}

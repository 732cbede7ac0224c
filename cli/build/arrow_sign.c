/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed sets: a copy of what a recipe left, stripped, with every module of it signed. The key of
 * such a set hashes the unsigned one, the certificate and the hash, and nothing of the private key.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/build/arrow_tools.h"
#include "cli/sign/sign_job.h"
#include "kernels/archive/copy.h"

#define SIGNED_SET "signed-1" /* how sets are signed: those of an older form are made anew */

bool ofed_signed_applies(const struct build *build)
{
	return signing_wanted(build) && ofed_applies(build);
}

bool nvidia_signed_applies(const struct build *build)
{
	return signing_wanted(build) && nvidia_applies(build);
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

static int sign_folder(struct build *build, const char *folder, struct error *error)
{
	_cleanup_(job_close) struct sign_job job = {
		.set = SIGN_SET_CLOSED,
		.signer = { .key = build->signing.key,
			.cert = build->signing.cert,
			.hash = build->options.sign_hash },
		/* Ours takes the place of one that the source's own build made. */
		.replace = true,
	};
	int r = sign_set_open(folder, &job.set, error);

	if (r == 0)
		r = sign_job_run(&job, error);
	if (r == 0)
		r = sign_set_commit(&job.set, error);
	if (r == 0)
		say_signed(build, &job);
	return r;
}

static int run(struct build *build, enum arrow_id unsigned_set, const struct arrow_place *place,
	struct error *error)
{
	const char *from = arrow_output(build, unsigned_set);
	_cleanup_free_ char *folder = NULL;
	int r = copy_tree(AT_FDCWD, from, AT_FDCWD, place->folder);

	if (r < 0)
		return error_set_errno(error, r, "%s", from);
	if (asprintf(&folder, "%s/lib/modules/%s/updates", place->folder, build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "sign");
	return sign_folder(build, folder, error);
}

int ofed_sign_run(struct build *build, const struct arrow_place *place, struct error *error)
{
	return run(build, ARROW_OFED, place, error);
}

int nvidia_sign_run(struct build *build, const struct arrow_place *place, struct error *error)
{
	return run(build, ARROW_NVIDIA, place, error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of an rpm-md repository: repodata/repomd.xml, its signature, and the primary list. */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/repo/index_job_internal.h"
#include "kernels/repo/repomd_internal.h"
#include "kernels/repo/signature.h"

#define REPOMD_LIMIT_BYTES  ((uint64_t) 4 << 20)
#define PRIMARY_LIMIT_BYTES ((uint64_t) 1 << 30)

static const char repomd_file[] = "repomd.xml";
static const char signature_file[] = "repomd.xml.asc";
static const char primary_file[] = "primary";

struct rpm_state {
	struct repomd repomd;
	bool has_repomd;
};

static void rpm_free(struct index_job *job)
{
	struct rpm_state *state = job->state;

	if (!state)
		return;
	repomd_free(&state->repomd);
	free(state);
	job->state = NULL;
}

static int rpm_start(struct index_job *job, struct error *error)
{
	const struct wanted_file repomd = { .path = "repodata/repomd.xml",
		.name = repomd_file,
		.limit_bytes = REPOMD_LIMIT_BYTES,
		.conditional = true };
	const struct wanted_file signature = { .path = "repodata/repomd.xml.asc",
		.name = signature_file,
		.limit_bytes = REPOMD_LIMIT_BYTES };
	int r;

	job->state = calloc(1, sizeof(struct rpm_state));
	if (!job->state)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	r = index_job_want(job, &repomd, error);
	return r == 0 ? index_job_want(job, &signature, error) : r;
}

static int no_signature(const struct index_job *job, struct error *error)
{
	if (job->options->allow_unsigned || job->request->repository->trust == TRUST_PACKAGES)
		return 0;
	return error_set(error, -EKEYREJECTED,
		"%s: carries no signature: the mirror has no repomd.xml.asc beside it: use another "
		"mirror, or accept the list as it is with --allow-unsigned",
		job->files[0].url);
}

static int check_signature(struct index_job *job, struct error *error)
{
	const struct repository *repository = job->request->repository;
	const struct download_file *file = &job->files[1];
	struct signature_request request = {
		.name = job->files[0].url,
		.folder_fd = job->work_fd,
		.path = repomd_file,
		.detached = signature_file,
		.keyrings = &repository->keyrings,
		.keyring = job->options->keyring,
		/* Where each package is signed, the list's signature is one more, if we have its
		 * key. */
		.allow_unsigned =
			job->options->allow_unsigned || repository->trust == TRUST_PACKAGES,
	};
	_cleanup_(signature_free) struct signature signature = { 0 };
	int r;

	/* Object stores answer 403 for what they do not have. */
	if (file->result == -EADDRNOTAVAIL || file->result == -EACCES)
		return no_signature(job, error);
	if (file->result < 0) {
		*error = file->error;
		return file->result;
	}
	r = signature_check(&request, &signature, error);
	if (r == 0)
		job->made.signer = TAKE_PTR(signature.signer);
	return r;
}

static int read_repomd(struct index_job *job, struct error *error)
{
	struct rpm_state *state = job->state;
	const char *url = job->files[0].url;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(job->work_fd, repomd_file, REPOMD_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", url);
	r = repomd_parse(text, size, url, job->request->url, &state->repomd, error);
	if (r < 0)
		return r;
	state->has_repomd = true;
	job->made.date = strdup(state->repomd.revision);
	return job->made.date ? 0 : error_set_errno(error, -ENOMEM, "%s", url);
}

static int want_primary(struct index_job *job, struct error *error)
{
	const struct rpm_state *state = job->state;
	const struct wanted_file wanted = {
		.path = state->repomd.path,
		.name = primary_file,
		.sha256 = state->repomd.digest == STREAM_SHA256 ? state->repomd.hex : NULL,
		.size_bytes = state->repomd.size_bytes,
		.limit_bytes = PRIMARY_LIMIT_BYTES,
	};

	index_job_forget_files(job);
	return index_job_want(job, &wanted, error);
}

static int take_repomd(struct index_job *job, struct error *error)
{
	const struct download_file *file = &job->files[0];
	int r;

	if (file->result < 0) {
		job->absent = file->result == -EADDRNOTAVAIL;
		*error = file->error;
		return file->result;
	}
	r = file->not_modified ? 0 : index_job_take_head(job, file, repomd_file, error);
	if (r < 0)
		return r;
	if (file->not_modified || index_job_is_known(job)) {
		job->unchanged = true;
		job->done = true;
		return 0;
	}
	r = check_signature(job, error);
	/* Of a mirror in the middle of an update one of the two may be newer than the other. */
	if (r == -EKEYREJECTED && job->files[1].result == 0) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	if (r == 0)
		r = read_repomd(job, error);
	return r == 0 ? want_primary(job, error) : r;
}

static int on_block(void *context, const char *data, size_t size, struct error *error)
{
	return primary_feed(context, data, size, error);
}

static int read_primary(struct index_job *job, struct error *error)
{
	const struct repomd *repomd = &((struct rpm_state *) job->state)->repomd;
	const char *url = job->files[0].url;
	struct primary_request request = {
		.name = url,
		.url = job->request->url,
		.arch = job->request->arch,
		.keep = job->request->keep,
		.packages = &job->made.packages,
		.listed = &job->made.listed,
	};
	_cleanup_(primary_free) struct primary *primary = primary_new(&request);
	_cleanup_close_ int fd = openat(job->work_fd, primary_file, O_RDONLY | O_CLOEXEC);
	struct stream stream = {
		.fd = fd,
		.name = url,
		.limit_bytes = repomd->open_size_bytes,
		.packed = { .digest = repomd->digest, .hex = repomd->hex },
		.unpacked = { .digest = repomd->open_digest,
			.hex = *repomd->open_hex ? repomd->open_hex : NULL },
		.on_block = on_block,
		.context = primary,
	};
	int r;

	if (fd < 0 || !primary)
		return error_set_errno(error, fd < 0 ? -errno : -ENOMEM, "%s", url);
	r = stream_run(&stream, error);
	if (r == 0)
		r = primary_finish(primary, error);
	(void) unlinkat(job->work_fd, primary_file, 0);
	return r;
}

static int take_primary(struct index_job *job, struct error *error)
{
	const struct download_file *file = &job->files[0];
	int r = file->result;

	if (r == 0)
		r = read_primary(job, error);
	else
		*error = file->error;
	/* Its name has its hash in it: after an update the old one is gone. */
	if (r == -EBADMSG || r == -EADDRNOTAVAIL) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	job->done = r == 0;
	return r;
}

static int rpm_take(struct index_job *job, struct error *error)
{
	const struct rpm_state *state = job->state;

	return state->has_repomd ? take_primary(job, error) : take_repomd(job, error);
}

const struct index_kind index_kind_rpm_md = {
	.start = rpm_start,
	.take = rpm_take,
	.free = rpm_free,
};

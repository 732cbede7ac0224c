/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"

/* Fedora's whole list, the largest known, unpacks to a sixth of it. */
#define LIMIT_BYTES ((uint64_t) 2 << 30)

struct job {
	const struct stream *stream;
	int fd;
	struct archive *archive;
	EVP_MD_CTX *packed; /* NULL where nothing is expected */
	EVP_MD_CTX *unpacked;
	off_t offset; /* of the packed file */
	int read_error;
	char block[65536];
};

static void job_free(struct job **job)
{
	(void) archive_read_free((*job)->archive);
	EVP_MD_CTX_free((*job)->packed);
	EVP_MD_CTX_free((*job)->unpacked);
	cleanup_close(&(*job)->fd);
	free(*job);
}

/* Two digits a byte: the length shows which of the SHA-2 hashes it is. */
static EVP_MD_CTX *hash_start(const char *expected)
{
	size_t digits = expected ? strlen(expected) : 0;
	const EVP_MD *digest = digits == 128  ? EVP_sha512()
			       : digits == 96 ? EVP_sha384()
					      : EVP_sha256();
	EVP_MD_CTX *context;

	if (!expected)
		return NULL;
	context = EVP_MD_CTX_new();
	if (!context || EVP_DigestInit_ex(context, digest, NULL) != 1)
		out_of_memory();
	return context;
}

static int hash_check(const struct stream *stream, EVP_MD_CTX *context, const char *expected,
	const char *what, struct error *error)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1];
	unsigned int length = 0;

	if (!context)
		return 0;
	(void) EVP_DigestFinal_ex(context, digest, &length);
	hex_copy(digest, length, hex);
	if (strcmp(hex, expected) == 0)
		return 0;
	return error_set(error, -EBADMSG,
		"%s: %s has the hash %s, but the signed index says %.128s: the file is damaged, or "
		"the mirror is being updated: try again, or use another mirror with --mirror",
		stream->name, what, hex, expected);
}

static la_ssize_t on_read(struct archive *archive, void *context, const void **ret_block)
{
	struct job *job = context;
	ssize_t got;

	do
		got = pread(job->fd, job->block, sizeof(job->block), job->offset);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		job->read_error = -errno;
		archive_set_error(archive, errno, "read error");
		return -1;
	}
	if (job->packed)
		(void) EVP_DigestUpdate(job->packed, job->block, (size_t) got);
	job->offset += got;
	*ret_block = job->block;
	return got;
}

static int damaged(const struct job *job, struct error *error)
{
	const char *why = archive_error_string(job->archive);

	if (job->read_error)
		return error_set_errno(error, job->read_error, "%s", job->stream->name);
	(void) error_set(error, -EPROTO, "%s: cut short or damaged: %s", job->stream->name,
		why ? why : "it cannot be unpacked");
	return error_try(error, -EPROTO, "fetch it again: --refresh");
}

static int unpack(struct job *job, struct error *error)
{
	const struct stream *stream = job->stream;
	const uint64_t limit = stream->limit_bytes ? stream->limit_bytes : LIMIT_BYTES;
	struct archive_entry *entry;
	uint64_t total = 0;
	int r;

	(void) archive_read_support_filter_xz(job->archive);
	(void) archive_read_support_filter_gzip(job->archive);
	(void) archive_read_support_filter_zstd(job->archive);
	(void) archive_read_support_filter_bzip2(job->archive);
	(void) archive_read_support_format_raw(job->archive);
	(void) archive_read_support_format_empty(job->archive);
	if (archive_read_open(job->archive, job, NULL, on_read, NULL) < ARCHIVE_WARN)
		return damaged(job, error);
	r = archive_read_next_header(job->archive, &entry);
	while (r != ARCHIVE_EOF) {
		const void *block;
		size_t size;
		la_int64_t offset;

		if (r >= ARCHIVE_WARN)
			r = archive_read_data_block(job->archive, &block, &size, &offset);
		if (r == ARCHIVE_EOF)
			break;
		if (r < ARCHIVE_WARN)
			return damaged(job, error);
		total += size;
		if (total > limit)
			return error_set(error, -EFBIG,
				"%s: larger than the %llu bytes allowed when unpacked: refused",
				stream->name, (unsigned long long) limit);
		if (job->unpacked)
			(void) EVP_DigestUpdate(job->unpacked, block, size);
		r = stream->on_block(stream->context, block, size, error);
		if (r != 0)
			return r;
	}
	return 0;
}

int stream_run(const struct stream *stream, struct error *error)
{
	_cleanup_(job_free) struct job *job = xcalloc(1, sizeof(*job));
	const void *block;
	la_ssize_t got;
	int r;

	job->stream = stream;
	job->fd = fs_open(stream->dir_fd, stream->path, O_RDONLY);
	if (job->fd < 0)
		return error_set_errno(error, job->fd, "%s", stream->name);
	job->archive = archive_read_new();
	if (!job->archive)
		out_of_memory();
	job->packed = hash_start(stream->packed);
	job->unpacked = hash_start(stream->unpacked);
	r = unpack(job, error);
	if (r != 0)
		return r;
	/* Data after the packed stream is part of the file's hash too. */
	while ((got = on_read(job->archive, job, &block)) > 0)
		;
	if (got < 0)
		return damaged(job, error);
	r = hash_check(stream, job->packed, stream->packed, "it", error);
	return r < 0 ? r
		     : hash_check(stream, job->unpacked, stream->unpacked, "what it holds", error);
}

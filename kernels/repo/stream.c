/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/stream_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define BLOCK_BYTES ((size_t) 64 << 10)

static const struct magic {
	char bytes[6];
	size_t length;
	int filter;
	off_t smallest; /* size of a file that unpacks to nothing */
} magics[] = {
	{ "\xfd"
	  "7zXZ",
		6, ARCHIVE_FILTER_XZ, 32 },
	{ "\x1f\x8b", 2, ARCHIVE_FILTER_GZIP, 20 },
	{ "\x28\xb5\x2f\xfd", 4, ARCHIVE_FILTER_ZSTD, 9 },
	{ "BZh", 3, ARCHIVE_FILTER_BZIP2, 14 },
};

struct job {
	const struct stream *stream;
	struct archive *archive;
	EVP_MD_CTX *packed; /* NULL where nothing is expected */
	EVP_MD_CTX *unpacked;
	const struct magic *magic; /* NULL for what is not packed */
	off_t size;
	uint64_t offset; /* of the packed file */
	int read_error;
	char block[BLOCK_BYTES];
};

int stream_digest_of(const char *name, enum stream_digest *ret)
{
	static const char *const names[] = { "sha256", "sha384", "sha512" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0) {
			*ret = (enum stream_digest) i;
			return 0;
		}
	return -ENOTSUP;
}

static void job_free(struct job **job)
{
	if (!*job)
		return;
	if ((*job)->archive)
		(void) archive_read_free((*job)->archive);
	EVP_MD_CTX_free((*job)->packed);
	EVP_MD_CTX_free((*job)->unpacked);
	free(*job);
	*job = NULL;
}

static int hash_start(const struct stream_hash *expected, EVP_MD_CTX **ret)
{
	const EVP_MD *digest = expected->digest == STREAM_SHA256   ? EVP_sha256()
			       : expected->digest == STREAM_SHA384 ? EVP_sha384()
								   : EVP_sha512();
	EVP_MD_CTX *context;

	if (!expected->hex)
		return 0;
	context = EVP_MD_CTX_new();
	if (!context || EVP_DigestInit_ex(context, digest, NULL) != 1) {
		EVP_MD_CTX_free(context);
		return -ENOMEM;
	}
	*ret = context;
	return 0;
}

static int hash_check(const struct stream *stream, EVP_MD_CTX *context,
	const struct stream_hash *expected, const char *what, struct error *error)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
	unsigned int length = 0;

	if (!context)
		return 0;
	(void) EVP_DigestFinal_ex(context, digest, &length);
	for (unsigned int i = 0; i < length; i++)
		(void) snprintf(hex + (size_t) 2 * i, 3, "%02x", digest[i]);
	if (strcmp(hex, expected->hex) == 0)
		return 0;
	return error_set(error, -EBADMSG,
		"%s: %s has the hash %s, but the signed index says %.128s: the file is damaged, or "
		"the mirror is being updated: try again, or use another mirror with --mirror",
		stream->name, what, hex, expected->hex);
}

static la_ssize_t on_read(struct archive *archive, void *context, const void **ret_block)
{
	struct job *job = context;
	ssize_t got;

	do
		got = pread(job->stream->fd, job->block, sizeof(job->block), (off_t) job->offset);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		job->read_error = -errno;
		archive_set_error(archive, errno, "read error");
		return -1;
	}
	if (job->packed)
		(void) EVP_DigestUpdate(job->packed, job->block, (size_t) got);
	job->offset += (uint64_t) got;
	*ret_block = job->block;
	return got;
}

static int damaged(const struct job *job, struct error *error)
{
	const char *why = archive_error_string(job->archive);

	if (job->read_error)
		return error_set_errno(error, job->read_error, "%s", job->stream->name);
	return error_set(error, -EPROTO,
		"%s: cannot be unpacked: %s: the file is cut or damaged: fetch it again with "
		"--refresh",
		job->stream->name, why ? why : "damaged");
}

static const struct magic *magic_of(const char *start, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (size >= magics[i].length &&
			memcmp(start, magics[i].bytes, magics[i].length) == 0)
			return &magics[i];
	return NULL;
}

/*
 * Where a packed file ends before its first byte could be unpacked, libarchive takes it for an
 * empty one. Those have few bytes more than their format needs.
 */
static int check_empty(const struct job *job, struct error *error)
{
	off_t size = job->size;

	if (!job->magic || (size >= job->magic->smallest && size <= job->magic->smallest + 8))
		return 0;
	return damaged(job, error);
}

/* Exactly one filter, so that nothing inside a list is taken for another compressed file. */
static int add_filter(struct job *job, struct error *error)
{
	char start[6];
	ssize_t got = pread(job->stream->fd, start, sizeof(start), 0);
	struct stat status;

	if (got < 0 || fstat(job->stream->fd, &status) < 0)
		return error_set_errno(error, -errno, "%s", job->stream->name);
	job->size = status.st_size;
	job->magic = magic_of(start, (size_t) got);
	return archive_read_append_filter(job->archive,
		       job->magic ? job->magic->filter : ARCHIVE_FILTER_NONE) < ARCHIVE_WARN
		       ? damaged(job, error)
		       : 0;
}

static int copy_blocks(struct job *job, struct error *error)
{
	const struct stream *stream = job->stream;
	uint64_t limit = stream->limit_bytes ? stream->limit_bytes : STREAM_LIMIT_BYTES;
	uint64_t total = 0;

	for (;;) {
		const void *block;
		size_t size;
		la_int64_t offset;
		int r = archive_read_data_block(job->archive, &block, &size, &offset);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			return damaged(job, error);
		total += size;
		if (total > limit)
			return error_set(error, -EFBIG,
				"%s: unpacks to more than the %llu bytes that it may have: "
				"refused",
				stream->name, (unsigned long long) limit);
		if (job->unpacked)
			(void) EVP_DigestUpdate(job->unpacked, block, size);
		r = stream->on_block(stream->context, block, size, error);
		if (r != 0)
			return r;
	}
}

/* What follows the packed data is part of the file's hash too. */
static int drain(struct job *job, struct error *error)
{
	const void *block;
	la_ssize_t got;

	while ((got = on_read(job->archive, job, &block)) > 0)
		;
	return got < 0 ? damaged(job, error) : 0;
}

static int unpack(struct job *job, struct error *error)
{
	struct archive_entry *entry;
	int r = add_filter(job, error);

	if (r < 0)
		return r;
	(void) archive_read_support_format_raw(job->archive);
	(void) archive_read_support_format_empty(job->archive);
	if (archive_read_open(job->archive, job, NULL, on_read, NULL) < ARCHIVE_WARN)
		return damaged(job, error);
	r = archive_read_next_header(job->archive, &entry);
	if (r == ARCHIVE_EOF)
		return check_empty(job, error);
	if (r < ARCHIVE_WARN)
		return damaged(job, error);
	return copy_blocks(job, error);
}

int stream_run(const struct stream *stream, struct error *error)
{
	_cleanup_(job_free) struct job *job = calloc(1, sizeof(*job));
	int r = job ? 0 : -ENOMEM;

	if (r == 0) {
		job->stream = stream;
		job->archive = archive_read_new();
		r = job->archive ? hash_start(&stream->packed, &job->packed) : -ENOMEM;
	}
	if (r == 0)
		r = hash_start(&stream->unpacked, &job->unpacked);
	if (r < 0)
		return error_set_errno(error, r, "%s", stream->name);
	r = unpack(job, error);
	if (r == 0)
		r = drain(job, error);
	if (r == 0)
		r = hash_check(stream, job->packed, &stream->packed, "it", error);
	if (r == 0)
		r = hash_check(stream, job->unpacked, &stream->unpacked, "what it holds", error);
	return r;
}

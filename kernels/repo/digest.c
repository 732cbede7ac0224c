/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/digest_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/repo/index.h"
#include "kernels/repo/signature.h"

/* Raise the number whenever what is written changes. */
#define FIRST_FIELD "Slipway-Index: 1 "

/* A tenth of what a list of 60,000 packages would be. */
#define DIGEST_LIMIT_BYTES ((size_t) 64 << 20)

void digest_free(struct digest *digest)
{
	free(digest->absent);
	free(digest->release_sha256);
	free(digest->date);
	free(digest->signer);
	free(digest->etag);
	free(digest->last_modified);
	package_list_free(&digest->packages);
	*digest = (struct digest){ 0 };
}

int digest_name(
	const struct index_request *request, const struct index_options *options, char **ret_name)
{
	const struct repository *repository = request->repository;
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	if (!hash)
		return -ENOMEM;
	hash_add_text(hash, FIRST_FIELD);
	hash_add_text(hash, request->url);
	hash_add_text(hash, request->arch);
	hash_add_text(hash, repository->suite);
	hash_add_text(hash, repository->components);
	hash_add_text(hash, repository->kind == REPOSITORY_APT ? "apt" : "rpm-md");
	signature_hash_keyring(&repository->keyrings, options->keyring, hash);
	for (size_t i = 0; i < request->keep->count; i++)
		hash_add_text(hash, request->keep->items[i]);
	hash_finish(hash, hex);
	return asprintf(ret_name, "%s.digest", hex) < 0 ? -ENOMEM : 0;
}

static int64_t number_of(const char *text)
{
	return text && *text && strlen(text) <= 18 && text[strspn(text, "0123456789")] == '\0'
		       ? (int64_t) strtoull(text, NULL, 10)
		       : 0;
}

static int take_head(struct digest *digest, const struct stanza *stanza)
{
	const struct {
		const char *field;
		char **slot;
	} texts[] = {
		{ "Absent", &digest->absent },
		{ "Release-SHA256", &digest->release_sha256 },
		{ "Date", &digest->date },
		{ "Signer", &digest->signer },
		{ "ETag", &digest->etag },
		{ "Last-Modified", &digest->last_modified },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *value = stanza_value(stanza, texts[i].field);

		if (!value || !*value)
			continue;
		*texts[i].slot = strdup(value);
		if (!*texts[i].slot)
			return -ENOMEM;
	}
	digest->valid_until_s = number_of(stanza_value(stanza, "Valid-Until"));
	digest->listed = (uint64_t) number_of(stanza_value(stanza, "Listed"));
	digest->not_automatic = stanza_value(stanza, "NotAutomatic") != NULL;
	return 0;
}

struct job {
	struct digest *digest;
	const char *name;
	bool has_head;
};

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct job *job = context;
	struct package package = { 0 };
	int r;

	if (!job->has_head) {
		job->has_head = true;
		r = take_head(job->digest, stanza);
		return r < 0 ? error_set_errno(error, r, "%s", job->name) : 0;
	}
	r = package_from_stanza(stanza, job->name, &package, error);
	if (r == 0 && package_list_push(&job->digest->packages, &package) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", job->name);
	return r;
}

static int damaged(const char *name, const char *why, struct error *error)
{
	return error_set(error, -EUCLEAN,
		"indexes/%s: the cached list is damaged: %s: it is fetched again as soon as the "
		"mirror can be asked",
		name, why);
}

static bool hash_matches(const char *text, size_t size, const char *hex)
{
	struct hash *hash = hash_new();
	char found[HASH_HEX_SIZE];

	if (!hash)
		return false;
	hash_add(hash, text, size);
	hash_finish(hash, found);
	return memcmp(found, hex, HASH_HEX_SIZE - 1) == 0;
}

int digest_parse(char *text, size_t size, const char *name, struct digest *ret, struct error *error)
{
	const size_t start = strlen(FIRST_FIELD);
	const size_t head = start + HASH_HEX_SIZE; /* with the line's end */
	_cleanup_(digest_free) struct digest digest = { 0 };
	struct job job = { .digest = &digest, .name = name };
	_cleanup_(stanza_reader_free) struct stanza_reader *reader = NULL;
	struct error why = { 0 };
	int r;

	if (size < head || memcmp(text, FIRST_FIELD, start) != 0 || text[head - 1] != '\n')
		return damaged(name, "it does not start as one", error);
	if (!hash_matches(text + head, size - head, text + start))
		return damaged(name, "its hash differs", error);
	reader = stanza_reader_new(name, on_stanza, &job);
	if (!reader)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = stanza_reader_feed(reader, text + head, size - head, &why);
	if (r == 0)
		r = stanza_reader_finish(reader, &why);
	if (r == -ENOMEM)
		return error_set_errno(error, r, "%s", name);
	if (r < 0)
		return damaged(name, why.text, error);
	if (!job.has_head)
		return damaged(name, "it is empty", error);
	*ret = digest;
	digest = (struct digest){ 0 };
	return 0;
}

int digest_read(int folder_fd, const char *name, struct digest *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	struct stat status = { 0 };
	size_t size;
	int r = fs_read(folder_fd, name, DIGEST_LIMIT_BYTES * 2, &text, &size);

	if (r == 0 && fstatat(folder_fd, name, &status, 0) < 0)
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "indexes/%s", name);
	r = digest_parse(text, size, name, ret, error);
	if (r == 0)
		ret->asked_s = status.st_mtime;
	return r;
}

static void write_field(FILE *file, const char *field, const char *value)
{
	if (value && *value)
		fprintf(file, "%s: %s\n", field, value);
}

static void write_body(FILE *file, const struct digest *digest)
{
	write_field(file, "Absent", digest->absent);
	write_field(file, "Release-SHA256", digest->release_sha256);
	write_field(file, "Date", digest->date);
	write_field(file, "Signer", digest->signer);
	write_field(file, "ETag", digest->etag);
	write_field(file, "Last-Modified", digest->last_modified);
	if (digest->not_automatic)
		write_field(file, "NotAutomatic", "yes");
	if (digest->valid_until_s > 0)
		fprintf(file, "Valid-Until: %" PRId64 "\n", digest->valid_until_s);
	fprintf(file, "Listed: %" PRIu64 "\n\n", digest->listed);
	for (size_t i = 0; i < digest->packages.count; i++)
		package_write(&digest->packages.items[i], file);
}

/* The hash stands before what it covers, hence its place is left free at first. */
static int make_text(const struct digest *digest, char **ret_text, size_t *ret_size)
{
	const size_t start = strlen(FIRST_FIELD);
	const size_t head = start + HASH_HEX_SIZE;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	char hex[HASH_HEX_SIZE];
	struct hash *hash;

	if (!file)
		return -errno;
	fprintf(file, "%s%*s\n", FIRST_FIELD, HASH_HEX_SIZE - 1, "");
	write_body(file, digest);
	if (fclose(file) != 0)
		return -ENOMEM;
	hash = hash_new();
	if (!hash)
		return -ENOMEM;
	hash_add(hash, text + head, size - head);
	hash_finish(hash, hex);
	memcpy(text + start, hex, HASH_HEX_SIZE - 1);
	*ret_text = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

int digest_write(int folder_fd, const char *name, const struct digest *digest, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = make_text(digest, &text, &size);

	if (r == 0 && size > DIGEST_LIMIT_BYTES)
		return error_set(error, -EFBIG,
			"indexes/%s: %zu bytes of packages are to be kept of one list: refused",
			name, size);
	if (r == 0)
		r = fs_write_atomic(folder_fd, name, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "indexes/%s", name) : 0;
}

int digest_touch(int folder_fd, const char *name, struct error *error)
{
	if (utimensat(folder_fd, name, NULL, 0) < 0)
		return error_set_errno(error, -errno, "indexes/%s", name);
	return 0;
}

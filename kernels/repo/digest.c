/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/repo/signature.h"

/* Raise the number whenever what is written changes. */
#define FIRST_FIELD "Slipway-Index: 1 "
#define START       (sizeof(FIRST_FIELD) - 1)
#define HEAD        (START + HASH_HEX_SIZE) /* with the line's end */

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

char *digest_name(const struct index_request *request, const struct index_options *options)
{
	const struct repository *repository = request->repository;
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

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
	return xasprintf("%s.digest", hex);
}

/* The fields about the list as a whole that are texts: written in this order, if not empty. */
static const struct field {
	const char *name;
	size_t offset;
} fields[] = {
	{ "Absent", offsetof(struct digest, absent) },
	{ "Release-SHA256", offsetof(struct digest, release_sha256) },
	{ "Date", offsetof(struct digest, date) },
	{ "Signer", offsetof(struct digest, signer) },
	{ "ETag", offsetof(struct digest, etag) },
	{ "Last-Modified", offsetof(struct digest, last_modified) },
};

static char **slot_of(const struct digest *digest, const struct field *field)
{
	return (char **) ((uintptr_t) digest + field->offset);
}

struct job {
	struct digest *digest;
	const char *name;
	bool has_head;
};

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct job *job = context;
	struct digest *digest = job->digest;
	struct package package = { 0 };
	uint64_t until_s = 0;
	int r;

	if (job->has_head) {
		r = package_from_stanza(stanza, job->name, &package, error);
		if (r == 0)
			package_list_push(&digest->packages, &package);
		return r;
	}
	job->has_head = true;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = stanza_value(stanza, fields[i].name);

		if (value && *value)
			*slot_of(digest, &fields[i]) = xstrdup(value);
	}
	(void) list_number(stanza_value(stanza, "Valid-Until"), &until_s);
	(void) list_number(stanza_value(stanza, "Listed"), &digest->listed);
	digest->valid_until_s = (int64_t) until_s;
	digest->not_automatic = stanza_value(stanza, "NotAutomatic") != NULL;
	return 0;
}

static int damaged(const char *name, const char *why, struct error *error)
{
	return error_set(error, -EUCLEAN,
		"indexes/%s: the cached list is damaged: %s: it is fetched again as soon as the "
		"mirror can be asked",
		name, why);
}

int digest_parse(
	const char *text, size_t size, const char *name, struct digest *ret, struct error *error)
{
	_cleanup_(digest_free) struct digest digest = { 0 };
	struct job job = { .digest = &digest, .name = name };
	_cleanup_(stanza_reader_free) struct stanza_reader *reader = NULL;
	char hex[HASH_HEX_SIZE];
	struct error why = { 0 };
	int r;

	if (size < HEAD || memcmp(text, FIRST_FIELD, START) != 0 || text[HEAD - 1] != '\n')
		return damaged(name, "it does not start as one", error);
	hash_bytes(text + HEAD, size - HEAD, hex);
	if (memcmp(text + START, hex, HASH_HEX_SIZE - 1) != 0)
		return damaged(name, "its hash differs", error);
	reader = stanza_reader_new(name, on_stanza, &job);
	r = stanza_reader_feed(reader, text + HEAD, size - HEAD, &why);
	if (r == 0)
		r = stanza_reader_finish(reader, &why);
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

int digest_write(int folder_fd, const char *name, const struct digest *digest, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	char hex[HASH_HEX_SIZE];
	int r;

	if (!file)
		out_of_memory();
	/* The hash stands before what it covers: its place is left free at first. */
	fprintf(file, "%s%*s\n", FIRST_FIELD, HASH_HEX_SIZE - 1, "");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = *slot_of(digest, &fields[i]);

		if (value && *value)
			fprintf(file, "%s: %s\n", fields[i].name, value);
	}
	if (digest->not_automatic)
		fputs("NotAutomatic: yes\n", file);
	if (digest->valid_until_s > 0)
		fprintf(file, "Valid-Until: %" PRId64 "\n", digest->valid_until_s);
	fprintf(file, "Listed: %" PRIu64 "\n\n", digest->listed);
	for (size_t i = 0; i < digest->packages.count; i++)
		package_write(&digest->packages.items[i], file);
	if (fclose(file) != 0)
		out_of_memory();
	if (size > DIGEST_LIMIT_BYTES)
		return error_set(error, -EFBIG,
			"indexes/%s: %zu bytes of packages are to be kept of one list: refused",
			name, size);
	hash_bytes(text + HEAD, size - HEAD, hex);
	memcpy(text + START, hex, HASH_HEX_SIZE - 1);
	r = fs_write_atomic(folder_fd, name, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "indexes/%s", name) : 0;
}

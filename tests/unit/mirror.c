/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mirror.h"

#include <archive.h>
#include <archive_entry.h>

#include "common/fs.h"
#include "common/hash.h"

static int filter_of(const char *path)
{
	static const struct {
		const char *suffix;
		int filter;
	} filters[] = {
		{ ".xz", ARCHIVE_FILTER_XZ },
		{ ".gz", ARCHIVE_FILTER_GZIP },
		{ ".zst", ARCHIVE_FILTER_ZSTD },
		{ ".bz2", ARCHIVE_FILTER_BZIP2 },
	};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(filters); i++)
		if (strcmp(dot, filters[i].suffix) == 0)
			return filters[i].filter;
	return ARCHIVE_FILTER_NONE;
}

void mirror_pack(const struct folder *folder, const char *path, const char *text)
{
	struct archive *archive = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	_cleanup_free_ char *full = NULL;

	folder_write_text(folder, path, ""); /* its parents */
	assert_true(asprintf(&full, "%s/%s", folder->path, path) > 0);
	assert_int_equal(archive_write_set_format_raw(archive), ARCHIVE_OK);
	assert_true(archive_write_add_filter(archive, filter_of(path)) >= ARCHIVE_WARN);
	/* Otherwise small files are padded to a block. */
	assert_int_equal(archive_write_set_bytes_in_last_block(archive, 1), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(archive, full), ARCHIVE_OK);
	archive_entry_set_filetype(entry, AE_IFREG);
	assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
	assert_int_equal(archive_write_data(archive, text, strlen(text)), (int) strlen(text));
	archive_entry_free(entry);
	assert_int_equal(archive_write_free(archive), ARCHIVE_OK);
}

void mirror_hash(const struct folder *folder, const char *path, char hex[65], size_t *ret_size)
{
	struct hash *hash = hash_new();
	struct stat status;

	assert_non_null(hash);
	assert_int_equal(hash_add_file(hash, folder->fd, path), 0);
	hash_finish(hash, hex);
	assert_int_equal(fstatat(folder->fd, path, &status, 0), 0);
	*ret_size = (size_t) status.st_size;
}

static void list_file(const struct folder *folder, FILE *release, const char *name)
{
	_cleanup_free_ char *path = NULL;
	char hex[65];
	size_t size;

	assert_true(asprintf(&path, "mirror/dists/stable/%s", name) > 0);
	mirror_hash(folder, path, hex, &size);
	fprintf(release, " %s %zu %s\n", hex, size, name);
}

void mirror_publish(const struct folder *folder, const struct suite *suite)
{
	static const char in_release[] = "mirror/dists/stable/InRelease";
	char *text = NULL;
	size_t size;
	FILE *release = open_memstream(&text, &size);

	fprintf(release, "Suite: stable\nDate: Thu, 19 Nov 2026 02:12:54 UTC\n%sSHA256:\n",
		suite->fields);
	for (const char *const *list = suite->lists; *list; list++)
		list_file(folder, release, *list);
	if (suite->plain) {
		char hex[65];
		size_t plain_size;

		folder_write_text(folder, "plain", suite->plain);
		mirror_hash(folder, "plain", hex, &plain_size);
		fprintf(release, " %s %zu main/binary-amd64/Packages\n", hex, plain_size);
	}
	(void) fclose(release);
	folder_write_text(folder, suite->unsigned_one ? in_release : "Release", text);
	if (!suite->unsigned_one)
		signing_sign(folder, NULL, "--clearsign", "Release", in_release);
	free(text);
}

static char empty[] = "", name[] = "test", stable[] = "stable", main_component[] = "main";

void asking_start(const struct folder *folder, enum repository_kind kind, struct asking *ret)
{
	*ret = (struct asking){
		.repository = { .name = name,
			.kind = kind,
			.mirror = name,
			.path = empty,
			.origin = empty,
			.label = empty,
			.suite = kind == REPOSITORY_APT ? stable : empty,
			.components = kind == REPOSITORY_APT ? main_component : empty,
			.client_certificate = empty,
			.certificate_authority = empty },
		.mirror = { .name = name, .url = ret->url, .source = name },
	};
	(void) snprintf(ret->url, sizeof(ret->url), "file://%s/mirror", folder->path);
	(void) snprintf(ret->keyring, sizeof(ret->keyring), "%s/key.gpg", folder->path);
	assert_int_equal(strv_push(&ret->keep, "linux-"), 0);
	assert_int_equal(strv_push(&ret->keep, "kernel"), 0);
	ret->request = (struct index_request){ .url = ret->url, .arch = "x86_64" };
	folder_subfolder(folder, "indexes");
}

int asking_run(struct asking *asking, const struct folder *folder, bool offline)
{
	_cleanup_close_ int indexes_fd =
		openat(folder->fd, "indexes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct download_options options = { .offline = offline, .attempts = 1 };
	struct error error = { 0 };

	indexes_free(&asking->index, asking->index ? 1 : 0);
	asking->request.repository = &asking->repository;
	asking->request.mirror = &asking->mirror;
	asking->request.keep = &asking->keep;
	asking->options.keyring = asking->no_keyring ? NULL : asking->keyring;
	asking->options.folder_fd = indexes_fd;
	asking->options.download = download_open(&options);
	if (indexes_open(&asking->options, &asking->request, 1, &asking->index, &error) < 0)
		fail_msg("%s", error.text);
	download_close(&asking->options.download);
	assert_false(fs_exists(indexes_fd, "work"));
	return asking->index->result;
}

const char *asking_error(const struct asking *asking)
{
	return asking->index->error.text;
}

void asking_done(struct asking *asking)
{
	indexes_free(&asking->index, asking->index ? 1 : 0);
	strv_free(&asking->keep);
}

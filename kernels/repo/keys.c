/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/keys.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/openpgp_internal.h"

#define FILE_LIMIT_BYTES ((size_t) 1 << 20)
#define KEYS_MAX         64 /* Fedora's file has those of all its releases */

char *key_fingerprint_clean(const char *text)
{
	char *clean = xcalloc(strlen(text) + 1, 1);
	size_t length = 0;

	if (strncmp(text, "0x", 2) == 0)
		text += 2;
	for (const char *c = text; *c; c++) {
		if (*c == ' ' || *c == ':')
			continue;
		if (!isxdigit((unsigned char) *c) || length == KEY_FINGERPRINT_LENGTH) {
			free(clean);
			return NULL;
		}
		clean[length++] = (char) toupper((unsigned char) *c);
	}
	if (length == KEY_FINGERPRINT_LENGTH)
		return clean;
	free(clean);
	return NULL;
}

static bool is_published(const struct mirror_key *key, const char *fingerprint)
{
	for (size_t i = 0; i < key->fingerprints.count; i++) {
		_cleanup_free_ char *clean = key_fingerprint_clean(key->fingerprints.items[i]);

		if (clean && strcmp(clean, fingerprint) == 0)
			return true;
	}
	return false;
}

/* Appends the keys of one file. */
static int add_file(const struct mirror_key *key, const char *url, int folder_fd, const char *path,
	struct fetched_keys *keys, struct error *error)
{
	struct openpgp_key found[KEYS_MAX];
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *data = NULL;
	size_t size = 0, count;
	int r = fs_read(folder_fd, path, FILE_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", url);
	data = openpgp_read_keys(text, size, &size);
	count = data ? openpgp_list_keys(data, size, found, KEYS_MAX) : 0;
	if (count == 0)
		return error_set(
			error, -EBADMSG, "%s: the file has no OpenPGP key that gpgv can read", url);
	keys->data = xreallocarray(keys->data, keys->size_bytes + size, 1);
	memcpy(keys->data + keys->size_bytes, data, size);
	keys->size_bytes += size;
	keys->items = xreallocarray(keys->items, keys->count + count, sizeof(*keys->items));
	for (size_t i = 0; i < count; i++) {
		struct fetched_key *item = &keys->items[keys->count++];

		*item = (struct fetched_key){ .is_published =
						      is_published(key, found[i].fingerprint) };
		memcpy(item->fingerprint, found[i].fingerprint, sizeof(item->fingerprint));
		memcpy(item->user, found[i].user, sizeof(item->user));
	}
	return 0;
}

int keys_fetch(const struct mirror_key *key, struct download *download, int folder_fd,
	struct fetched_keys *ret, struct error *error)
{
	_cleanup_(fetched_keys_free) struct fetched_keys keys = { 0 };
	const struct mirror_credentials credentials = { .certificate_authority =
								key->certificate_authority };

	for (size_t i = 0; i < key->urls.count; i++) {
		/* Runs in containers that share the cache may have the same process ID. */
		_cleanup_free_ char *name = fs_temporary("key");
		struct download_file file = { .url = key->urls.items[i],
			.dir_fd = folder_fd,
			.path = name,
			.limit_bytes = FILE_LIMIT_BYTES,
			.credentials = &credentials };
		struct download_file *files[] = { &file };
		int r;

		if (!name)
			out_of_memory();
		download_run(download, files, 1);
		r = file.result;
		if (r < 0)
			*error = file.error;
		else
			r = add_file(key, file.url, folder_fd, name, &keys, error);
		download_file_done(&file);
		(void) unlinkat(folder_fd, name, 0);
		if (r < 0)
			return r;
	}
	*ret = keys;
	keys = (struct fetched_keys){ 0 };
	return 0;
}

void fetched_keys_free(struct fetched_keys *keys)
{
	free(keys->items);
	free(keys->data);
	*keys = (struct fetched_keys){ 0 };
}

int keys_keep(const struct mirror_key *key, const struct fetched_keys *keys,
	const struct strv *fingerprints, char **ret_path, struct error *error)
{
	struct openpgp_key found[KEYS_MAX];
	size_t count = openpgp_list_keys(keys->data, keys->size_bytes, found, KEYS_MAX);
	_cleanup_free_ char *path = catalogue_accepted_key(key->name);
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *data = xcalloc(keys->size_bytes + 1, 1);
	size_t size = 0;
	int r;

	if (!path)
		return error_set(error, -ENOENT,
			"key %s: it cannot be kept without a home folder: set HOME or "
			"XDG_CONFIG_HOME, or give the key with --keyring FILE",
			key->name);
	for (size_t i = 0; i < count; i++) {
		if (!strv_contains(fingerprints, found[i].fingerprint))
			continue;
		memcpy(data + size, keys->data + found[i].offset, found[i].size_bytes);
		size += found[i].size_bytes;
	}
	folder = xstrndup(path, (size_t) (strrchr(path, '/') - path));
	r = fs_mkdir_parents(AT_FDCWD, folder, 0755);
	if (r == 0)
		r = fs_write_atomic(AT_FDCWD, path, data, size, 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	*ret_path = TAKE_PTR(path);
	return 0;
}

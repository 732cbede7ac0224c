/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"

struct hash {
	EVP_MD_CTX *context;
};

struct hash *hash_new(void)
{
	struct hash *hash = xcalloc(1, sizeof(*hash));

	hash->context = EVP_MD_CTX_new();
	if (!hash->context || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1)
		out_of_memory();
	return hash;
}

void hash_add(struct hash *hash, const void *data, size_t size)
{
	(void) EVP_DigestUpdate(hash->context, data, size);
}

void hash_add_text(struct hash *hash, const char *text)
{
	hash_add(hash, text, strlen(text) + 1);
}

int hash_add_file(struct hash *hash, int dir_fd, const char *path)
{
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	char buffer[65536];

	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t got = read(fd, buffer, sizeof(buffer));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		hash_add(hash, buffer, (size_t) got);
	}
}

int hash_add_tree(struct hash *hash, int dir_fd, const char *path)
{
	_cleanup_close_ int folder_fd = -1;
	_cleanup_strv_ struct strv names = { 0 };
	char target[4096];
	struct stat status;
	ssize_t length;
	int r;

	if (fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(status.st_mode)) {
		length = readlinkat(dir_fd, path, target, sizeof(target) - 1);
		if (length < 0)
			return -errno;
		target[length] = '\0';
		hash_add_text(hash, "link");
		hash_add_text(hash, target); /* with its NUL: the next name must not run into it */
		return 0;
	}
	if (S_ISREG(status.st_mode)) {
		hash_add_text(hash, status.st_mode & S_IXUSR ? "program" : "file");
		hash_add(hash, &status.st_size, sizeof(status.st_size));
		return hash_add_file(hash, dir_fd, path);
	}
	if (!S_ISDIR(status.st_mode))
		return 0; /* devices and sockets are no build input */
	folder_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = folder_fd < 0 ? -errno : fs_list(folder_fd, ".", &names);
	hash_add_text(hash, "folder");
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		if (strcmp(names.items[i], ".git") == 0)
			continue;
		hash_add_text(hash, names.items[i]);
		r = hash_add_tree(hash, folder_fd, names.items[i]);
	}
	hash_add_text(hash, "end");
	return r;
}

void hash_finish(struct hash *hash, char hex[HASH_HEX_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int length = 0;

	(void) EVP_DigestFinal_ex(hash->context, digest, &length);
	hex_copy(digest, length, hex);
	EVP_MD_CTX_free(hash->context);
	free(hash);
}

void hash_bytes(const void *data, size_t size, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();

	hash_add(hash, data, size);
	hash_finish(hash, hex);
}

int hash_file(int dir_fd, const char *path, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	int r = hash_add_file(hash, dir_fd, path);

	hash_finish(hash, hex);
	return r;
}

bool hash_is_hex(const char *text)
{
	return strlen(text) == HASH_HEX_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

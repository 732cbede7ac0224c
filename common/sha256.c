/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

struct hash {
	EVP_MD_CTX *context;
};

struct hash *hash_new(void)
{
	struct hash *hash = calloc(1, sizeof(*hash));

	if (!hash)
		return NULL;
	hash->context = EVP_MD_CTX_new();
	if (!hash->context || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(hash->context);
		free(hash);
		return NULL;
	}
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
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	char buffer[65536];

	if (fd < 0)
		return -errno;
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

static int hash_add_link(struct hash *hash, int dir_fd, const char *path)
{
	char target[4096];
	ssize_t length = readlinkat(dir_fd, path, target, sizeof(target) - 1);

	if (length < 0)
		return -errno;
	target[length] = '\0';
	hash_add_text(hash, "link");
	hash_add_text(hash, target); /* with its NUL: the next name must not run into it */
	return 0;
}

static int hash_add_folder(struct hash *hash, int dir_fd, const char *path)
{
	_cleanup_close_ int folder_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	if (folder_fd < 0)
		return -errno;
	r = fs_list(folder_fd, ".", &names);
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

int hash_add_tree(struct hash *hash, int dir_fd, const char *path)
{
	struct stat status;

	if (fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(status.st_mode))
		return hash_add_link(hash, dir_fd, path);
	if (S_ISDIR(status.st_mode))
		return hash_add_folder(hash, dir_fd, path);
	if (!S_ISREG(status.st_mode))
		return 0; /* devices and sockets are no build input */
	hash_add_text(hash, status.st_mode & S_IXUSR ? "program" : "file");
	hash_add(hash, &status.st_size, sizeof(status.st_size));
	return hash_add_file(hash, dir_fd, path);
}

void hash_finish(struct hash *hash, char hex[HASH_HEX_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int length = 0;

	(void) EVP_DigestFinal_ex(hash->context, digest, &length);
	for (unsigned int i = 0; i < length && i < (HASH_HEX_SIZE - 1) / 2; i++)
		(void) snprintf(hex + (size_t) 2 * i, 3, "%02x", digest[i]);
	EVP_MD_CTX_free(hash->context);
	free(hash);
}

bool hash_is_hex(const char *text)
{
	return strlen(text) == HASH_HEX_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/archive/makeself.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/xalloc.h"

/* All fields are set in the first 20 lines. */
#define HEADER_SIZE 4096
#define BLOCK_SIZE  ((size_t) 128 << 10)

#define MD5_SIZE     16
#define MD5_HEX_SIZE (2 * MD5_SIZE + 1)

/* The checksums are in the lines before it, and of this one and all that follow. */
#define FIRST_SUMMED_LINE 4

/* The script before the tarball has some 1,000 lines. */
#define SKIP_LIMIT 10000

struct header {
	struct makeself installer;
	char md5[MD5_HEX_SIZE]; /* zeros: makeself --nomd5 made it */
	unsigned long skip;
};

/* Takes the value of a line "name=value" or "name="value"". */
static void take(const char *text, const char *name, char *value, size_t size)
{
	const char *found = strstr(text, name);

	*value = '\0';
	if (!found)
		return;
	found += strlen(name);
	found += *found == '"';
	(void) snprintf(value, size, "%.*s", (int) strcspn(found, "\"\n"), found);
}

static void cleanup_digest(EVP_MD_CTX **context)
{
	EVP_MD_CTX_free(*context);
}

static int read_header(int fd, struct header *ret)
{
	char text[HEADER_SIZE + 1];
	char skip[16];
	ssize_t size = pread(fd, text, HEADER_SIZE, 0);

	*ret = (struct header){ .skip = 0 };
	if (size < 0)
		return -errno;
	text[size] = '\0';
	if (strncmp(text, "#!", 2) != 0 || !strstr(text, "\nCRCsum=") || !strstr(text, "Makeself"))
		return -ENOEXEC;
	take(text, "\nMD5=", ret->md5, sizeof(ret->md5));
	take(text, "\nskip=", skip, sizeof(skip));
	take(text, "\nversion_string=", ret->installer.version, sizeof(ret->installer.version));
	take(text, "\nTARGET_ARCH=", ret->installer.machine, sizeof(ret->installer.machine));
	ret->skip = strtoul(skip, NULL, 10);
	ret->installer.has_md5 = strspn(ret->md5, "0") != strlen(ret->md5);
	return ret->skip > FIRST_SUMMED_LINE ? 0 : -ENOEXEC;
}

int makeself_read(int fd, struct makeself *ret)
{
	struct header header;
	int r = read_header(fd, &header);

	if (r == 0)
		*ret = header.installer;
	return r;
}

/*
 * Returns the offset of @line, counted from 1; -1 if there are fewer. The data after it is no text.
 */
static off_t line_start(FILE *file, unsigned long line)
{
	rewind(file);
	while (line > 1) {
		int c = getc(file);

		if (c == EOF)
			return -1;
		line -= c == '\n';
	}
	return ftello(file);
}

/* Computes the MD5 of @file from its current position to its end. */
static int sum_rest(FILE *file, char md5[MD5_HEX_SIZE])
{
	_cleanup_free_ unsigned char *block = xcalloc(1, BLOCK_SIZE);
	_cleanup_(cleanup_digest) EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char digest[MD5_SIZE];
	size_t size;

	if (!context || !EVP_DigestInit_ex(context, EVP_md5(), NULL))
		return -ENOTSUP;
	while ((size = fread(block, 1, BLOCK_SIZE, file)) > 0)
		(void) EVP_DigestUpdate(context, block, size);
	if (ferror(file))
		return -EIO;
	(void) EVP_DigestFinal_ex(context, digest, NULL);
	hex_copy(digest, sizeof(digest), md5);
	return 0;
}

int makeself_seek(int fd, const char *path, struct error *error)
{
	_cleanup_fclose_ FILE *file = fdopen(dup(fd), "re");
	char md5[MD5_HEX_SIZE];
	struct header header;
	off_t start, summed;
	int r;

	if (!file)
		return error_set_errno(error, -errno, "%s", path);
	r = read_header(fd, &header);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (strlen(header.md5) != MD5_HEX_SIZE - 1 || header.skip > SKIP_LIMIT)
		return error_set(error, -EBADMSG,
			"%s: the first lines are not those of NVIDIA's installer: %s: download it "
			"again",
			path,
			header.skip > SKIP_LIMIT ? "skip= is beyond any script"
						 : "no MD5 of 32 digits");
	start = line_start(file, header.skip);
	summed = line_start(file, FIRST_SUMMED_LINE);
	if (start < 0 || summed < 0)
		return error_set(error, -EBADMSG,
			"%s: the installer is cut short, before its line %lu: download it again",
			path, header.skip);
	r = sum_rest(file, md5);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (header.installer.has_md5 && strcmp(md5, header.md5) != 0)
		return error_set(error, -EBADMSG,
			"%s: its MD5 is %s, but its first lines name %s: the installer is cut "
			"short or was changed: download it again",
			path, md5, header.md5);
	/* Closing the stream moves the position that both descriptors have. */
	(void) fclose(TAKE_PTR(file));
	return lseek(fd, start, SEEK_SET) < 0 ? error_set_errno(error, -errno, "%s", path) : 0;
}

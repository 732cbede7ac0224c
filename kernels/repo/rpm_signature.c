/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/rpm_signature.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "kernels/repo/rpm_header.h"

/* Of the signature header: over the header, and, before rpm 4.14, over header and payload. */
#define TAG_DSA_HEADER 267
#define TAG_RSA_HEADER 268
#define TAG_PGP        1002
#define TAG_GPG        1005
/* Of the header. */
#define TAG_PAYLOAD_DIGEST 5092

#define SIGNED_FILE    "signed"
#define SIGNATURE_FILE "signature"

static int hash_from(const struct rpm_file *rpm, off_t offset, char hex[HASH_HEX_SIZE])
{
	struct hash *hash = hash_new();
	char buffer[65536];
	ssize_t got;

	if (!hash)
		return -ENOMEM;
	while ((got = pread(rpm->fd, buffer, sizeof(buffer), offset)) > 0) {
		hash_add(hash, buffer, (size_t) got);
		offset += got;
	}
	hash_finish(hash, hex);
	return got < 0 ? -errno : 0;
}

static int check_payload(
	const struct rpm_file *rpm, const char *name, const char *wanted, struct error *error)
{
	char hex[HASH_HEX_SIZE];
	int r = hash_from(rpm, rpm_file_payload(rpm), hex);

	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	if (strcmp(hex, wanted) != 0)
		return error_set(error, -EBADMSG,
			"%s: its payload has SHA-256 %s, but %s was signed: the package was "
			"changed; another mirror may have the right one",
			name, hex, wanted);
	return 0;
}

/* ---- the two files that gpgv gets */

static int copy_from(const struct rpm_file *rpm, off_t offset, int folder_fd)
{
	_cleanup_close_ int fd =
		openat(folder_fd, SIGNED_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char buffer[65536];
	ssize_t got;

	if (fd < 0)
		return -errno;
	while ((got = pread(rpm->fd, buffer, sizeof(buffer), offset)) > 0) {
		for (ssize_t done = 0; done < got;) {
			ssize_t written = write(fd, buffer + done, (size_t) (got - done));

			if (written < 0)
				return -errno;
			done += written;
		}
		offset += got;
	}
	return got < 0 ? -errno : 0;
}

static int unsigned_package(
	const struct rpm_signature_request *request, struct signature *ret, struct error *error)
{
	if (!request->allow_unsigned)
		return error_set(error, -EKEYREJECTED,
			"%s: neither the package nor its list is signed: --allow-unsigned takes it "
			"all the same",
			request->name);
	*ret = (struct signature){ .signer = strdup(""), .warning = strdup("it is not signed") };
	return ret->signer && ret->warning ? 0 : error_set_errno(error, -ENOMEM, "signature");
}

static int check_in(const struct rpm_signature_request *request, const struct rpm_file *rpm,
	int folder_fd, struct signature *ret, struct error *error)
{
	const struct signature_request check = { .name = request->name,
		.folder_fd = folder_fd,
		.path = SIGNED_FILE,
		.detached = SIGNATURE_FILE,
		.keyrings = request->keyrings,
		.keyring = request->keyring,
		.allow_unsigned = request->allow_unsigned };
	static const uint32_t header_tags[] = { TAG_RSA_HEADER, TAG_DSA_HEADER };
	static const uint32_t whole_tags[] = { TAG_PGP, TAG_GPG };
	size_t size = 0;
	size_t digest_size = 0;
	const unsigned char *digest = rpm_section_find(
		&rpm->header, TAG_PAYLOAD_DIGEST, RPM_TYPE_STRING_ARRAY, &digest_size);
	const uint32_t *tags = digest ? header_tags : whole_tags;
	const unsigned char *signature =
		rpm_section_find(&rpm->signatures, tags[0], RPM_TYPE_BINARY, &size);
	int r;

	if (!signature)
		signature = rpm_section_find(&rpm->signatures, tags[1], RPM_TYPE_BINARY, &size);
	if (!signature)
		return unsigned_package(request, ret, error);
	r = fs_write_atomic(folder_fd, SIGNATURE_FILE, signature, size, 0600);
	if (r == 0 && digest)
		r = fs_write_atomic(
			folder_fd, SIGNED_FILE, rpm->header.bytes, rpm->header.size, 0600);
	else if (r == 0)
		r = copy_from(rpm, rpm->header.start, folder_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s", request->name);
	r = signature_check(&check, ret, error);
	if (r == 0 && digest) {
		r = check_payload(rpm, request->name, (const char *) digest, error);
		if (r < 0)
			signature_free(ret);
	}
	return r;
}

static int make_folder(int scratch_fd, char name[64], int *ret_fd)
{
	char path[96];

	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d/rpm-signature.XXXXXX", scratch_fd);
	if (!mkdtemp(path))
		return -errno;
	(void) snprintf(name, 64, "%s", strrchr(path, '/') + 1);
	*ret_fd = openat(scratch_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int rpm_signature_check(
	const struct rpm_signature_request *request, struct signature *ret, struct error *error)
{
	_cleanup_(rpm_file_close) struct rpm_file rpm = { .fd = -1 };
	_cleanup_close_ int folder_fd = -1;
	char name[64];
	int r = rpm_file_open(request->dir_fd, request->path, &rpm);

	if (r == -EBADMSG)
		return error_set(error, r,
			"%s: not an .rpm package, or damaged: fetch it again, or from another mirror",
			request->name);
	if (r == 0)
		r = make_folder(request->scratch_fd, name, &folder_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s", request->name);
	r = check_in(request, &rpm, folder_fd, ret, error);
	(void) !fs_remove_tree(request->scratch_fd, name);
	return r;
}

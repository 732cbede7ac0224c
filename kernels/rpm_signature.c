/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rpm_signature.h"

#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"

#define LEAD_BYTES        96
#define INTRO_BYTES       16
#define ENTRY_BYTES       16
#define ENTRIES_LIMIT     4096
#define HEADER_LIMIT      (64U * 1024 * 1024)
#define TYPE_BINARY       7
#define TYPE_STRING_ARRAY 8

/* Of the signature header: over the header, and, before rpm 4.14, over header and payload. */
#define TAG_DSA_HEADER 267
#define TAG_RSA_HEADER 268
#define TAG_PGP        1002
#define TAG_GPG        1005
/* Of the header. */
#define TAG_PAYLOAD_DIGEST 5092

#define SIGNED_FILE    "signed"
#define SIGNATURE_FILE "signature"

static const unsigned char lead_magic[] = { 0xed, 0xab, 0xee, 0xdb };
static const unsigned char header_magic[] = { 0x8e, 0xad, 0xe8, 0x01 };

/* A header section: an introduction, its entries, and the data that they point into. */
struct section {
	unsigned char *bytes;
	size_t size;
	uint32_t entries;
	off_t start; /* in the file */
};

struct rpm {
	int fd;
	off_t size;
	struct section signatures;
	struct section header;
};

static void rpm_close(struct rpm *rpm)
{
	cleanup_close(&rpm->fd);
	free(rpm->signatures.bytes);
	free(rpm->header.bytes);
}

static uint32_t number_at(const unsigned char *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return be32toh(number);
}

static int read_at(int fd, void *buffer, size_t size, off_t offset)
{
	ssize_t got = pread(fd, buffer, size, offset);

	if (got < 0)
		return -errno;
	return (size_t) got == size ? 0 : -EBADMSG;
}

static int read_section(const struct rpm *rpm, off_t start, struct section *ret)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	unsigned char intro[INTRO_BYTES];
	uint32_t entries, data;
	size_t size;
	int r = read_at(rpm->fd, intro, sizeof(intro), start);

	if (r < 0)
		return r;
	entries = number_at(intro + 8);
	data = number_at(intro + 12);
	if (memcmp(intro, header_magic, sizeof(header_magic)) != 0 || entries > ENTRIES_LIMIT ||
		data > HEADER_LIMIT)
		return -EBADMSG;
	size = INTRO_BYTES + (size_t) entries * ENTRY_BYTES + data;
	if ((off_t) size > rpm->size - start)
		return -EBADMSG;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	r = read_at(rpm->fd, bytes, size, start);
	if (r < 0)
		return r;
	*ret = (struct section){ TAKE_PTR(bytes), size, entries, start };
	return 0;
}

/* The data of a tag, or NULL. Of an array of strings the first. */
static const unsigned char *find_tag(
	const struct section *section, uint32_t tag, uint32_t type, size_t *ret_size)
{
	const unsigned char *data =
		section->bytes + INTRO_BYTES + (size_t) section->entries * ENTRY_BYTES;
	size_t room = section->size - (size_t) (data - section->bytes);

	for (uint32_t i = 0; i < section->entries; i++) {
		const unsigned char *entry =
			section->bytes + INTRO_BYTES + (size_t) i * ENTRY_BYTES;
		uint32_t offset = number_at(entry + 8);
		uint32_t count = number_at(entry + 12);

		if (number_at(entry) != tag || number_at(entry + 4) != type || offset >= room)
			continue;
		if (type == TYPE_STRING_ARRAY)
			count = (uint32_t) strnlen((const char *) data + offset, room - offset);
		if (count > room - offset || (type == TYPE_STRING_ARRAY && count == room - offset))
			return NULL;
		*ret_size = count;
		return data + offset;
	}
	return NULL;
}

static int rpm_open(const struct rpm_signature_request *request, struct rpm *rpm)
{
	unsigned char lead[LEAD_BYTES];
	struct stat status;
	int r;

	rpm->fd = openat(request->dir_fd, request->path, O_RDONLY | O_CLOEXEC);
	if (rpm->fd < 0 || fstat(rpm->fd, &status) < 0)
		return -errno;
	rpm->size = status.st_size;
	r = read_at(rpm->fd, lead, sizeof(lead), 0);
	if (r == 0 && memcmp(lead, lead_magic, sizeof(lead_magic)) != 0)
		r = -EBADMSG;
	if (r == 0)
		r = read_section(rpm, LEAD_BYTES, &rpm->signatures);
	if (r < 0)
		return r;
	/* The signature header alone is filled up to a multiple of eight bytes. */
	return read_section(
		rpm, LEAD_BYTES + (off_t) ((rpm->signatures.size + 7) & ~(size_t) 7), &rpm->header);
}

static off_t payload_start(const struct rpm *rpm)
{
	return rpm->header.start + (off_t) rpm->header.size;
}

static int hash_from(const struct rpm *rpm, off_t offset, char hex[HASH_HEX_SIZE])
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
	const struct rpm *rpm, const char *name, const char *wanted, struct error *error)
{
	char hex[HASH_HEX_SIZE];
	int r = hash_from(rpm, payload_start(rpm), hex);

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

static int copy_from(const struct rpm *rpm, off_t offset, int folder_fd)
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

static int check_in(const struct rpm_signature_request *request, const struct rpm *rpm,
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
	const unsigned char *digest =
		find_tag(&rpm->header, TAG_PAYLOAD_DIGEST, TYPE_STRING_ARRAY, &digest_size);
	const uint32_t *tags = digest ? header_tags : whole_tags;
	const unsigned char *signature = find_tag(&rpm->signatures, tags[0], TYPE_BINARY, &size);
	int r;

	if (!signature)
		signature = find_tag(&rpm->signatures, tags[1], TYPE_BINARY, &size);
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
	_cleanup_(rpm_close) struct rpm rpm = { .fd = -1 };
	_cleanup_close_ int folder_fd = -1;
	char name[64];
	int r = rpm_open(request, &rpm);

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

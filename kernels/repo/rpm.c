/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/rpm.h"

#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"

#define LEAD_BYTES    96
#define INTRO_BYTES   16
#define ENTRY_BYTES   16
#define ENTRIES_LIMIT 4096
#define HEADER_LIMIT  (64U * 1024 * 1024)

static const unsigned char lead_magic[] = { 0xed, 0xab, 0xee, 0xdb };
static const unsigned char header_magic[] = { 0x8e, 0xad, 0xe8, 0x01 };

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

static int read_section(const struct rpm_file *file, off_t start, struct rpm_section *ret)
{
	unsigned char intro[INTRO_BYTES];
	uint32_t entries, data;
	size_t size;
	int r = read_at(file->fd, intro, sizeof(intro), start);

	if (r < 0)
		return r;
	entries = number_at(intro + 8);
	data = number_at(intro + 12);
	if (memcmp(intro, header_magic, sizeof(header_magic)) != 0 || entries > ENTRIES_LIMIT ||
		data > HEADER_LIMIT)
		return -EBADMSG;
	size = INTRO_BYTES + (size_t) entries * ENTRY_BYTES + data;
	if ((off_t) size > file->size_bytes - start)
		return -EBADMSG;
	*ret = (struct rpm_section){ xreallocarray(NULL, size, 1), size, entries, start };
	return read_at(file->fd, ret->bytes, size, start);
}

int rpm_file_open(int dir_fd, const char *path, struct rpm_file *ret)
{
	_cleanup_(rpm_file_close) struct rpm_file file = { .fd = -1 };
	unsigned char lead[LEAD_BYTES];
	struct stat status;
	int r;

	file.fd = fs_open(dir_fd, path, O_RDONLY);
	if (file.fd < 0)
		return file.fd;
	if (fstat(file.fd, &status) < 0)
		return -errno;
	file.size_bytes = status.st_size;
	r = read_at(file.fd, lead, sizeof(lead), 0);
	if (r == 0 && memcmp(lead, lead_magic, sizeof(lead_magic)) != 0)
		r = -EBADMSG;
	if (r == 0)
		r = read_section(&file, LEAD_BYTES, &file.signatures);
	/* The signature header alone is filled up to a multiple of eight bytes. */
	if (r == 0)
		r = read_section(&file,
			LEAD_BYTES + (off_t) ((file.signatures.size + 7) & ~(size_t) 7),
			&file.header);
	if (r < 0)
		return r;
	*ret = file;
	file = (struct rpm_file){ .fd = -1 };
	return 0;
}

void rpm_file_close(struct rpm_file *file)
{
	cleanup_close(&file->fd);
	free(file->signatures.bytes);
	free(file->header.bytes);
	*file = (struct rpm_file){ .fd = -1 };
}

off_t rpm_file_payload(const struct rpm_file *file)
{
	return file->header.start + (off_t) file->header.size;
}

static bool is_text(enum rpm_type type)
{
	return type == RPM_TYPE_STRING || type == RPM_TYPE_STRING_ARRAY;
}

const unsigned char *rpm_section_find(
	const struct rpm_section *section, uint32_t tag, enum rpm_type type, size_t *ret_size)
{
	const unsigned char *data =
		section->bytes + INTRO_BYTES + (size_t) section->entries * ENTRY_BYTES;
	size_t room = section->size - (size_t) (data - section->bytes);

	for (uint32_t i = 0; i < section->entries; i++) {
		const unsigned char *entry =
			section->bytes + INTRO_BYTES + (size_t) i * ENTRY_BYTES;
		size_t offset = number_at(entry + 8);
		size_t count = number_at(entry + 12);

		if (number_at(entry) != tag || number_at(entry + 4) != type || offset >= room)
			continue;
		if (is_text(type))
			count = strnlen((const char *) data + offset, room - offset);
		else if (type == RPM_TYPE_INT32)
			count = count <= room / sizeof(uint32_t) ? count * sizeof(uint32_t) : room;
		if (count > room - offset || (is_text(type) && count == room - offset))
			return NULL;
		*ret_size = count;
		return data + offset;
	}
	return NULL;
}

/* Returns the text of a tag in the header: NAME, VERSION, RELEASE or ARCH. */
static const char *text_of(const struct rpm_file *file, uint32_t tag)
{
	size_t size;
	const unsigned char *text = rpm_section_find(&file->header, tag, RPM_TYPE_STRING, &size);

	return text ? (const char *) text : "";
}

char *rpm_file_identity(const struct rpm_file *file)
{
	size_t size = 0;
	const unsigned char *number = rpm_section_find(&file->header, 1003, RPM_TYPE_INT32, &size);
	uint32_t epoch = number && size >= sizeof(epoch) ? number_at(number) : 0;
	char prefix[16] = "";

	if (epoch)
		(void) snprintf(prefix, sizeof(prefix), "%u:", epoch);
	return xasprintf("%s %s%s-%s %s", text_of(file, 1000), prefix, text_of(file, 1001),
		text_of(file, 1002), text_of(file, 1022));
}

/* Tags in the header: REQUIRENAME, and REQUIREFLAGS, of which SENSE_MASK compares versions. */
#define TAG_REQUIRE_NAME  1049
#define TAG_REQUIRE_FLAGS 1048
#define SENSE_MASK        (2U | 4U | 8U)
#define SENSE_EQUAL       8U

void rpm_file_requires(const struct rpm_file *file, struct strv *names)
{
	size_t ignored, flag_bytes = 0;
	const char *name = (const char *) rpm_section_find(
		&file->header, TAG_REQUIRE_NAME, RPM_TYPE_STRING_ARRAY, &ignored);
	const unsigned char *flags =
		rpm_section_find(&file->header, TAG_REQUIRE_FLAGS, RPM_TYPE_INT32, &flag_bytes);
	const char *end = (const char *) file->header.bytes + file->header.size;

	for (size_t i = 0; name && i < flag_bytes / sizeof(uint32_t); i++) {
		size_t length = strnlen(name, (size_t) (end - name));
		uint32_t sense = number_at(flags + i * sizeof(uint32_t)) & SENSE_MASK;

		if (length == 0 || name + length == end)
			return;
		if (sense != SENSE_EQUAL && *name != '/' && !strpbrk(name, "() "))
			xstrv_push_unique(names, name);
		name += length + 1;
	}
}

/* Tags of signatures: over the header, and, before rpm 4.14, over header and payload. */
#define TAG_DSA_HEADER 267
#define TAG_RSA_HEADER 268
#define TAG_PGP        1002
#define TAG_GPG        1005
/* Tag in the header. */
#define TAG_PAYLOAD_DIGEST 5092

#define SIGNED_FILE    "signed"
#define SIGNATURE_FILE "signature"

/* Hands all from @offset on to a hash or, without one, to a file. */
static int read_from(const struct rpm_file *rpm, off_t offset, struct hash *hash, int fd)
{
	char buffer[65536];
	ssize_t got;

	while ((got = pread(rpm->fd, buffer, sizeof(buffer), offset)) > 0) {
		int r = hash ? 0 : fs_write_all(fd, buffer, (size_t) got);

		if (r < 0)
			return r;
		if (hash)
			hash_add(hash, buffer, (size_t) got);
		offset += got;
	}
	return got < 0 ? -errno : 0;
}

static int check_payload(
	const struct rpm_file *rpm, const char *name, const char *wanted, struct error *error)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];
	int r = read_from(rpm, rpm_file_payload(rpm), hash, -1);

	hash_finish(hash, hex);
	if (r < 0)
		return error_set_errno(error, r, "%s", name);
	if (strcmp(hex, wanted) != 0)
		return error_set(error, -EBADMSG,
			"%s: the payload has SHA-256 %s, but %s was signed: the package was "
			"changed; another mirror may have the right one",
			name, hex, wanted);
	return 0;
}

/* The two files that gpgv gets: the signature, and the header or, @whole, all that follows too. */
static int write_files(const struct rpm_file *rpm, int folder_fd, const unsigned char *signature,
	size_t size, bool whole)
{
	_cleanup_close_ int fd = -1;
	int r = fs_write_atomic(folder_fd, SIGNATURE_FILE, signature, size, 0600);

	if (r < 0)
		return r;
	fd = openat(folder_fd, SIGNED_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	return whole ? read_from(rpm, rpm->header.start, NULL, fd)
		     : fs_write_all(fd, rpm->header.bytes, rpm->header.size);
}

static int check_in(const struct signature_request *request, const struct rpm_file *rpm,
	int folder_fd, char **ret_signer, struct error *error)
{
	static const uint32_t header_tags[] = { TAG_RSA_HEADER, TAG_DSA_HEADER };
	static const uint32_t whole_tags[] = { TAG_PGP, TAG_GPG };
	struct signature_request check = *request;
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
	if (!signature && !request->allow_unsigned)
		return error_set(error, -EKEYREJECTED,
			"%s: neither the package nor its list is signed: --allow-unsigned accepts "
			"it anyway",
			request->name);
	if (!signature) {
		*ret_signer = xstrdup("");
		return 0;
	}
	r = write_files(rpm, folder_fd, signature, size, !digest);
	if (r < 0)
		return error_set_errno(error, r, "%s", request->name);
	check.folder_fd = folder_fd;
	check.path = SIGNED_FILE;
	check.detached = SIGNATURE_FILE;
	r = signature_check(&check, ret_signer, error);
	if (r < 0 || !digest)
		return r;
	r = check_payload(rpm, request->name, (const char *) digest, error);
	if (r < 0)
		free(TAKE_PTR(*ret_signer));
	return r;
}

int rpm_signature_check(const struct signature_request *request, int scratch_fd, char **ret_signer,
	struct error *error)
{
	_cleanup_(rpm_file_close) struct rpm_file rpm = { .fd = -1 };
	_cleanup_close_ int folder_fd = -1;
	char folder[96];
	int r = rpm_file_open(request->folder_fd, request->path, &rpm);

	if (r == -EBADMSG)
		return error_set(error, r,
			"%s: not an .rpm package, or damaged: fetch it again or from another "
			"mirror",
			request->name);
	if (r < 0)
		return error_set_errno(error, r, "%s", request->name);
	(void) snprintf(
		folder, sizeof(folder), "/proc/self/fd/%d/rpm-signature.XXXXXX", scratch_fd);
	if (!mkdtemp(folder))
		return error_set_errno(error, -errno, "%s", request->name);
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = folder_fd < 0 ? error_set_errno(error, -errno, "%s", request->name)
			  : check_in(request, &rpm, folder_fd, ret_signer, error);
	(void) !fs_remove_tree(AT_FDCWD, folder);
	return r;
}

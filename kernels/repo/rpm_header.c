/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/rpm_header.h"

#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	_cleanup_free_ unsigned char *bytes = NULL;
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
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	r = read_at(file->fd, bytes, size, start);
	if (r < 0)
		return r;
	*ret = (struct rpm_section){ TAKE_PTR(bytes), size, entries, start };
	return 0;
}

static int read_front(struct rpm_file *file)
{
	unsigned char lead[LEAD_BYTES];
	int r = read_at(file->fd, lead, sizeof(lead), 0);

	if (r == 0 && memcmp(lead, lead_magic, sizeof(lead_magic)) != 0)
		r = -EBADMSG;
	if (r == 0)
		r = read_section(file, LEAD_BYTES, &file->signatures);
	if (r < 0)
		return r;
	/* The signature header alone is filled up to a multiple of eight bytes. */
	return read_section(file, LEAD_BYTES + (off_t) ((file->signatures.size + 7) & ~(size_t) 7),
		&file->header);
}

int rpm_file_open(int dir_fd, const char *path, struct rpm_file *ret)
{
	_cleanup_(rpm_file_close) struct rpm_file file = { .fd = -1 };
	struct stat status;
	int r;

	file.fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (file.fd < 0 || fstat(file.fd, &status) < 0)
		return -errno;
	file.size_bytes = status.st_size;
	r = read_front(&file);
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

/* Of the header: NAME, VERSION, RELEASE, EPOCH and ARCH. */
static const char *text_of(const struct rpm_file *file, uint32_t tag)
{
	size_t size;
	const unsigned char *text = rpm_section_find(&file->header, tag, RPM_TYPE_STRING, &size);

	return text ? (const char *) text : "";
}

int rpm_file_identity(const struct rpm_file *file, char **ret_text)
{
	size_t size = 0;
	const unsigned char *number = rpm_section_find(&file->header, 1003, RPM_TYPE_INT32, &size);
	uint32_t epoch = number && size >= sizeof(epoch) ? number_at(number) : 0;
	char prefix[16] = "";

	if (epoch)
		(void) snprintf(prefix, sizeof(prefix), "%u:", epoch);
	return asprintf(ret_text, "%s %s%s-%s %s", text_of(file, 1000), prefix, text_of(file, 1001),
		       text_of(file, 1002), text_of(file, 1022)) < 0
		       ? -ENOMEM
		       : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/archive/pack.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "common/fs.h"
#include "common/xalloc.h"

#define BLOCK_SIZE 512
#define SIZE_LIMIT 077777777777 /* of ustar's field: 8 GiB */
#define LEVEL      9            /* twice as fast as 19, and a tenth bigger */

struct pack {
	int fd;
	ZSTD_CCtx *context; /* NULL: not compressed */
	char *buffer;       /* of @buffer_size bytes: what goes to the file */
	size_t buffer_size;
	uint64_t written;
	void (*look)(void *context, const void *data, size_t size); /* or NULL */
	void *look_context;
};

/* POSIX.1-2001, pax(1), "ustar Interchange Format" */
struct header {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char owner[32];
	char group[32];
	char major[8];
	char minor[8];
	char prefix[155];
	char padding[12];
};

_Static_assert(sizeof(struct header) == BLOCK_SIZE, "a tar header is one block");

struct pack *pack_new_plain(int fd)
{
	struct pack *pack = xcalloc(1, sizeof(*pack));

	pack->fd = fd;
	return pack;
}

struct pack *pack_new(int fd)
{
	struct pack *pack = pack_new_plain(fd);

	pack->context = ZSTD_createCCtx();
	if (!pack->context)
		out_of_memory();
	pack->buffer_size = ZSTD_CStreamOutSize();
	pack->buffer = xcalloc(1, pack->buffer_size);
	(void) ZSTD_CCtx_setParameter(pack->context, ZSTD_c_compressionLevel, LEVEL);
	(void) ZSTD_CCtx_setParameter(pack->context, ZSTD_c_checksumFlag, 1);
	return pack;
}

void pack_free(struct pack **pack)
{
	if (!*pack)
		return;
	(void) ZSTD_freeCCtx((*pack)->context);
	free((*pack)->buffer);
	free(*pack);
}

void pack_watch(struct pack *pack, void (*look)(void *context, const void *data, size_t size),
	void *context)
{
	pack->look = look;
	pack->look_context = context;
}

uint64_t pack_size(const struct pack *pack)
{
	return pack->written;
}

static int compress(struct pack *pack, const void *data, size_t size, ZSTD_EndDirective end)
{
	ZSTD_inBuffer input = { data, size, 0 };
	size_t left;

	do {
		ZSTD_outBuffer output = { pack->buffer, pack->buffer_size, 0 };
		int r;

		left = ZSTD_compressStream2(pack->context, &output, &input, end);
		if (ZSTD_isError(left))
			return -ENOMEM;
		r = fs_write_all(pack->fd, pack->buffer, output.pos);
		if (r < 0)
			return r;
		pack->written += output.pos;
	} while (end == ZSTD_e_end ? left != 0 : input.pos < input.size);
	return 0;
}

static int put(struct pack *pack, const void *data, size_t size)
{
	int r;

	if (size == 0)
		return 0;
	if (pack->look)
		pack->look(pack->look_context, data, size);
	if (pack->context)
		return compress(pack, data, size, ZSTD_e_continue);
	r = fs_write_all(pack->fd, data, size);
	if (r == 0)
		pack->written += size;
	return r;
}

static int put_padding(struct pack *pack, uint64_t size)
{
	static const char zeroes[BLOCK_SIZE];

	return put(pack, zeroes, (BLOCK_SIZE - size % BLOCK_SIZE) % BLOCK_SIZE);
}

/* The checksum is that of the header with blanks in its place. */
static void set_checksum(struct header *header)
{
	const unsigned char *bytes = (const unsigned char *) header;
	unsigned int sum = 0;

	memset(header->checksum, ' ', sizeof(header->checksum));
	for (size_t i = 0; i < sizeof(*header); i++)
		sum += bytes[i];
	(void) snprintf(header->checksum, sizeof(header->checksum), "%06o", sum & 0777777);
}

static int put_header(struct pack *pack, const char *path, char type, mode_t mode, uint64_t size,
	const char *target)
{
	struct header header = { .type = type, .magic = "ustar", .version = "00" };

	memcpy(header.name, path, strnlen(path, sizeof(header.name)));
	memcpy(header.link, target, strnlen(target, sizeof(header.link)));
	(void) snprintf(header.mode, sizeof(header.mode), "%07o", (unsigned int) (mode & 0777));
	(void) snprintf(header.uid, sizeof(header.uid), "%07o", 0u);
	(void) snprintf(header.gid, sizeof(header.gid), "%07o", 0u);
	(void) snprintf(header.size, sizeof(header.size), "%011llo",
		(unsigned long long) (size & SIZE_LIMIT));
	(void) snprintf(header.mtime, sizeof(header.mtime), "%011o", 0u);
	set_checksum(&header);
	return put(pack, &header, sizeof(header));
}

/* "<length> <key>=<value>\n", where the length counts its own digits. */
static char *pax_record(char *records, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3;
	size_t length = rest;
	char digits[24];
	char *text;

	do
		length = rest + (size_t) snprintf(digits, sizeof(digits), "%zu", length);
	while (length != rest + (size_t) snprintf(digits, sizeof(digits), "%zu", length));
	text = xasprintf("%s%zu %s=%s\n", records ? records : "", length, key, value);
	free(records);
	return text;
}

/* The entry's header, after one of its own for what that has no room for. */
static int put_entry(struct pack *pack, const char *path, char type, mode_t mode, uint64_t size,
	const char *target)
{
	_cleanup_free_ char *records = NULL;
	int r = 0;

	if (strlen(path) > 100)
		records = pax_record(records, "path", path);
	if (strlen(target) > 100)
		records = pax_record(records, "linkpath", target);
	if (size > SIZE_LIMIT) {
		_cleanup_free_ char *text = xasprintf("%llu", (unsigned long long) size);

		records = pax_record(records, "size", text);
	}
	if (records) {
		r = put_header(pack, "pax", 'x', 0644, strlen(records), "");
		if (r == 0)
			r = put(pack, records, strlen(records));
		if (r == 0)
			r = put_padding(pack, strlen(records));
	}
	return r < 0 ? r : put_header(pack, path, type, mode, size, target);
}

int pack_folder(struct pack *pack, const char *path)
{
	_cleanup_free_ char *name = xasprintf("%s/", path);

	return put_entry(pack, name, '5', 0755, 0, "");
}

int pack_text(struct pack *pack, const char *path, const void *data, size_t size)
{
	int r = put_entry(pack, path, '0', 0644, size, "");

	if (r == 0)
		r = put(pack, data, size);
	return r < 0 ? r : put_padding(pack, size);
}

/* Exactly @size bytes: a file that shrinks meanwhile would break the archive. */
static int put_stream(struct pack *pack, const char *path, mode_t mode, uint64_t size,
	ssize_t (*read)(void *context, void *buffer, size_t size), void *context)
{
	char buffer[65536];
	int r = put_entry(pack, path, '0', mode, size, "");

	for (uint64_t left = size; left && r == 0;) {
		ssize_t got = read(context, buffer, left < sizeof(buffer) ? left : sizeof(buffer));

		if (got <= 0)
			return got < 0 ? (int) got : -EIO;
		r = put(pack, buffer, (size_t) got);
		left -= (uint64_t) got;
	}
	return r < 0 ? r : put_padding(pack, size);
}

int pack_stream(struct pack *pack, const char *path, uint64_t size,
	ssize_t (*read)(void *context, void *buffer, size_t size), void *context)
{
	return put_stream(pack, path, 0644, size, read, context);
}

static ssize_t read_file(void *context, void *buffer, size_t size)
{
	ssize_t got;

	do
		got = read(*(const int *) context, buffer, size);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int pack_file(struct pack *pack, const char *path, const char *from)
{
	_cleanup_close_ int fd = fs_open(AT_FDCWD, from, O_RDONLY);
	struct stat status;

	if (fd < 0)
		return fd;
	if (fstat(fd, &status) < 0)
		return -errno;
	return put_stream(pack, path, status.st_mode & S_IXUSR ? 0755 : 0644,
		(uint64_t) status.st_size, read_file, &fd);
}

int pack_link(struct pack *pack, const char *path, const char *target)
{
	return put_entry(pack, path, '2', 0777, 0, target);
}

int pack_finish(struct pack *pack)
{
	static const char end[2 * BLOCK_SIZE];
	int r = put(pack, end, sizeof(end));

	return r < 0 || !pack->context ? r : compress(pack, NULL, 0, ZSTD_e_end);
}

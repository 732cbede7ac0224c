/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "module/decompress.h"

/* The largest module known, nvidia.ko with debug info, takes some 150 MB. */
#define FILE_SIZE_LIMIT ((size_t) 512 * 1024 * 1024)

/*
 * What is read first. A call costs as much as the copying of some KiB, so that small files come in
 * one piece; of others the ELF header, with the notes that mostly follow it, and the end: section
 * names, section table and signature.
 */
#define WHOLE_SIZE 16384
#define HEAD_SIZE  512
#define TAIL_SIZE  5120
/* Tables at whole multiples of this in the file are so in memory, too, where the end is read. */
#define TAIL_ALIGNMENT 8

struct elf_window {
	struct elf_window *next;
	uint64_t offset;
	uint64_t size;
	char bytes[];
};

/* As many of @size bytes as there are. */
static ssize_t read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got =
			pread(fd, (char *) buffer + done, size - done, (off_t) (offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t) got;
	}
	return (ssize_t) done;
}

static int add_window(struct elf_file *file, uint64_t offset, uint64_t size,
	struct elf_window **ret, struct error *error)
{
	struct elf_window *window = arena_alloc(file->memory, sizeof(*window) + (size_t) size);
	ssize_t got;

	if (!window)
		return error_set_errno(error, -ENOMEM, "cannot read");
	got = read_at(file->fd, window->bytes, (size_t) size, offset);
	if (got < 0)
		return error_set_errno(error, (int) got, "cannot read");
	if (got != (ssize_t) size)
		return error_set(error, -EINVAL, "shrank while it was read, at offset %llu",
			(unsigned long long) offset + (size_t) got);
	*window = (struct elf_window){ file->windows, offset, size };
	file->windows = window;
	*ret = window;
	return 0;
}

static int unpack(struct elf_file *file, enum decompress_format format, const char *packed,
	size_t packed_size, struct error *error)
{
	size_t size;
	int r = decompress(
		format, packed, packed_size, FILE_SIZE_LIMIT, &file->unpacked, &size, error);

	if (r < 0)
		return r;
	file->image = file->unpacked;
	file->size = size;
	return 0;
}

static int unpack_file(struct elf_file *file, enum decompress_format format, struct error *error)
{
	const char *packed = NULL;
	int r = elf_file_map(file, 0, file->size, &packed, error);

	return r < 0 ? r : unpack(file, format, packed, file->size, error);
}

static int read_first(struct elf_file *file, struct error *error)
{
	bool whole = file->size <= WHOLE_SIZE;
	uint64_t size = whole ? file->size : HEAD_SIZE;
	uint64_t tail = whole ? 0 : (file->size - TAIL_SIZE) & ~(uint64_t) (TAIL_ALIGNMENT - 1);
	struct elf_window *window = NULL;
	enum decompress_format format;
	int r = add_window(file, 0, size, &window, error);

	if (r < 0 || !window)
		return r;
	format = decompress_detect(window->bytes, size);
	if (format != DECOMPRESS_NONE)
		return unpack_file(file, format, error);
	return whole ? 0 : add_window(file, tail, file->size - tail, &window, error);
}

/* Left as it is where it cannot be mapped: what is asked for is read then. */
static int map_first(struct elf_file *file, struct error *error)
{
	enum decompress_format format;
	void *bytes = file->size
			      ? mmap(NULL, (size_t) file->size, PROT_READ, MAP_PRIVATE, file->fd, 0)
			      : MAP_FAILED;

	if (bytes == MAP_FAILED)
		return read_first(file, error);
	file->mapped = bytes;
	file->mapped_size = file->size;
	format = decompress_detect(bytes, (size_t) file->size);
	if (format != DECOMPRESS_NONE)
		return unpack(file, format, bytes, (size_t) file->size, error);
	file->image = bytes;
	return 0;
}

static int open_plain(
	struct elf_file *file, int dir_fd, const char *path, bool map, struct error *error)
{
	struct stat status;

	file->fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0)
		return error_set_errno(error, -errno, "cannot open");
	if (fstat(file->fd, &status) < 0)
		return error_set_errno(error, -errno, "cannot stat");
	if (!S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "not a regular file");
	if ((uint64_t) status.st_size > FILE_SIZE_LIMIT)
		return error_set(error, -EFBIG, "larger than %zu MiB: not a kernel module",
			FILE_SIZE_LIMIT >> 20);
	file->size = (uint64_t) status.st_size;
	return map ? map_first(file, error) : read_first(file, error);
}

static int open_any(struct elf_file *file, int dir_fd, const char *path, bool map,
	struct arena *memory, struct error *error)
{
	int r;

	*file = (struct elf_file){ .fd = -1 };
	file->memory = memory ? memory : &file->own;
	r = open_plain(file, dir_fd, path, map, error);
	if (r < 0)
		elf_file_close(file);
	return r;
}

int elf_file_open(struct elf_file *file, int dir_fd, const char *path, struct arena *memory,
	struct error *error)
{
	return open_any(file, dir_fd, path, false, memory, error);
}

int elf_file_open_mapped(struct elf_file *file, int dir_fd, const char *path, struct error *error)
{
	return open_any(file, dir_fd, path, true, NULL, error);
}

int elf_file_open_memory(struct elf_file *file, const void *data, size_t size, struct error *error)
{
	enum decompress_format format = decompress_detect(data, size);

	*file = (struct elf_file){ .fd = -1, .image = data, .size = size };
	file->memory = &file->own;
	return format == DECOMPRESS_NONE ? 0 : unpack(file, format, data, size, error);
}

void elf_file_close(struct elf_file *file)
{
	arena_free(&file->own);
	if (file->mapped)
		(void) munmap(file->mapped, (size_t) file->mapped_size);
	cleanup_close(&file->fd);
	free(file->unpacked);
	*file = (struct elf_file){ .fd = -1 };
}

int elf_file_map(struct elf_file *file, uint64_t offset, uint64_t size, const char **ret,
	struct error *error)
{
	struct elf_window *window = file->windows;
	int r = 0;

	if (offset > file->size || size > file->size - offset)
		return error_set(error, -EINVAL, "cut short: %llu bytes at offset %llu of %llu",
			(unsigned long long) size, (unsigned long long) offset,
			(unsigned long long) file->size);
	if (file->image) {
		*ret = file->image + offset;
		return 0;
	}
	while (window && (offset < window->offset || offset + size > window->offset + window->size))
		window = window->next;
	if (!window)
		r = add_window(file, offset, size, &window, error);
	if (r == 0 && window)
		*ret = window->bytes + (offset - window->offset);
	return r;
}

int elf_file_take(struct elf_file *file, char **ret_data, size_t *ret_size, struct error *error)
{
	char *data = TAKE_PTR(file->unpacked);

	if (!data) {
		const char *bytes = NULL;
		int r = elf_file_map(file, 0, file->size, &bytes, error);

		if (r < 0 || !bytes)
			return r;
		data = malloc((size_t) file->size + 1);
		if (!data)
			return error_set_errno(error, -ENOMEM, "cannot read");
		memcpy(data, bytes, (size_t) file->size);
	}
	*ret_data = data;
	*ret_size = (size_t) file->size;
	return 0;
}

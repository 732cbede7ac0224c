/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fs.h"
#include "module/elf_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The largest module known, nvidia.ko with debug info, takes some 150 MB. */
#define FILE_SIZE_LIMIT ((size_t) 512 * 1024 * 1024)

/*
 * The parts of a file that are read first. A call costs as much as the copying of some KiB, so
 * small files are read in one piece. Of larger files, the ELF header is read with the notes that
 * mostly follow it, and the end: section names, section table and signature.
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
	if (format != DECOMPRESS_NONE) {
		const char *packed;

		r = elf_file_map(file, 0, file->size, &packed, error);
		return r < 0 ? r : unpack(file, format, packed, (size_t) file->size, error);
	}
	return whole ? 0 : add_window(file, tail, file->size - tail, &window, error);
}

static int map_whole(struct elf_file *file, struct error *error)
{
	enum decompress_format format;
	void *map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);

	if (map == MAP_FAILED)
		return read_first(file, error);
	file->image = file->mapped = map;
	file->mapped_size = (size_t) file->size;
	format = decompress_detect(file->image, file->mapped_size);
	return format == DECOMPRESS_NONE
		       ? 0
		       : unpack(file, format, file->mapped, file->mapped_size, error);
}

static int open_plain(
	struct elf_file *file, int dir_fd, const char *path, bool mapped, struct error *error)
{
	struct stat status;
	int r;

	file->fd = fs_open(dir_fd, path, O_RDONLY);
	if (file->fd < 0) {
		r = error_set_errno(error, file->fd, "cannot open");
		/* The kernel does not take anything but a regular file for a module either. */
		return r == -ESPIPE || r == -EISDIR ? -EINVAL : r;
	}
	if (fstat(file->fd, &status) < 0)
		return error_set_errno(error, -errno, "cannot stat");
	if ((uint64_t) status.st_size > FILE_SIZE_LIMIT)
		return error_set(error, -EFBIG, "larger than %zu MiB: not a kernel module",
			FILE_SIZE_LIMIT >> 20);
	file->size = (uint64_t) status.st_size;
	return mapped && file->size ? map_whole(file, error) : read_first(file, error);
}

int elf_file_open(struct elf_file *file, int dir_fd, const char *path, bool mapped,
	struct arena *memory, struct error *error)
{
	int r;

	*file = (struct elf_file){ .fd = -1 };
	file->memory = memory ? memory : &file->own;
	r = open_plain(file, dir_fd, path, mapped, error);
	if (r < 0)
		elf_file_close(file);
	return r;
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
	cleanup_close(&file->fd);
	free(file->unpacked);
	if (file->mapped)
		(void) munmap(file->mapped, file->mapped_size);
	*file = (struct elf_file){ .fd = -1 };
}

int elf_file_map(struct elf_file *file, uint64_t offset, uint64_t size, const char **ret,
	struct error *error)
{
	struct elf_window *window = file->windows;

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
	if (!window) {
		int r = add_window(file, offset, size, &window, error);

		if (r < 0)
			return r;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): add_window() sets it */
	*ret = window->bytes + (offset - window->offset);
	return 0;
}

/*
 * ---- the headers of a module file, and what every kernel demands of them: elf_validity_check() of
 * Linux 6.1 and elf_validity_cache_sechdrs(), _secstrings() of later ones, kernel/module/main.c.
 */

/* Parts of the file that lie no farther apart are read in one piece. */
#define GAP_LIMIT 3072

static const char *const known_names[ELF_KNOWN_COUNT] = {
	[ELF_MODINFO] = ".modinfo",
	[ELF_THIS_MODULE] = ".gnu.linkonce.this_module",
	[ELF_VERSIONS] = "__versions",
	[ELF_VERSION_CRCS] = "__version_ext_crcs",
	[ELF_VERSION_NAMES] = "__version_ext_names",
	[ELF_BUILD_ID] = ".note.gnu.build-id",
	[ELF_KSYMTAB] = "__ksymtab",
	[ELF_KSYMTAB_GPL] = "__ksymtab_gpl",
	[ELF_KCRCTAB] = "__kcrctab",
	[ELF_KCRCTAB_GPL] = "__kcrctab_gpl",
	[ELF_KFLAGSTAB] = "__kflagstab",
	[ELF_KSYMTAB_STRINGS] = "__ksymtab_strings",
	[ELF_PERCPU] = ".data..percpu",
	[ELF_INIT_TRAMPOLINE] = INIT_TRAMPOLINE,
};

/* The ELF header and the table of sections. */
static int read_section_table(struct elf_parts *parts, struct error *error)
{
	const Elf64_Ehdr *header = &parts->header;
	size_t size = (size_t) header->e_shnum * sizeof(Elf64_Shdr);
	const char *bytes;
	int r;

	if (header->e_type != ET_REL)
		return error_set(error, -EINVAL,
			"not a kernel module: an ELF file of type %u at offset %zu where modules "
			"are relocatable objects",
			header->e_type, offsetof(Elf64_Ehdr, e_type));
	if (header->e_shentsize != sizeof(Elf64_Shdr))
		return error_set(error, -EINVAL,
			"damaged: section headers of %u bytes by offset %zu, where they have %zu",
			header->e_shentsize, offsetof(Elf64_Ehdr, e_shentsize), sizeof(Elf64_Shdr));
	if (header->e_shoff >= parts->size || size > parts->size - header->e_shoff)
		return error_set(error, -EINVAL,
			"cut short: its section table at offset %llu, %u sections, goes beyond "
			"the file's %llu bytes",
			ull(header->e_shoff), header->e_shnum, ull(parts->size));
	if (header->e_shstrndx == SHN_UNDEF || header->e_shstrndx >= header->e_shnum)
		return error_set(error, -EINVAL,
			"damaged: the names of sections are in section %u by offset %zu, of %u",
			header->e_shstrndx, offsetof(Elf64_Ehdr, e_shstrndx), header->e_shnum);
	r = elf_file_map(parts->file, header->e_shoff, size, &bytes, error);
	if (r < 0)
		return r;
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it is set */
	if ((uintptr_t) bytes % _Alignof(Elf64_Shdr) == 0) {
		parts->sections = (const void *) bytes;
		return 0;
	}
	parts->copied = malloc(size);
	if (!parts->copied)
		return error_set_errno(error, -ENOMEM, "%u sections", header->e_shnum);
	memcpy(parts->copied, bytes, size);
	parts->sections = parts->copied;
	return 0;
}

bool elf_section_in_file(const struct elf_parts *parts, const Elf64_Shdr *section)
{
	return section->sh_offset <= parts->size &&
	       section->sh_size <= parts->size - section->sh_offset;
}

static int check_sections(const struct elf_parts *parts, struct error *error)
{
	const Elf64_Shdr *none = &parts->sections[0];

	if (none->sh_type != SHT_NULL || none->sh_size || none->sh_addr)
		return error_set(error, -EINVAL, "damaged: section 0 at offset %llu is not empty",
			ull(parts->header.e_shoff));
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		const Elf64_Shdr *section = &parts->sections[i];

		if (section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS &&
			!elf_section_in_file(parts, section))
			return error_set(error, -EINVAL,
				"cut short or damaged: section %u at offset %llu, %llu bytes, goes "
				"beyond the file's %llu",
				i, ull(section->sh_offset), ull(section->sh_size),
				ull(parts->size));
	}
	return 0;
}

static int read_names(struct elf_parts *parts, struct error *error)
{
	const Elf64_Shdr *section = &parts->sections[parts->header.e_shstrndx];
	int r;

	if (!elf_section_in_file(parts, section) || !section->sh_size)
		return error_set(error, -EINVAL,
			"damaged: the names of sections at offset %llu, %llu bytes, are empty or "
			"go beyond the file's %llu",
			ull(section->sh_offset), ull(section->sh_size), ull(parts->size));
	r = elf_file_map(parts->file, section->sh_offset, section->sh_size, &parts->names, error);
	if (r < 0)
		return r;
	parts->names_size = section->sh_size;
	if (parts->names[parts->names_size - 1])
		return error_set(error, -EINVAL,
			"damaged: the names of sections at offset %llu, %llu bytes, do not end "
			"with a NUL",
			ull(section->sh_offset), ull(section->sh_size));
	return 0;
}

const char *elf_section_name(const struct elf_parts *parts, unsigned int index)
{
	uint64_t place = parts->sections[index].sh_name;

	return place < parts->names_size ? parts->names + place : "";
}

static void note_section(struct elf_parts *parts, unsigned int index)
{
	const char *name = elf_section_name(parts, index);

	if (!*name)
		return;
	for (unsigned int i = 0; i < ELF_KNOWN_COUNT; i++) {
		struct elf_found *found = &parts->found[i];

		/* Large drivers have thousands of .text.*: most differ in the second letter. */
		if (name[1] != known_names[i][1] || strcmp(name, known_names[i]) != 0)
			continue;
		found->count++;
		if (!found->any)
			found->any = index;
		if (!found->allocated && parts->sections[index].sh_flags & SHF_ALLOC)
			found->allocated = index;
		return;
	}
}

static int find_sections(struct elf_parts *parts, struct error *error)
{
	for (unsigned int i = 1; i < parts->header.e_shnum; i++) {
		note_section(parts, i);
		if (parts->sections[i].sh_type != SHT_SYMTAB)
			continue;
		parts->symtab_count++;
		if (!parts->symtab)
			parts->symtab = i;
	}
	if (!parts->found[ELF_MODINFO].any && !parts->found[ELF_THIS_MODULE].any)
		return error_set(error, -EINVAL, "not a kernel module: it has no .modinfo section");
	if (!parts->symtab)
		return error_set(error, -EINVAL,
			"it has no symbol table, and the kernel refuses such a module: strip it "
			"with --strip-debug, not --strip-all");
	parts->strtab = parts->sections[parts->symtab].sh_link;
	if (parts->strtab == SHN_UNDEF || parts->strtab >= parts->header.e_shnum)
		return error_set(error, -EINVAL,
			"damaged: the names of symbols are in section %u by the header of section "
			"%u, of %u",
			parts->strtab, parts->symtab, parts->header.e_shnum);
	return 0;
}

struct range {
	uint64_t start;
	uint64_t end;
};

/* Reads ahead what will be mapped, neighbours together. Errors show when it is mapped. */
static void read_ahead(const struct elf_parts *parts, struct range *ranges, size_t count)
{
	struct range piece = { 0, 0 };
	struct error ignored;
	const char *bytes;

	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j && ranges[j].start < ranges[j - 1].start; j--) {
			struct range swap = ranges[j];

			ranges[j] = ranges[j - 1];
			ranges[j - 1] = swap;
		}
	for (size_t i = 0; i <= count; i++) {
		if (i < count && piece.end && ranges[i].start <= piece.end + GAP_LIMIT) {
			if (ranges[i].end > piece.end)
				piece.end = ranges[i].end;
			continue;
		}
		if (piece.end && elf_file_map(parts->file, piece.start, piece.end - piece.start,
					 &bytes, &ignored) < 0)
			return;
		if (i < count)
			piece = ranges[i];
	}
}

/* Returns whether there is anything of it to be read. */
static size_t plan_section(const struct elf_parts *parts, unsigned int index, struct range *range)
{
	const Elf64_Shdr *section = &parts->sections[index];

	if (!index || !section->sh_size || !elf_section_in_file(parts, section))
		return 0;
	*range = (struct range){ section->sh_offset, section->sh_offset + section->sh_size };
	return 1;
}

/* The relocations of a section lie behind it in the table where a linker made it. */
static unsigned int relocations_of(const struct elf_parts *parts, unsigned int index)
{
	if (!index || index + 1 >= parts->header.e_shnum ||
		parts->sections[index + 1].sh_type != SHT_RELA)
		return 0;
	return index + 1;
}

static void plan_reading(const struct elf_parts *parts)
{
	const unsigned int wanted[] = { parts->symtab, parts->strtab,
		relocations_of(parts, parts->found[ELF_KSYMTAB].any),
		relocations_of(parts, parts->found[ELF_KSYMTAB_GPL].any) };
	struct range ranges[ELF_KNOWN_COUNT + ARRAY_SIZE(wanted)];
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		count += plan_section(parts, wanted[i], &ranges[count]);
	for (unsigned int i = 0; i < ELF_KNOWN_COUNT; i++)
		if (i != ELF_PERCPU && i != ELF_INIT_TRAMPOLINE)
			count += plan_section(parts, parts->found[i].any, &ranges[count]);
	read_ahead(parts, ranges, count);
}

int elf_section_map(const struct elf_parts *parts, unsigned int index, struct elf_span *ret,
	struct error *error)
{
	const Elf64_Shdr *section = &parts->sections[index];

	*ret = (struct elf_span){ "", 0, index };
	if (!index || !elf_section_in_file(parts, section))
		return 0;
	ret->size = section->sh_size;
	return elf_file_map(parts->file, section->sh_offset, section->sh_size, &ret->data, error);
}

static int read_symbols(struct elf_parts *parts, struct error *error)
{
	struct elf_span symbols, strings;
	int r;

	plan_reading(parts);
	r = elf_section_map(parts, parts->symtab, &symbols, error);
	if (r < 0)
		return r;
	r = elf_section_map(parts, parts->strtab, &strings, error);
	if (r < 0)
		return r;
	parts->symbols = symbols.data;
	parts->symbol_count = symbols.size / sizeof(Elf64_Sym);
	parts->strings = strings.data;
	parts->strings_size = strings.size;
	return 0;
}

const char *elf_symbol_name(const struct elf_parts *parts, const Elf64_Sym *symbol)
{
	const char *name;

	if (symbol->st_name >= parts->strings_size)
		return "";
	name = parts->strings + symbol->st_name;
	/* All but the last have an end for sure when the table has one. */
	if (!parts->strings[parts->strings_size - 1] ||
		memchr(name, '\0', parts->strings_size - symbol->st_name))
		return name;
	return "";
}

int elf_parts_read_headers(struct elf_parts *parts, struct error *error)
{
	int r = read_section_table(parts, error);

	if (r < 0)
		return r;
	r = check_sections(parts, error);
	if (r < 0)
		return r;
	r = read_names(parts, error);
	return r < 0 ? r : find_sections(parts, error);
}

int elf_parts_read(struct elf_parts *parts, struct error *error)
{
	int r = elf_parts_read_headers(parts, error);

	return r < 0 ? r : read_symbols(parts, error);
}

void elf_parts_done(struct elf_parts *parts)
{
	free(parts->copied);
	parts->copied = NULL;
	parts->sections = NULL;
}

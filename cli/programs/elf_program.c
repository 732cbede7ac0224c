/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs/elf_program.h"

#include <gelf.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/arch.h"
#include "common/xalloc.h"

/* Far beyond all that is known: glibc has 60 versions, libLLVM's names take some 100 KiB. */
#define SEGMENTS_MAX   4096
#define NEEDED_MAX     1024
#define RECORDS_MAX    16384
#define NAME_MAX_BYTES ((uint64_t) 4096)
#define DYNAMIC_MAX    ((uint64_t) 1 << 20)
#define STRINGS_MAX    ((uint64_t) 256 << 20)
#define VERSIONS_BYTES ((uint64_t) 1 << 20)
#define PATH_BYTES     ((uint64_t) 4096)

#define RECORD_ALIGNMENT 4 /* of Elf64_Verneed and the like */

struct reading {
	Elf *elf;
	uint64_t size; /* of the file */
	size_t segment_count;
	bool has_dynamic;
	size_t record_count; /* of versions: chains may overlap */
	const char *strings; /* of DT_STRTAB */
	uint64_t strings_size;
	struct elf_program *program;
	struct error *error;
};

/* Addresses and sizes in the dynamic section. */
struct dynamic {
	bool has_strings;
	uint64_t strings, strings_size;
	uint64_t needs, needs_count;       /* DT_VERNEED, DT_VERNEEDNUM */
	uint64_t versions, versions_count; /* DT_VERDEF, DT_VERDEFNUM */
};

static int damaged(const struct reading *reading, const char *what)
{
	return error_set(reading->error, -EBADMSG, "cut short or damaged: %s", what);
}

/* @size bytes of the file, of which the ELF handle keeps a copy. NULL: there are not so many. */
static Elf_Data *read_chunk(
	const struct reading *reading, uint64_t offset, uint64_t size, Elf_Type type)
{
	if (size == 0 || offset > reading->size || size > reading->size - offset)
		return NULL;
	return elf_getdata_rawchunk(reading->elf, (int64_t) offset, size, type);
}

/* The place of address @address in the file, and how much of its segment follows it there. */
static bool find_address(
	const struct reading *reading, uint64_t address, uint64_t *ret_offset, uint64_t *ret_left)
{
	for (size_t i = 0; i < reading->segment_count; i++) {
		GElf_Phdr segment;
		uint64_t into;

		if (!gelf_getphdr(reading->elf, (int) i, &segment) || segment.p_type != PT_LOAD ||
			address < segment.p_vaddr)
			continue;
		into = address - segment.p_vaddr;
		if (into >= segment.p_filesz || segment.p_offset > reading->size ||
			into > reading->size - segment.p_offset)
			continue;
		*ret_offset = segment.p_offset + into;
		*ret_left = segment.p_filesz - into;
		if (*ret_left > reading->size - *ret_offset)
			*ret_left = reading->size - *ret_offset;
		return true;
	}
	return false;
}

/* A name in DT_STRTAB; NULL when it is not in there or has no end. */
static const char *string_at(const struct reading *reading, uint64_t offset)
{
	uint64_t left;

	if (offset >= reading->strings_size)
		return NULL;
	left = reading->strings_size - offset;
	return memchr(reading->strings + offset, '\0',
		       left < NAME_MAX_BYTES ? left : NAME_MAX_BYTES)
		       ? reading->strings + offset
		       : NULL;
}

static int set_text(const struct reading *reading, uint64_t offset, char **text)
{
	const char *found = string_at(reading, offset);

	if (!found)
		return damaged(reading, "a name in its dynamic section is not in the file");
	free(*text);
	*text = xstrdup(found);
	return 0;
}

/* ---- versions: chains of records, each with the distance to the next, which leads forward */

static Elf_Data *read_records(
	const struct reading *reading, uint64_t address, Elf_Type type, struct error *error)
{
	uint64_t offset, left;
	Elf_Data *data = NULL;

	if (find_address(reading, address, &offset, &left))
		data = read_chunk(
			reading, offset, left < VERSIONS_BYTES ? left : VERSIONS_BYTES, type);
	if (!data)
		(void) error_set(error, -EBADMSG,
			"cut short or damaged: its symbol versions are not in the file");
	return data;
}

/* May a record be at @offset? libelf looks whether all of it is in the data. */
static bool is_place(struct reading *reading, const Elf_Data *data, uint64_t offset)
{
	return offset < data->d_size && offset % RECORD_ALIGNMENT == 0 &&
	       reading->record_count++ < RECORDS_MAX;
}

static int add_demand(const struct reading *reading, uint64_t library, uint64_t version)
{
	struct elf_program *program = reading->program;
	const char *library_name = string_at(reading, library);
	const char *version_name = string_at(reading, version);

	if (!library_name || !version_name)
		return damaged(reading, "the name of a symbol version is not in the file");
	program->demands = xreallocarray(
		program->demands, program->demand_count + 1, sizeof(*program->demands));
	program->demands[program->demand_count++] =
		(struct elf_demand){ .library = xstrdup(library_name),
			.version = xstrdup(version_name) };
	return 0;
}

static int read_demands_of(
	struct reading *reading, Elf_Data *data, uint64_t offset, const GElf_Verneed *need)
{
	for (unsigned int i = 0; i < need->vn_cnt; i++) {
		GElf_Vernaux version;
		int r;

		if (!is_place(reading, data, offset) ||
			!gelf_getvernaux(data, (int) offset, &version))
			return damaged(reading, "a symbol version that it needs");
		r = version.vna_flags & VER_FLG_WEAK
			    ? 0
			    : add_demand(reading, need->vn_file, version.vna_name);
		if (r < 0 || version.vna_next == 0)
			return r;
		offset += version.vna_next;
	}
	return 0;
}

static int read_demands(struct reading *reading, const struct dynamic *dynamic)
{
	Elf_Data *data = read_records(reading, dynamic->needs, ELF_T_VNEED, reading->error);
	uint64_t offset = 0;

	if (!data)
		return -EBADMSG;
	for (uint64_t i = 0; i < dynamic->needs_count; i++) {
		GElf_Verneed need;
		int r;

		if (!is_place(reading, data, offset) || !gelf_getverneed(data, (int) offset, &need))
			return damaged(reading, "its list of needed symbol versions");
		r = read_demands_of(reading, data, offset + need.vn_aux, &need);
		if (r < 0 || need.vn_next == 0)
			return r;
		offset += need.vn_next;
	}
	return 0;
}

static int read_versions(struct reading *reading, const struct dynamic *dynamic)
{
	Elf_Data *data = read_records(reading, dynamic->versions, ELF_T_VDEF, reading->error);
	uint64_t offset = 0;

	if (!data)
		return -EBADMSG;
	reading->program->has_versions = true;
	for (uint64_t i = 0; i < dynamic->versions_count; i++) {
		GElf_Verdef version;
		GElf_Verdaux name;
		const char *text;

		if (!is_place(reading, data, offset) ||
			!gelf_getverdef(data, (int) offset, &version) ||
			!is_place(reading, data, offset + version.vd_aux) ||
			!gelf_getverdaux(data, (int) (offset + version.vd_aux), &name))
			return damaged(reading, "its list of symbol versions");
		text = string_at(reading, name.vda_name);
		if (!text)
			return damaged(reading, "the name of a symbol version is not in the file");
		if (!(version.vd_flags & VER_FLG_BASE))
			xstrv_push(&reading->program->versions, text);
		if (version.vd_next == 0)
			return 0;
		offset += version.vd_next;
	}
	return 0;
}

/* ---- the dynamic section */

static void note_entry(struct dynamic *dynamic, const GElf_Dyn *entry, struct elf_program *program)
{
	uint64_t value = entry->d_un.d_val;

	switch (entry->d_tag) {
	case DT_STRTAB:
		dynamic->strings = value;
		dynamic->has_strings = true;
		break;
	case DT_STRSZ:
		dynamic->strings_size = value;
		break;
	case DT_VERNEED:
		dynamic->needs = value;
		break;
	case DT_VERNEEDNUM:
		dynamic->needs_count = value;
		break;
	case DT_VERDEF:
		dynamic->versions = value;
		break;
	case DT_VERDEFNUM:
		dynamic->versions_count = value;
		break;
	case DT_FLAGS_1:
		program->is_program |= (value & DF_1_PIE) != 0;
		program->no_default |= (value & DF_1_NODEFLIB) != 0;
		break;
	default:
		break;
	}
}

/* Needs the strings. */
static int take_entry(const struct reading *reading, const GElf_Dyn *entry)
{
	struct elf_program *program = reading->program;
	uint64_t value = entry->d_un.d_val;
	const char *name;

	switch (entry->d_tag) {
	case DT_NEEDED:
		name = string_at(reading, value);
		if (!name)
			return damaged(reading, "the name of a needed library is not in the file");
		if (program->needed.count == NEEDED_MAX)
			return damaged(reading, "it needs too many libraries");
		xstrv_push(&program->needed, name);
		return 0;
	case DT_SONAME:
		return set_text(reading, value, &program->soname);
	case DT_RPATH:
		return set_text(reading, value, &program->rpath);
	case DT_RUNPATH:
		return set_text(reading, value, &program->runpath);
	default:
		return 0;
	}
}

static int read_strings(struct reading *reading, const struct dynamic *dynamic)
{
	uint64_t offset, left;
	Elf_Data *data = NULL;

	if (!dynamic->has_strings)
		return 0;
	if (find_address(reading, dynamic->strings, &offset, &left) &&
		dynamic->strings_size <= left && dynamic->strings_size <= STRINGS_MAX)
		data = read_chunk(reading, offset, dynamic->strings_size, ELF_T_BYTE);
	if (!data)
		return damaged(reading, "the names of its dynamic section are not in the file");
	reading->strings = data->d_buf;
	reading->strings_size = data->d_size;
	return 0;
}

static int read_dynamic(struct reading *reading, const GElf_Phdr *segment)
{
	struct dynamic dynamic = { 0 };
	Elf_Data *data;
	size_t count;
	int r;

	if (reading->has_dynamic)
		return damaged(reading, "it has two dynamic sections");
	reading->has_dynamic = true;
	if (segment->p_filesz == 0) /* a file of debug information */
		return 0;
	data = segment->p_filesz <= DYNAMIC_MAX
		       ? read_chunk(reading, segment->p_offset, segment->p_filesz, ELF_T_DYN)
		       : NULL;
	if (!data)
		return damaged(reading, "its dynamic section is not in the file");
	count = data->d_size / gelf_fsize(reading->elf, ELF_T_DYN, 1, EV_CURRENT);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count; i++) {
			GElf_Dyn entry;

			if (!gelf_getdyn(data, (int) i, &entry) || entry.d_tag == DT_NULL)
				break;
			if (pass == 0)
				note_entry(&dynamic, &entry, reading->program);
			r = pass == 0 ? 0 : take_entry(reading, &entry);
			if (r < 0)
				return r;
		}
		r = pass == 0 ? read_strings(reading, &dynamic) : 0;
		if (r < 0)
			return r;
	}
	r = dynamic.needs ? read_demands(reading, &dynamic) : 0;
	return r == 0 && dynamic.versions ? read_versions(reading, &dynamic) : r;
}

/* ---- the file */

static int read_interpreter(const struct reading *reading, const GElf_Phdr *segment)
{
	const Elf_Data *data =
		segment->p_filesz <= PATH_BYTES
			? read_chunk(reading, segment->p_offset, segment->p_filesz, ELF_T_BYTE)
			: NULL;
	const char *text = data ? data->d_buf : NULL;

	if (!text || !memchr(text, '\0', data->d_size))
		return damaged(reading, "the name of its loader is not in the file");
	free(reading->program->interpreter);
	reading->program->interpreter = xstrdup(text);
	reading->program->is_program = true;
	return 0;
}

static int read_segments(struct reading *reading)
{
	if (elf_getphdrnum(reading->elf, &reading->segment_count) < 0 ||
		reading->segment_count > SEGMENTS_MAX)
		return damaged(reading, "its program headers");
	for (size_t i = 0; i < reading->segment_count; i++) {
		GElf_Phdr segment;
		int r = 0;

		if (!gelf_getphdr(reading->elf, (int) i, &segment))
			return damaged(reading, "its program headers are not in the file");
		if (segment.p_type == PT_DYNAMIC)
			r = read_dynamic(reading, &segment);
		else if (segment.p_type == PT_INTERP)
			r = read_interpreter(reading, &segment);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_file(struct reading *reading)
{
	struct elf_program *program = reading->program;
	const struct arch *here = arch_here();
	GElf_Ehdr header;

	if (elf_kind(reading->elf) != ELF_K_ELF)
		return -ENOEXEC;
	if (!gelf_getehdr(reading->elf, &header))
		return damaged(reading, "its header");
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return -ENOEXEC;
	program->machine = header.e_machine;
	program->class = header.e_ident[EI_CLASS];
	program->data = header.e_ident[EI_DATA];
	program->is_program = header.e_type == ET_EXEC;
	/* Machines that images are made for are alike in these. */
	if (program->class != here->class || program->data != here->data)
		return 0;
	return read_segments(reading);
}

int elf_program_read(int fd, struct elf_program *ret, struct error *error)
{
	struct elf_program program = { 0 };
	struct reading reading = { .program = &program, .error = error };
	off_t size = lseek(fd, 0, SEEK_END);
	int r;

	if (size < 0)
		return error_set_errno(error, -errno, "cannot be read");
	reading.size = (uint64_t) size;
	(void) elf_version(EV_CURRENT);
	reading.elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!reading.elf)
		return size == 0 ? -ENOEXEC
				 : error_set(error, -EBADMSG, "damaged: %s", elf_errmsg(-1));
	r = read_file(&reading);
	(void) elf_end(reading.elf);
	if (r < 0) {
		elf_program_free(&program);
		return r;
	}
	*ret = program;
	return 0;
}

/* ---- as JSON */

static const struct json_field demand_fields[] = {
	{ JSON_FIELD("library", JSON_TEXT, struct elf_demand, library) },
	{ JSON_FIELD("version", JSON_TEXT, struct elf_demand, version) },
};
static const struct json_fields demand =
	JSON_FIELDS("symbol version", demand_fields, struct elf_demand);

JSON_HAS_COUNT(struct elf_program, demands, demand_count);
static const struct json_field program_fields[] = {
	{ JSON_FIELD("machine", JSON_NUMBER, struct elf_program, machine) },
	{ JSON_FIELD("class", JSON_NUMBER, struct elf_program, class) },
	{ JSON_FIELD("data", JSON_NUMBER, struct elf_program, data) },
	{ JSON_FIELD("program", JSON_BOOL, struct elf_program, is_program) },
	{ JSON_FIELD("interpreter", JSON_KNOWN, struct elf_program, interpreter) },
	{ JSON_FIELD("soname", JSON_KNOWN, struct elf_program, soname) },
	{ JSON_FIELD("rpath", JSON_KNOWN, struct elf_program, rpath) },
	{ JSON_FIELD("runpath", JSON_KNOWN, struct elf_program, runpath) },
	{ JSON_FIELD("no_default", JSON_BOOL, struct elf_program, no_default) },
	{ JSON_FIELD("has_versions", JSON_BOOL, struct elf_program, has_versions) },
	{ JSON_FIELD("needed", JSON_TEXTS, struct elf_program, needed) },
	{ JSON_FIELD("versions", JSON_TEXTS, struct elf_program, versions) },
	{ JSON_FIELD("demands", JSON_LIST, struct elf_program, demands), .of = &demand },
};
const struct json_fields elf_program_fields =
	JSON_FIELDS("program", program_fields, struct elf_program);

void elf_program_free(struct elf_program *program)
{
	json_fields_free(&elf_program_fields, program);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_module.h"

#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "module/decompress.h"
#include "module/elf_versions.h"
#include "module/trailer.h"

/* The largest module known, nvidia.ko with debug info, takes some 150 MB. */
#define MODULE_SIZE_LIMIT ((size_t) 512 * 1024 * 1024)

struct elf_module {
	char *path;
	int fd;      /* what libelf reads, or -1 when it reads image */
	char *image; /* the unpacked file, or NULL */
	size_t file_size;
	Elf *elf;
	Elf_Scn *symbols;
	Elf_Scn *build_id_note;
	struct elf_span modinfo; /* NUL-terminated strings, one after the other */
	struct elf_span versions_basic;
	struct elf_span versions_ext_crcs;
	struct elf_span versions_ext_names;
	struct elf_versions versions;
	int dir_fd;       /* for reading it again; the caller's */
	const void *data; /* the caller's buffer, or NULL */
	size_t data_size;
	uint16_t machine;
	uint64_t struct_size;
	struct elf_undefined *undefined;
	size_t undefined_count;
	struct elf_module_export *exports;
	size_t export_count;
};

static int elf_failed(struct error *error, const char *what)
{
	return error_set(error, -EINVAL, "%s: %s", what, elf_errmsg(-1));
}

static int read_packed(
	struct elf_module *module, enum decompress_format format, struct error *error)
{
	_cleanup_free_ char *packed = NULL;
	char self[64];
	size_t size = 0;
	int r;

	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", module->fd);
	r = fs_read(AT_FDCWD, self, MODULE_SIZE_LIMIT, &packed, &size);
	if (r < 0)
		return error_set_errno(error, r, "cannot read");
	return decompress(
		format, packed, size, MODULE_SIZE_LIMIT, &module->image, &module->file_size, error);
}

/*
 * Plain files are read by libelf as it needs them, not mapped: a file that shrinks meanwhile is
 * then an error and not a SIGBUS.
 */
static int open_image(struct elf_module *module, int dir_fd, struct error *error)
{
	unsigned char magic[DECOMPRESS_MAGIC_SIZE];
	enum decompress_format format;
	struct stat status;
	ssize_t got;
	int r;

	if (module->data) {
		format = decompress_detect(module->data, module->data_size);
		if (format != DECOMPRESS_NONE)
			return decompress(format, module->data, module->data_size,
				MODULE_SIZE_LIMIT, &module->image, &module->file_size, error);
		module->image = malloc(module->data_size + 1);
		if (!module->image)
			return error_set_errno(error, -ENOMEM, "cannot read");
		memcpy(module->image, module->data, module->data_size);
		module->file_size = module->data_size;
		return 0;
	}
	module->fd = openat(dir_fd, module->path, O_RDONLY | O_CLOEXEC);
	if (module->fd < 0)
		return error_set_errno(error, -errno, "cannot open");
	if (fstat(module->fd, &status) < 0)
		return error_set_errno(error, -errno, "cannot stat");
	if (!S_ISREG(status.st_mode))
		return error_set(error, -EINVAL, "not a regular file");
	got = pread(module->fd, magic, sizeof(magic), 0);
	if (got < 0)
		return error_set_errno(error, -errno, "cannot read");
	format = decompress_detect(magic, (size_t) got);
	if (format == DECOMPRESS_NONE) {
		module->file_size = (size_t) status.st_size;
		return 0;
	}
	r = read_packed(module, format, error);
	cleanup_close(&module->fd);
	module->fd = -1;
	return r;
}

static int open_elf(struct elf_module *module, struct error *error)
{
	GElf_Ehdr header;
	uint64_t table_end;

	(void) elf_version(EV_CURRENT);
	module->elf = module->image ? elf_memory(module->image, module->file_size)
				    : elf_begin(module->fd, ELF_C_READ, NULL);
	if (!module->elf)
		return elf_failed(error, "not an ELF file");
	if (elf_kind(module->elf) != ELF_K_ELF || !gelf_getehdr(module->elf, &header))
		return error_set(error, -EINVAL, "not an ELF file: no valid header at offset 0");
	module->machine = header.e_machine;
	if (header.e_type != ET_REL)
		return error_set(error, -EINVAL,
			"not a kernel module: an ELF file of type %u where modules are relocatable "
			"objects",
			header.e_type);
	table_end = header.e_shoff + (uint64_t) header.e_shnum * header.e_shentsize;
	if (header.e_shoff > module->file_size || table_end > module->file_size)
		return error_set(error, -EINVAL,
			"cut short: its section table at offset %llu goes beyond the file's %zu "
			"bytes",
			(unsigned long long) header.e_shoff, module->file_size);
	return 0;
}

static int section_span(
	Elf_Scn *section, const char *name, struct elf_span *ret_span, struct error *error)
{
	const Elf_Data *data = elf_rawdata(section, NULL);

	if (!data || (data->d_size && !data->d_buf)) {
		GElf_Shdr header = { 0 };

		(void) gelf_getshdr(section, &header);
		return error_set(error, -EINVAL,
			"damaged: section %s at offset %llu, %llu bytes, cannot be read: %s", name,
			(unsigned long long) header.sh_offset, (unsigned long long) header.sh_size,
			elf_errmsg(-1));
	}
	*ret_span = (struct elf_span){ data->d_buf ? data->d_buf : "", data->d_size, true };
	return 0;
}

static int note_section(struct elf_module *module, Elf_Scn *section, struct error *error)
{
	const struct {
		const char *name;
		struct elf_span *span;
	} wanted[] = {
		{ ".modinfo", &module->modinfo },
		{ "__versions", &module->versions_basic },
		{ "__version_ext_crcs", &module->versions_ext_crcs },
		{ "__version_ext_names", &module->versions_ext_names },
	};
	GElf_Shdr header;
	const char *name;
	size_t names;

	if (!gelf_getshdr(section, &header) || elf_getshdrstrndx(module->elf, &names) < 0)
		return elf_failed(error, "damaged section header");
	if (header.sh_type == SHT_SYMTAB && !module->symbols)
		module->symbols = section;
	name = elf_strptr(module->elf, names, header.sh_name);
	if (!name)
		return error_set(error, -EINVAL, "damaged: section %zu has no name at offset %u",
			elf_ndxscn(section), header.sh_name);
	if (strcmp(name, ".gnu.linkonce.this_module") == 0)
		module->struct_size = header.sh_size;
	if (strcmp(name, ".note.gnu.build-id") == 0)
		module->build_id_note = section;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (strcmp(name, wanted[i].name) == 0)
			return section_span(section, name, wanted[i].span, error);
	return 0;
}

static int read_sections(struct elf_module *module, struct error *error)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(module->elf, section))) {
		int r = note_section(module, section, error);

		if (r < 0)
			return r;
	}
	if (!module->modinfo.present)
		return error_set(error, -EINVAL, "not a kernel module: it has no .modinfo section");
	if (module->modinfo.size && module->modinfo.data[module->modinfo.size - 1] != '\0')
		return error_set(error, -EINVAL,
			"damaged: its .modinfo section of %zu bytes does not end with a NUL",
			module->modinfo.size);
	if (!module->symbols)
		return error_set(error, -EINVAL,
			"it has no symbol table, and the kernel refuses such a module: strip it "
			"with --strip-debug, not --strip-all");
	return 0;
}

/* Reads every symbol once, so that what comes later cannot fail on a damaged table. */
static int check_symbols(struct elf_module *module, struct error *error)
{
	Elf_Data *data = elf_getdata(module->symbols, NULL);
	GElf_Shdr header;
	GElf_Sym symbol;

	if (!data || !gelf_getshdr(module->symbols, &header) || !header.sh_entsize)
		return elf_failed(error, "damaged symbol table");
	for (size_t i = 1; i < header.sh_size / header.sh_entsize; i++)
		if (!gelf_getsym(data, (int) i, &symbol) ||
			!elf_strptr(module->elf, header.sh_link, symbol.st_name))
			return error_set(error, -EINVAL,
				"damaged: symbol %zu of the table at offset %llu: %s", i,
				(unsigned long long) header.sh_offset, elf_errmsg(-1));
	return 0;
}

static int read_versions(struct elf_module *module, struct error *error)
{
	const char *ident = elf_getident(module->elf, NULL);
	struct elf_versions_layout layout = {
		.long_size = ident[EI_CLASS] == ELFCLASS64 ? 8 : 4,
		.big_endian = ident[EI_DATA] == ELFDATA2MSB,
	};

	return elf_versions_read(&module->versions, &layout, &module->versions_basic,
		&module->versions_ext_crcs, &module->versions_ext_names, error);
}

static const char *section_name(const struct elf_module *module, size_t index, Elf_Scn **ret)
{
	Elf_Scn *section = elf_getscn(module->elf, index);
	GElf_Shdr header;
	const char *name;
	size_t names;

	*ret = section;
	if (!section || !gelf_getshdr(section, &header) ||
		elf_getshdrstrndx(module->elf, &names) < 0)
		return "";
	name = elf_strptr(module->elf, names, header.sh_name);
	return name ? name : "";
}

static struct elf_module_export *find_export(struct elf_module *module, const char *name)
{
	for (size_t i = 0; i < module->export_count; i++)
		if (strcmp(module->exports[i].symbol, name) == 0)
			return &module->exports[i];
	return NULL;
}

static void note_export(
	struct elf_module *module, const GElf_Sym *symbol, const char *name, const char *section)
{
	if (strncmp(name, "__ksymtab_", 10) != 0 || strncmp(section, "__ksymtab", 9) != 0)
		return;
	module->exports[module->export_count++] = (struct elf_module_export){
		.symbol = name + 10, .name_space = "", .gpl = strstr(section, "_gpl")
	};
	(void) symbol;
}

static void note_export_details(
	struct elf_module *module, const GElf_Sym *symbol, const char *name, Elf_Scn *section)
{
	bool is_crc = strncmp(name, "__crc_", 6) == 0;
	bool is_space = strncmp(name, "__kstrtabns_", 12) == 0;
	struct elf_module_export *export =
		is_crc || is_space ? find_export(module, name + (is_crc ? 6 : 12)) : NULL;
	Elf_Data *data;

	if (!export)
		return;
	if (symbol->st_shndx == SHN_ABS && is_crc) {
		export->crc = (uint32_t) symbol->st_value;
		export->has_crc = true;
		return;
	}
	data = section ? elf_rawdata(section, NULL) : NULL;
	if (!data || !data->d_buf || symbol->st_value > data->d_size)
		return;
	if (is_crc && data->d_size - symbol->st_value >= 4) {
		memcpy(&export->crc, (const char *) data->d_buf + symbol->st_value, 4);
		export->has_crc = true;
	}
	if (is_space && memchr((const char *) data->d_buf + symbol->st_value, 0,
				data->d_size - symbol->st_value))
		export->name_space = (const char *) data->d_buf + symbol->st_value;
}

static int compare_exports(const void *a, const void *b)
{
	const struct elf_module_export *left = a;
	const struct elf_module_export *right = b;

	return strcmp(left->symbol, right->symbol);
}

static int read_lists(struct elf_module *module, struct error *error)
{
	Elf_Data *data = elf_getdata(module->symbols, NULL);
	GElf_Shdr header;
	GElf_Sym symbol;
	size_t count;

	if (!data || !gelf_getshdr(module->symbols, &header))
		return elf_failed(error, "damaged symbol table");
	count = header.sh_size / header.sh_entsize;
	module->undefined = calloc(count + 1, sizeof(*module->undefined));
	module->exports = calloc(count + 1, sizeof(*module->exports));
	if (!module->undefined || !module->exports)
		return error_set_errno(error, -ENOMEM, "%zu symbols", count);
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 1; i < count; i++) {
			Elf_Scn *section = NULL;
			const char *name, *where;

			if (!gelf_getsym(data, (int) i, &symbol))
				continue;
			name = elf_strptr(module->elf, header.sh_link, symbol.st_name);
			if (!name)
				continue;
			where = section_name(module, symbol.st_shndx, &section);
			if (pass == 1)
				note_export_details(module, &symbol, name, section);
			else if (symbol.st_shndx == SHN_UNDEF && *name &&
				 GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
				module->undefined[module->undefined_count++] =
					(struct elf_undefined){ name,
						GELF_ST_BIND(symbol.st_info) == STB_WEAK };
			else if (symbol.st_shndx != SHN_UNDEF)
				note_export(module, &symbol, name, where);
		}
	qsort(module->exports, module->export_count, sizeof(*module->exports), compare_exports);
	return 0;
}

static int open_any(int dir_fd, const char *path, const void *data, size_t size,
	struct elf_module **ret, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = calloc(1, sizeof(*module));
	int r;

	if (!module)
		return error_set_errno(error, -ENOMEM, "%s", path);
	module->fd = -1;
	module->dir_fd = dir_fd;
	module->data = data;
	module->data_size = size;
	module->path = strdup(path);
	if (!module->path)
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = open_image(module, dir_fd, error);
	if (r == 0)
		r = open_elf(module, error);
	if (r == 0)
		r = read_sections(module, error);
	if (r == 0)
		r = check_symbols(module, error);
	if (r == 0)
		r = read_versions(module, error);
	if (r == 0)
		r = read_lists(module, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	*ret = TAKE_PTR(module);
	return 0;
}

int elf_module_open(int dir_fd, const char *path, struct elf_module **ret, struct error *error)
{
	return open_any(dir_fd, path, NULL, 0, ret, error);
}

int elf_module_open_memory(const void *data, size_t size, const char *name, struct elf_module **ret,
	struct error *error)
{
	return open_any(AT_FDCWD, name, data, size, ret, error);
}

void elf_module_close(struct elf_module **module)
{
	struct elf_module *closing = TAKE_PTR(*module);

	if (!closing)
		return;
	elf_versions_free(&closing->versions);
	free(closing->undefined);
	free(closing->exports);
	(void) elf_end(closing->elf);
	cleanup_close(&closing->fd);
	free(closing->image);
	free(closing->path);
	free(closing);
}

const char *elf_module_path(const struct elf_module *module)
{
	return module->path;
}

const char *elf_module_name(const struct elf_module *module)
{
	return elf_module_info(module, "name");
}

/* The next string after @entry (the first for NULL), or NULL at the end. */
static const char *next_info(const struct elf_module *module, const char *entry)
{
	const char *end = module->modinfo.data + module->modinfo.size;

	entry = entry ? entry + strlen(entry) + 1 : module->modinfo.data;
	while (entry < end && !*entry) /* padding between strings */
		entry++;
	return entry < end ? entry : NULL;
}

static const char *info_value(const char *entry, const char *key)
{
	size_t length = strlen(key);

	return strncmp(entry, key, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

const char *elf_module_info(const struct elf_module *module, const char *key)
{
	for (const char *entry = next_info(module, NULL); entry; entry = next_info(module, entry))
		if (info_value(entry, key))
			return info_value(entry, key);
	return NULL;
}

int elf_module_info_all(const struct elf_module *module, const char *key, struct strv *values)
{
	for (const char *entry = next_info(module, NULL); entry; entry = next_info(module, entry)) {
		const char *value = info_value(entry, key);

		if (value && strv_push(values, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

const char *elf_module_info_next(
	const struct elf_module *module, const char *key, const char *previous)
{
	const char *entry = next_info(module, previous);

	while (entry && !info_value(entry, key))
		entry = next_info(module, entry);
	return entry ? info_value(entry, key) : NULL;
}

int elf_module_depends(const struct elf_module *module, struct strv *names)
{
	const char *depends = elf_module_info(module, "depends");
	size_t first = names->count;

	if (depends && strv_split(names, depends, ",") < 0)
		return -ENOMEM;
	for (size_t i = first; i < names->count; i++)
		for (char *dash = names->items[i]; (dash = strchr(dash, '-'));)
			*dash = '_';
	return 0;
}

void elf_module_build_id(const struct elf_module *module, char hex[BUILD_ID_HEX_SIZE])
{
	Elf_Data *data = module->build_id_note ? elf_getdata(module->build_id_note, NULL) : NULL;
	size_t name_offset, id_offset, next = 0;
	GElf_Nhdr note;

	hex[0] = '\0';
	while (data && (next = gelf_getnote(data, next, &note, &name_offset, &id_offset)) > 0) {
		const unsigned char *bytes = data->d_buf;

		if (note.n_type != NT_GNU_BUILD_ID || note.n_descsz > (BUILD_ID_HEX_SIZE - 1) / 2)
			continue;
		for (size_t i = 0; i < note.n_descsz; i++)
			(void) snprintf(hex + 2 * i, 3, "%02x", bytes[id_offset + i]);
		return;
	}
}

bool elf_module_has_versions(const struct elf_module *module, bool *ret_basic)
{
	if (ret_basic)
		*ret_basic = module->versions_basic.present;
	return module->versions_basic.present || module->versions_ext_crcs.present;
}

const struct elf_symbol_version *elf_module_versions(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->versions.count;
	return module->versions.items;
}

bool elf_module_version(const struct elf_module *module, const char *symbol, uint32_t *ret_crc)
{
	const struct elf_symbol_version *found = elf_versions_find(&module->versions, symbol);

	if (found)
		*ret_crc = found->crc;
	return found;
}

int elf_module_undefined(const struct elf_module *module, bool with_weak, struct strv *names)
{
	Elf_Data *data = elf_getdata(module->symbols, NULL);
	GElf_Shdr header;
	GElf_Sym symbol;

	if (!data || !gelf_getshdr(module->symbols, &header))
		return -EINVAL;
	for (size_t i = 1; i < header.sh_size / header.sh_entsize; i++) {
		const char *name;

		if (!gelf_getsym(data, (int) i, &symbol) || symbol.st_shndx != SHN_UNDEF)
			continue;
		if (GELF_ST_BIND(symbol.st_info) == STB_LOCAL ||
			(GELF_ST_BIND(symbol.st_info) == STB_WEAK && !with_weak))
			continue;
		name = elf_strptr(module->elf, header.sh_link, symbol.st_name);
		if (name && *name && strv_push(names, name) < 0)
			return -ENOMEM;
	}
	return 0;
}

const struct elf_undefined *elf_module_undefined_symbols(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->undefined_count;
	return module->undefined;
}

const struct elf_module_export *elf_module_exports(
	const struct elf_module *module, size_t *ret_count)
{
	*ret_count = module->export_count;
	return module->exports;
}

uint16_t elf_module_machine(const struct elf_module *module)
{
	return module->machine;
}

uint64_t elf_module_struct_size(const struct elf_module *module)
{
	return module->struct_size;
}

int elf_module_bytes(
	const struct elf_module *module, char **ret_data, size_t *ret_size, struct error *error)
{
	_cleanup_free_ char *bytes = NULL;
	enum decompress_format format;
	size_t size = module->data_size;
	int r = 0;

	if (!module->data)
		r = fs_read(module->dir_fd, module->path, MODULE_SIZE_LIMIT, &bytes, &size);
	if (r < 0)
		return error_set_errno(error, r, "%s: cannot read", module->path);
	if (!bytes) {
		bytes = malloc(size + 1);
		if (!bytes)
			return error_set_errno(error, -ENOMEM, "%s", module->path);
		memcpy(bytes, module->data, size);
	}
	format = decompress_detect(bytes, size);
	if (format != DECOMPRESS_NONE)
		return decompress(
			format, bytes, size, MODULE_SIZE_LIMIT, ret_data, ret_size, error);
	*ret_data = TAKE_PTR(bytes);
	*ret_size = size;
	return 0;
}

int elf_module_trailer(const struct elf_module *module, struct cms_facts *ret_cms,
	bool *ret_present, struct error *error)
{
	_cleanup_free_ char *bytes = NULL;
	struct module_trailer trailer;
	size_t size;
	int r = elf_module_bytes(module, &bytes, &size, error);

	memset(ret_cms, 0, sizeof(*ret_cms));
	*ret_present = false;
	if (r == 0)
		r = module_trailer_read(bytes, size, &trailer, error);
	if (r < 0)
		return r;
	*ret_present = trailer.present;
	if (!trailer.present || trailer.type != MODULE_TRAILER_CMS)
		return 0;
	return cms_read(bytes + trailer.signature_offset, trailer.signature_size,
		trailer.signature_offset, ret_cms, error);
}

int elf_module_check_format(
	const struct elf_module *module, unsigned int version, struct error *error)
{
	(void) module;
	(void) version;
	(void) error;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a kernel: made of its tree or its configuration, and as a file (slipway-lint(1)).
 */
#include "kernels/tree/record.h"

#include <ctype.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/tree.h"
#include "module/elf.h"

#define SCHEMA       1
#define RECORD_LIMIT ((size_t) 1 << 20)

/* ---- the fields: one table to free, write and read them */

#define RECORD(member, kind)   JSON_FIELD(#member, kind, struct kernel_record, member)
#define COMPILER(member, kind) JSON_FIELD(#member, kind, struct kernel_compiler, member)

static const struct json_field compiler_fields[] = {
	{ COMPILER(name, JSON_TEXT) },
	{ COMPILER(family, JSON_TEXT) },
	{ COMPILER(program, JSON_TEXT) },
	{ COMPILER(version, JSON_TEXT) },
	{ COMPILER(text, JSON_TEXT) },
	{ COMPILER(linker, JSON_TEXT) },
	{ COMPILER(major, JSON_NUMBER) },
	{ COMPILER(config_version, JSON_NUMBER) },
	{ COMPILER(llvm, JSON_BOOL) },
	{ COMPILER(disagrees, JSON_BOOL) },
};

static const struct json_fields of_compiler =
	JSON_FIELDS("compiler", compiler_fields, struct kernel_compiler);

static const struct json_field record_fields[] = {
	{ RECORD(krel, JSON_TEXT) },
	{ RECORD(arch, JSON_TEXT) },
	{ RECORD(tools_arch, JSON_TEXT) },
	{ RECORD(vermagic, JSON_TEXT) },
	{ RECORD(vermagic_source, JSON_TEXT) },
	{ RECORD(config_source, JSON_TEXT) },
	{ RECORD(sig_hash, JSON_TEXT) },
	{ RECORD(compress, JSON_TEXT) },
	{ RECORD(page_kib, JSON_NUMBER) },
	{ RECORD(has_symvers, JSON_BOOL) },
	{ RECORD(has_vmlinux, JSON_BOOL) },
	{ RECORD(has_randseed, JSON_BOOL) },
	{ RECORD(prepared, JSON_BOOL) },
	{ RECORD(compiler, JSON_OBJECT), .of = &of_compiler },
};

static const struct json_fields of_record =
	JSON_FIELDS("record", record_fields, struct kernel_record);

#define CONFIG_NAMES 3

static const struct {
	const char *name;
	/* The first one that is set counts: options were renamed in the course of time. */
	const char *configs[CONFIG_NAMES];
} options[KOPT_COUNT] = {
	[KOPT_SMP] = { "smp", { "SMP" } },
	[KOPT_PREEMPT] = { "preempt", { "PREEMPT_BUILD", "PREEMPT" } },
	[KOPT_PREEMPT_RT] = { "preempt_rt", { "PREEMPT_RT", "PREEMPT_RT_FULL" } },
	[KOPT_MODULES] = { "modules", { "MODULES" } },
	[KOPT_MODULE_UNLOAD] = { "module_unload", { "MODULE_UNLOAD" } },
	[KOPT_MODVERSIONS] = { "modversions", { "MODVERSIONS" } },
	[KOPT_BASIC_MODVERSIONS] = { "basic_modversions", { "BASIC_MODVERSIONS" } },
	[KOPT_EXTENDED_MODVERSIONS] = { "extended_modversions", { "EXTENDED_MODVERSIONS" } },
	[KOPT_GENDWARFKSYMS] = { "gendwarfksyms", { "GENDWARFKSYMS" } },
	[KOPT_MODULE_SIG] = { "module_sig", { "MODULE_SIG" } },
	[KOPT_MODULE_SIG_FORCE] = { "module_sig_force", { "MODULE_SIG_FORCE" } },
	[KOPT_MODULE_SIG_ALL] = { "module_sig_all", { "MODULE_SIG_ALL" } },
	[KOPT_LOCKDOWN_LSM] = { "lockdown_lsm", { "SECURITY_LOCKDOWN_LSM", "LOCK_DOWN_KERNEL" } },
	[KOPT_LOCKDOWN_INTEGRITY] = { "lockdown_integrity",
		{ "LOCK_DOWN_KERNEL_FORCE_INTEGRITY", "LOCK_DOWN_KERNEL_FORCE" } },
	[KOPT_LOCKDOWN_CONFIDENTIALITY] = { "lockdown_confidentiality",
		{ "LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY" } },
	[KOPT_LOCKDOWN_SECURE_BOOT] = { "lockdown_secure_boot",
		{ "LOCK_DOWN_IN_EFI_SECURE_BOOT", "LOCK_DOWN_IN_SECURE_BOOT" } },
	[KOPT_RANDSTRUCT] = { "randstruct", { "RANDSTRUCT", "GCC_PLUGIN_RANDSTRUCT" } },
	[KOPT_GCC_PLUGINS] = { "gcc_plugins", { "GCC_PLUGINS" } },
	[KOPT_TRIM_UNUSED_KSYMS] = { "trim_unused_ksyms", { "TRIM_UNUSED_KSYMS" } },
	[KOPT_LTO] = { "lto", { "LTO_CLANG", "LTO" } },
	[KOPT_CFI] = { "cfi", { "CFI", "CFI_CLANG" } },
	[KOPT_BTF] = { "btf", { "DEBUG_INFO_BTF" } },
	[KOPT_BTF_MODULES] = { "btf_modules", { "DEBUG_INFO_BTF_MODULES" } },
	[KOPT_RETPOLINE] = { "retpoline", { "MITIGATION_RETPOLINE", "RETPOLINE" } },
	[KOPT_IBT] = { "ibt", { "X86_KERNEL_IBT" } },
	[KOPT_LIVEPATCH] = { "livepatch", { "LIVEPATCH" } },
	[KOPT_INFINIBAND] = { "infiniband", { "INFINIBAND" } },
	[KOPT_MLX5_CORE] = { "mlx5_core", { "MLX5_CORE" } },
	[KOPT_MLX5_INFINIBAND] = { "mlx5_infiniband", { "MLX5_INFINIBAND" } },
	[KOPT_DRM] = { "drm", { "DRM" } },
	[KOPT_DRM_KMS_HELPER] = { "drm_kms_helper", { "DRM_KMS_HELPER" } },
	[KOPT_MMU_NOTIFIER] = { "mmu_notifier", { "MMU_NOTIFIER" } },
};

const char *kernel_option_name(enum kernel_option option)
{
	return options[option].name;
}

bool kernel_record_has(const struct kernel_record *record, enum kernel_option option)
{
	return record->options[option] == 'y' || record->options[option] == 'm';
}

void kernel_compiler_free(struct kernel_compiler *compiler)
{
	json_fields_free(&of_compiler, compiler);
	*compiler = (struct kernel_compiler){ 0 };
}

void kernel_record_free(struct kernel_record *record)
{
	json_fields_free(&of_record, record);
	*record = (struct kernel_record){ 0 };
}

/* Hands a record that is made to the caller: every text that is NULL becomes "". */
static void give(struct kernel_record *record, struct kernel_record *ret)
{
	json_fields_fill(&of_record, record);
	*ret = *record;
	*record = (struct kernel_record){ 0 };
}

/* ---- the compiler */

static size_t version_length(const char *text)
{
	size_t length = strspn(text, "0123456789.");

	return isdigit((unsigned char) *text) && memchr(text, '.', length) ? length : 0;
}

/* The first version in @text that is a word of its own outside parentheses; NULL: there is none. */
static char *find_version(const char *text)
{
	unsigned int depth = 0;

	for (const char *c = text; *c; c++) {
		size_t length;

		if (*c == '(')
			depth++;
		else if (*c == ')' && depth > 0)
			depth--;
		if (depth > 0 || (c > text && c[-1] != ' ' && c[-1] != ')'))
			continue;
		length = version_length(c);
		while (length > 0 && c[length - 1] == '.')
			length--;
		if (length > 0)
			return xstrndup(c, length);
	}
	return NULL;
}

/* "/proc/version" names the compiler in parentheses after who compiled it and where. */
static const char *skip_proc_version(const char *text)
{
	const char *found = strncmp(text, "Linux version ", 14) == 0 ? strstr(text, ") (") : NULL;

	return found ? found + 3 : text;
}

/* The program, without its folder: what stands before the first blank, unless that is a vendor. */
static char *find_program(const char *text, const char *family)
{
	_cleanup_free_ char *word = xstrndup(text, strcspn(text, " "));
	const char *slash = strrchr(word, '/');
	const char *name = slash ? slash + 1 : word;

	return xstrdup(strstr(name, family) ? name : family);
}

/* "gcc-12" of gcc and "12.2.0". */
static char *compiler_name(const char *family, const char *version)
{
	unsigned int major = 0;
	unsigned int minor = 0;

	(void) sscanf(version, "%u.%u", &major, &minor);
	/* Before 5, gcc counted its releases in the second number. */
	if (strcmp(family, "gcc") == 0 && major < 5)
		return xasprintf("gcc-%u.%u", major, minor);
	return xasprintf("%s-%u", family, major);
}

/*
 * The words come in many shapes, and what stands in parentheses is the packager's and may hold
 * another version:
 *     gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0
 *     gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)
 *     Debian clang version 16.0.6 (15~deb12u1)
 *     gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)
 */
int kernel_compiler_parse(const char *text, struct kernel_compiler *ret, struct error *error)
{
	const char *own = skip_proc_version(text);
	const char *clang = strstr(own, "clang version ");
	const char *family = clang ? "clang" : "gcc";
	char *version = clang || strstr(own, "gcc") ? find_version(clang ? clang : own) : NULL;

	if (!version)
		return error_set(
			error, -EINVAL, "\"%s\": not a version line of gcc or clang", text);
	*ret = (struct kernel_compiler){
		.name = compiler_name(family, version),
		.family = xstrdup(family),
		.program = find_program(own, family),
		.version = version,
		.text = xstrdup(text),
		.linker = xstrdup(strstr(own, "LLD") ? "ld.lld" : "ld.bfd"),
		.major = (unsigned int) strtoul(version, NULL, 10),
		.llvm = clang != NULL,
	};
	return 0;
}

/*
 * Derives the compiler from CONFIG_CC_VERSION_TEXT or the text in compile.h, and from the numbers
 * CONFIG_GCC_VERSION=120200 and CONFIG_CLANG_VERSION=160006; the other compiler's number is 0.
 */
static void fill_compiler(
	const struct kconfig *config, const char *text, struct kernel_compiler *compiler)
{
	bool clang = kconfig_tristate(config, "CC_IS_CLANG") == 'y';
	unsigned long number = kconfig_number(config, clang ? "CLANG_VERSION" : "GCC_VERSION");
	const char *family = clang ? "clang" : "gcc";
	unsigned int major, minor = 0, patch = 0;
	struct error ignored = { 0 };

	/* A text that cannot be read is kept, and the numbers decide. */
	if (!text || kernel_compiler_parse(text, compiler, &ignored) < 0)
		compiler->text = xstrdup(text ? text : "");
	if (kconfig_tristate(config, "LD_IS_LLD") == 'y') {
		free(compiler->linker);
		compiler->linker = xstrdup("ld.lld");
	}
	if (number < 10000 || number > 9999999)
		return;
	compiler->config_version = (unsigned int) number;
	if (compiler->family) {
		int parts = sscanf(compiler->version, "%u.%u.%u", &major, &minor, &patch);

		compiler->disagrees = strcmp(compiler->family, family) != 0 || parts < 1 ||
				      major * 10000 + minor * 100 + patch != number;
		return;
	}
	compiler->major = compiler->config_version / 10000;
	compiler->llvm = clang;
	compiler->family = xstrdup(family);
	compiler->version = xasprintf("%u.%u.%u", compiler->major,
		compiler->config_version / 100 % 100, compiler->config_version % 100);
	compiler->name = compiler_name(family, compiler->version);
}

/* ---- vermagic: Linux include/linux/vermagic.h and arch/arm64/include/asm/vermagic.h */

/* Returns the text between the first quotes of @text, or NULL. */
static char *quoted(const char *text)
{
	const char *start = strchr(text, '"');
	const char *end = start ? strchr(start + 1, '"') : NULL;

	return end ? xstrndup(start + 1, (size_t) (end - start - 1)) : NULL;
}

/* Is the option set that "#ifdef CONFIG_X" or "#elif defined(CONFIG_X)" asks for? */
static bool condition_holds(const struct kernel_record *record, const char *line)
{
	if (strstr(line, "CONFIG_PREEMPT_RT"))
		return kernel_record_has(record, KOPT_PREEMPT_RT);
	return strstr(line, "CONFIG_PREEMPT") && kernel_record_has(record, KOPT_PREEMPT);
}

/* A file of the tree, or of its source where that is apart; NULL: neither has it. */
static char *place_in_tree(int root_fd, const char *krel, const char *file)
{
	static const char *const tops[] = { "source", "build" };

	for (size_t i = 0; root_fd >= 0 && i < ARRAY_SIZE(tops); i++) {
		_cleanup_free_ char *path = xasprintf("lib/modules/%s/%s/%s", krel, tops[i], file);
		char *place;

		if (chase(root_fd, path, &place) == 0)
			return place;
	}
	return NULL;
}

/*
 * Kernels with both PREEMPT_BUILD and PREEMPT_RT (since 6.12) have "preempt" or "preempt_rt" by
 * which of the two their vermagic.h asks for first. "" for neither.
 */
static char *preempt_word(const struct kernel_record *record, int root_fd)
{
	static const char define[] = "#define MODULE_VERMAGIC_PREEMPT";
	_cleanup_free_ char *path =
		place_in_tree(root_fd, record->krel, "include/linux/vermagic.h");
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	bool holds = false;

	if (!path || fs_read(root_fd, path, 1 << 20, &text, NULL) < 0) {
		if (kernel_record_has(record, KOPT_PREEMPT))
			return xstrdup("preempt ");
		return xstrdup(kernel_record_has(record, KOPT_PREEMPT_RT) ? "preempt_rt " : "");
	}
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "#if", 3) == 0 || strncmp(line, "#elif", 5) == 0)
			holds = condition_holds(record, line);
		else if (holds && strncmp(line, define, strlen(define)) == 0)
			return quoted(line);
	}
	return xstrdup("");
}

/* "RANDSTRUCT_<hash of the seed>"; "" without RANDSTRUCT or without the hash. */
static char *randstruct_word(const struct kernel_record *record, int build_fd)
{
	static const char *const forms[][2] = {
		{ "include/generated/randstruct_hash.h", "RANDSTRUCT_" },
		{ "include/generated/randomize_layout_hash.h", "RANDSTRUCT_PLUGIN_" },
	};

	if (build_fd < 0 || !kernel_record_has(record, KOPT_RANDSTRUCT))
		return xstrdup("");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_free_ char *text = NULL;
		_cleanup_free_ char *hash = NULL;

		if (fs_read(build_fd, forms[i][0], 1 << 16, &text, NULL) == 0)
			hash = quoted(text);
		if (hash)
			return xasprintf("%s%s", forms[i][1], hash);
	}
	return xstrdup("");
}

/* Takes vermagic from the first of the kernel's own modules that has one. */
static bool ask_module(struct kernel_record *record, int root_fd)
{
	_cleanup_free_ char *folder = xasprintf("lib/modules/%s/kernel", record->krel);
	_cleanup_strv_ struct strv paths = { 0 };

	if (root_fd < 0 || depends_list_modules(root_fd, folder, &paths) < 0)
		return false;
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };
		const char *vermagic = NULL;

		if (elf_module_open(root_fd, paths.items[i], &module, &ignored) == 0)
			vermagic = elf_module_info(module, "vermagic");
		if (!vermagic)
			continue;
		record->vermagic = xstrdup(vermagic);
		record->vermagic_source = xstrdup(paths.items[i]);
		return true;
	}
	return false;
}

/*
 * Sets the string that the kernel compares with a module's vermagic: from one of the kernel's own
 * modules below the root if there is one, else from the configuration as the tree's own
 * linux/vermagic.h wants it. Both descriptors may be -1.
 */
static void fill_vermagic(struct kernel_record *record, int root_fd, int build_fd)
{
	const struct arch *arch = arch_find(record->arch);
	_cleanup_free_ char *preempt = NULL;
	_cleanup_free_ char *randstruct = NULL;

	if (ask_module(record, root_fd))
		return;
	preempt = preempt_word(record, root_fd);
	randstruct = randstruct_word(record, build_fd);
	record->vermagic_source = xstrdup("config");
	record->vermagic = xasprintf("%s %s%s%s%s%s%s", record->krel,
		kernel_record_has(record, KOPT_SMP) ? "SMP " : "", preempt ? preempt : "",
		kernel_record_has(record, KOPT_MODULE_UNLOAD) ? "mod_unload " : "",
		kernel_record_has(record, KOPT_MODVERSIONS) ? "modversions " : "",
		arch ? arch->vermagic : "", randstruct);
}

/* ---- by the configuration */

/* Options that decide a fact: the first that is on. */
struct fact {
	const char *config;
	const char *value;
};

static const char *first_fact(
	const struct kconfig *config, const struct fact *facts, size_t count, const char *other)
{
	for (size_t i = 0; i < count; i++)
		if (kconfig_tristate(config, facts[i].config) == 'y')
			return facts[i].value;
	return other;
}

/* All that is in a configuration. @compiler is used where it has no text of one; may be NULL. */
static void fill_from_config(struct kernel_record *record, const struct kconfig *config,
	const char *krel, const char *compiler)
{
	/* MODULE_COMPRESS alone means gzip or xz before 5.13. */
	static const struct fact packings[] = {
		{ "MODULE_COMPRESS_XZ", "xz" },
		{ "MODULE_COMPRESS_ZSTD", "zstd" },
		{ "MODULE_COMPRESS_GZIP", "gzip" },
	};
	const struct arch *arch = archs;
	const struct arch_page *page = arch_pages;
	const char *text = kconfig_get(config, "CC_VERSION_TEXT");
	const char *hash = kconfig_get(config, "MODULE_SIG_HASH");

	for (unsigned int i = 0; i < KOPT_COUNT; i++) {
		char value = 'n';

		for (size_t k = 0; k < CONFIG_NAMES && value == 'n' && options[i].configs[k]; k++)
			value = kconfig_tristate(config, options[i].configs[k]);
		record->options[i] = value;
	}
	record->krel = xstrdup(krel);
	while (arch->uname && kconfig_tristate(config, arch->config) != 'y')
		arch++;
	record->arch = xstrdup(arch->uname ? arch->uname : "");
	while (page->config && kconfig_tristate(config, page->config) != 'y')
		page++;
	record->page_kib = page->kib;
	record->compress = xstrdup(first_fact(config, packings, ARRAY_SIZE(packings), "none"));
	record->sig_hash = xstrdup(hash ? hash : "");
	fill_compiler(config, text && *text ? text : compiler, &record->compiler);
}

void kernel_record_of_config(const struct kconfig *config, const char *krel, const char *version,
	struct kernel_record *ret)
{
	struct kernel_record record = { 0 };

	fill_from_config(&record, config, krel, version);
	record.config_source = xstrdup("config");
	fill_vermagic(&record, -1, -1);
	give(&record, ret);
}

/* ---- by the tree */

/*
 * Finds the configuration: the tree's own, what kbuild made of it (headers packages that leave
 * .config out have that), or what the kernel's package brought. Without one nothing is set, and
 * *ret_path is "": lint judges that.
 */
static int find_config(
	int root_fd, const char *krel, struct kconfig **ret, char **ret_path, struct error *error)
{
	static const char *const places[][2] = {
		{ "lib/modules/", "/build/.config" },
		{ "lib/modules/", "/build/include/config/auto.conf" },
		{ "lib/modules/", "/config" },
		{ "boot/config-", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *path = xasprintf("%s%s%s", places[i][0], krel, places[i][1]);
		_cleanup_free_ char *place = NULL;

		if (chase(root_fd, path, &place) < 0)
			continue;
		*ret_path = TAKE_PTR(path);
		return kconfig_read(root_fd, place, ret, error);
	}
	*ret_path = xstrdup("");
	return kconfig_parse("no configuration", "", 0, ret, error);
}

static bool has_randseed(int root_fd, const char *krel)
{
	_cleanup_free_ char *seed = place_in_tree(root_fd, krel, "scripts/basic/randstruct.seed");
	_cleanup_free_ char *old = place_in_tree(
		root_fd, krel, "scripts/gcc-plugins/randomize_layout_seed.h"); /* before 5.19 */

	return seed || old;
}

int kernel_record_make(
	int root_fd, const char *krel, struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *header = NULL;
	_cleanup_free_ char *compiler = NULL;
	_cleanup_free_ char *release = NULL;
	_cleanup_close_ int build_fd = -1;
	int r = kernel_tree_open(root_fd, krel, &build_fd, error);

	if (r < 0)
		return r;
	release = kernel_tree_release(build_fd);
	if (release && strcmp(release, krel) != 0)
		return error_set(error, -EINVAL, "kernel tree: it belongs to kernel %s, not to %s",
			release, krel);
	r = find_config(root_fd, krel, &config, &record.config_source, error);
	if (r < 0)
		return r;
	/* Kernels before 4.18 have no CONFIG_CC_VERSION_TEXT. */
	if (fs_read(build_fd, "include/generated/compile.h", 1 << 16, &header, NULL) == 0)
		compiler = kernel_tree_defined(header, "LINUX_COMPILER");
	fill_from_config(&record, config, krel, compiler);
	record.prepared = release != NULL;
	record.has_symvers = faccessat(build_fd, "Module.symvers", F_OK, 0) == 0;
	record.has_vmlinux = faccessat(build_fd, "vmlinux", F_OK, 0) == 0;
	record.has_randseed = has_randseed(root_fd, krel);
	record.tools_arch = xstrdup(kernel_tree_tools_arch(root_fd, krel));
	fill_vermagic(&record, root_fd, build_fd);
	give(&record, ret);
	return 0;
}

/* ---- as a file */

struct json_object *kernel_record_json(const struct kernel_record *record)
{
	struct json_object *root = json_object_new_object();
	struct json_object *values = json_object_new_object();

	json_member_add(root, "schema", json_object_new_int(SCHEMA));
	json_fields_add(root, &of_record, record);
	json_member_add(root, "options", values);
	for (unsigned int i = 0; i < KOPT_COUNT; i++)
		json_member_add(values, kernel_option_name(i),
			json_object_new_string_len(&record->options[i], 1));
	return root;
}

int kernel_record_save(const struct kernel_record *record, int dir_fd, struct error *error)
{
	_cleanup_json_ struct json_object *root = kernel_record_json(record);
	_cleanup_free_ char *text =
		xasprintf("%s\n", json_object_to_json_string_ext(
					  root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
							JSON_C_TO_STRING_NOSLASHESCAPE));
	int r = fs_write_atomic(dir_fd, KERNEL_RECORD_FILE, text, strlen(text), 0644);

	return r < 0 ? error_set_errno(error, r, KERNEL_RECORD_FILE) : 0;
}

static int read_root(struct json_object *root, struct kernel_record *record, struct error *error)
{
	struct json_object *values = json_object_object_get(root, "options");
	int r;

	if (json_object_get_int(json_object_object_get(root, "schema")) != SCHEMA)
		return error_set(error, -EBADMSG, "\"schema\" is not %d", SCHEMA);
	r = json_fields_read(root, &of_record, record, error);
	for (unsigned int i = 0; i < KOPT_COUNT && r == 0; i++) {
		const char *name = kernel_option_name(i);
		const char *text = json_object_get_string(json_object_object_get(values, name));

		if (!text || strlen(text) != 1 || !strchr("ymn", *text))
			return error_set(error, -EBADMSG, "options: \"%s\" is not y, m or n", name);
		record->options[i] = text[0];
	}
	return r;
}

int kernel_record_load(int dir_fd, const char *path, struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_free_ char *text = NULL;
	struct error why = { .text = "it is not JSON" };
	int r = fs_read(dir_fd, path, RECORD_LIMIT, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	root = json_tokener_parse(text);
	r = root ? read_root(root, &record, &why) : -EBADMSG;
	if (r < 0) {
		(void) error_set(error, r, "%s: the record is damaged: %s", path, why.text);
		return error_try(error, r,
			"remove its folder and run again, which makes a new "
			"one");
	}
	give(&record, ret);
	return 0;
}

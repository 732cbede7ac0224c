/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which compiler a kernel was made with. Its own words come in many shapes:
 *     gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0
 *     x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
 *     gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)
 *     Debian clang version 16.0.6 (15~deb12u1)
 *     gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)
 * What stands in parentheses is the packager's, and may hold another version.
 */
#include "kernels/tree/record.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/strv.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/tree.h"
#include "module/elf.h"

static size_t version_length(const char *text)
{
	size_t length = strspn(text, "0123456789.");

	return isdigit((unsigned char) *text) && memchr(text, '.', length) ? length : 0;
}

/* The first version in @text that is a word of its own outside parentheses. */
static const char *find_version(const char *text, size_t *ret_length)
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
		if (length > 0) {
			*ret_length = length;
			return c;
		}
	}
	return NULL;
}

/* "/proc/version" names the compiler in parentheses after who compiled it and where. */
static const char *skip_proc_version(const char *text)
{
	const char *found;

	if (strncmp(text, "Linux version ", 14) != 0)
		return text;
	found = strstr(text, ") (");
	return found ? found + 3 : text;
}

/* The program, without its folder: what stands before the first blank, unless that is a vendor. */
static char *find_program(const char *text, const char *family)
{
	size_t length = strcspn(text, " ");
	const char *start = text;

	for (size_t i = 0; i < length; i++)
		if (text[i] == '/')
			start = text + i + 1;
	length -= (size_t) (start - text);
	return memmem(start, length, family, strlen(family)) ? strndup(start, length)
							     : strdup(family);
}

/* "gcc-12" of gcc and "12.2.0", freed by the caller; NULL without memory. */
static char *kernel_compiler_name(const char *family, const char *version)
{
	unsigned int major = 0;
	unsigned int minor = 0;
	char *name;
	int r;

	(void) sscanf(version, "%u.%u", &major, &minor);
	/* Before 5, gcc counted its releases in the second number. */
	if (strcmp(family, "gcc") == 0 && major < 5)
		r = asprintf(&name, "gcc-%u.%u", major, minor);
	else
		r = asprintf(&name, "%s-%u", family, major);
	return r < 0 ? NULL : name;
}

int kernel_compiler_parse(const char *text, struct kernel_compiler *ret, struct error *error)
{
	const char *own = skip_proc_version(text);
	const char *clang = strstr(own, "clang version ");
	const char *family = clang ? "clang" : "gcc";
	_cleanup_(kernel_compiler_free) struct kernel_compiler compiler = { 0 };
	const char *version = NULL;
	size_t length = 0;

	if (clang || strstr(own, "gcc"))
		version = find_version(clang ? clang : own, &length);
	if (!version)
		return error_set(error, -EINVAL,
			"\"%s\": neither gcc nor clang says its version like that", text);
	while (length > 0 && version[length - 1] == '.')
		length--;
	compiler.family = strdup(family);
	compiler.program = find_program(own, family);
	compiler.version = strndup(version, length);
	compiler.text = strdup(text);
	compiler.major = (unsigned int) strtoul(version, NULL, 10);
	compiler.linker = strdup(strstr(own, "LLD") ? "ld.lld" : "ld.bfd");
	compiler.llvm = clang != NULL;
	compiler.name = kernel_compiler_name(family, compiler.version);
	if (!compiler.family || !compiler.program || !compiler.version || !compiler.text ||
		!compiler.linker || !compiler.name)
		return error_set_errno(error, -ENOMEM, "compiler");
	*ret = compiler;
	compiler = (struct kernel_compiler){ 0 };
	return 0;
}

void kernel_compiler_free(struct kernel_compiler *compiler)
{
	free(compiler->name);
	free(compiler->family);
	free(compiler->program);
	free(compiler->version);
	free(compiler->text);
	free(compiler->linker);
	*compiler = (struct kernel_compiler){ 0 };
}

/* ---- Source of the form: Linux include/linux/vermagic.h and arch/arm64/include/asm/vermagic */

/* Of a quoted word of a "#define": what stands between the quotes, or NULL. */
static char *quoted(const char *text)
{
	const char *start = strchr(text, '"');
	const char *end = start ? strchr(start + 1, '"') : NULL;

	return end ? strndup(start + 1, (size_t) (end - start - 1)) : NULL;
}

/* Is the option set that "#ifdef CONFIG_X" or "#elif defined(CONFIG_X)" asks for? */
static bool condition_holds(const struct kernel_record *record, const char *line)
{
	if (strstr(line, "CONFIG_PREEMPT_RT"))
		return kernel_record_has(record, KOPT_PREEMPT_RT);
	return strstr(line, "CONFIG_PREEMPT") && kernel_record_has(record, KOPT_PREEMPT);
}

/* The text of vermagic.h, freed by the caller, or NULL: the sources are apart from the build. */
static char *read_header(const struct kernel_record *record, int root_fd)
{
	static const char *const tops[] = { "source", "build" };
	char *text = NULL;

	for (size_t i = 0; root_fd >= 0 && !text && i < ARRAY_SIZE(tops); i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_close_ int fd = -1;

		if (asprintf(&path, "lib/modules/%s/%s/include/linux", record->krel, tops[i]) < 0)
			return NULL;
		fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
		if (fd < 0 || fs_read(fd, "vermagic.h", 1 << 20, &text, NULL) < 0)
			text = NULL;
	}
	return text;
}

/*
 * Kernels with both PREEMPT_BUILD and PREEMPT_RT (since 6.12) say "preempt" or "preempt_rt" by
 * which of the two their vermagic.h asks for first. The caller frees the word; "" for neither.
 */
static char *preempt_word(const struct kernel_record *record, int root_fd)
{
	static const char define[] = "#define MODULE_VERMAGIC_PREEMPT";
	_cleanup_free_ char *text = read_header(record, root_fd);
	char *rest = text;
	char *line;
	bool holds = false;

	if (!text && kernel_record_has(record, KOPT_PREEMPT))
		return strdup("preempt ");
	if (!text)
		return strdup(kernel_record_has(record, KOPT_PREEMPT_RT) ? "preempt_rt " : "");
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "#if", 3) == 0 || strncmp(line, "#elif", 5) == 0)
			holds = condition_holds(record, line);
		else if (holds && strncmp(line, define, sizeof(define) - 1) == 0)
			return quoted(line);
	}
	return strdup("");
}

/* "RANDSTRUCT_<hash of the seed>"; "" without RANDSTRUCT or without the hash. */
static char *randstruct_word(const struct kernel_record *record, int build_fd)
{
	static const struct {
		const char *file;
		const char *word;
	} forms[] = {
		{ "include/generated/randstruct_hash.h", "RANDSTRUCT_" },
		{ "include/generated/randomize_layout_hash.h", "RANDSTRUCT_PLUGIN_" },
	};

	if (build_fd < 0 || !kernel_record_has(record, KOPT_RANDSTRUCT))
		return strdup("");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_free_ char *text = NULL;
		_cleanup_free_ char *hash = NULL;
		char *word;

		if (fs_read(build_fd, forms[i].file, 1 << 16, &text, NULL) < 0)
			continue;
		hash = quoted(text);
		if (hash)
			return asprintf(&word, "%s%s", forms[i].word, hash) < 0 ? NULL : word;
	}
	return strdup("");
}

/* Takes vermagic from the first of the kernel's own modules that has one. */
static int ask_module(struct kernel_record *record, int root_fd)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = NULL;

	if (root_fd < 0)
		return -ENOENT;
	if (asprintf(&folder, "lib/modules/%s/kernel", record->krel) < 0)
		return -ENOMEM;
	if (depends_list_modules(root_fd, folder, &paths) < 0)
		return -ENOENT;
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };
		const char *vermagic = NULL;

		if (elf_module_open(root_fd, paths.items[i], &module, &ignored) == 0)
			vermagic = elf_module_info(module, "vermagic");
		if (!vermagic)
			continue;
		record->vermagic = strdup(vermagic);
		record->vermagic_source = strdup(paths.items[i]);
		return record->vermagic && record->vermagic_source ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

/*
 * record_vermagic.c: what the kernel compares with a module's vermagic: from one of the kernel's
 * own modules below the root where there is one, else from the configuration as the tree's own
 * linux/vermagic.h wants it. Both descriptors may be -1.
 */
static int record_compute_vermagic(
	struct kernel_record *record, int root_fd, int build_fd, struct error *error)
{
	_cleanup_free_ char *preempt = NULL;
	_cleanup_free_ char *randstruct = NULL;
	int r;

	free(record->vermagic);
	free(record->vermagic_source);
	record->vermagic = NULL;
	record->vermagic_source = NULL;
	r = ask_module(record, root_fd);
	if (r == 0)
		return 0;
	preempt = preempt_word(record, root_fd);
	randstruct = randstruct_word(record, build_fd);
	record->vermagic_source = strdup("config");
	if (r == -ENOMEM || !preempt || !randstruct || !record->vermagic_source ||
		asprintf(&record->vermagic, "%s %s%s%s%s%s%s", record->krel,
			kernel_record_has(record, KOPT_SMP) ? "SMP " : "", preempt,
			kernel_record_has(record, KOPT_MODULE_UNLOAD) ? "mod_unload " : "",
			kernel_record_has(record, KOPT_MODVERSIONS) ? "modversions " : "",
			strcmp(record->arch, "aarch64") == 0 ? "aarch64" : "", randstruct) < 0)
		return error_set_errno(error, -ENOMEM, "vermagic");
	return 0;
}

/* ---- The record of a tree that lies there unpacked. */

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

static char option_value(const struct kconfig *config, enum kernel_option option)
{
	char value = 'n';

	for (size_t i = 0; i < CONFIG_NAMES && value == 'n' && options[option].configs[i]; i++)
		value = kconfig_tristate(config, options[option].configs[i]);
	return value;
}

static const char *arch_of(const struct kconfig *config)
{
	static const struct {
		const char *config;
		const char *arch;
	} known[] = {
		{ "X86_64", "x86_64" },
		{ "ARM64", "aarch64" },
		{ "PPC64", "ppc64le" },
		{ "S390", "s390x" },
		{ "RISCV", "riscv64" },
		{ "ARM", "armv7l" },
		{ "X86_32", "i686" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (kconfig_tristate(config, known[i].config) == 'y')
			return known[i].arch;
	return "";
}

/* In KiB; every kernel for x86_64 has 4. */
static unsigned int page_size_of(const struct kconfig *config)
{
	static const struct {
		const char *configs[3];
		unsigned int kib;
	} known[] = {
		{ { "ARM64_64K_PAGES", "PAGE_SIZE_64KB", "PPC_64K_PAGES" }, 64 },
		{ { "ARM64_16K_PAGES", "PAGE_SIZE_16KB", "PPC_16K_PAGES" }, 16 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		for (size_t k = 0; k < ARRAY_SIZE(known[i].configs); k++)
			if (kconfig_tristate(config, known[i].configs[k]) == 'y')
				return known[i].kib;
	return 4;
}

/* How the kernel's own modules are packed. MODULE_COMPRESS alone means gzip or xz before 5.13. */
static const char *compress_of(const struct kconfig *config)
{
	if (kconfig_tristate(config, "MODULE_COMPRESS_XZ") == 'y')
		return "xz";
	if (kconfig_tristate(config, "MODULE_COMPRESS_ZSTD") == 'y')
		return "zstd";
	return kconfig_tristate(config, "MODULE_COMPRESS_GZIP") == 'y' ? "gzip" : "none";
}

/* CONFIG_GCC_VERSION=120200 and CONFIG_CLANG_VERSION=160006; the other one is 0. */
static int corroborate(
	const struct kconfig *config, struct kernel_compiler *compiler, struct error *error)
{
	bool clang = kconfig_tristate(config, "CC_IS_CLANG") == 'y';
	unsigned long number = kconfig_number(config, clang ? "CLANG_VERSION" : "GCC_VERSION");
	const char *family = clang ? "clang" : "gcc";
	unsigned int major, minor = 0, patch = 0;

	if (number < 10000 || number > 9999999)
		return 0;
	compiler->config_version = (unsigned int) number;
	major = compiler->config_version / 10000;
	if (*compiler->family) {
		int parts = sscanf(compiler->version, "%u.%u.%u", &major, &minor, &patch);

		compiler->disagrees =
			strcmp(compiler->family, family) != 0 || parts < 1 ||
			major * 10000 + minor * 100 + patch != compiler->config_version;
		return 0;
	}
	/* No text: the number alone is the evidence. */
	compiler->major = major;
	compiler->llvm = clang;
	free(compiler->family);
	free(compiler->version);
	free(compiler->name);
	compiler->name = NULL;
	compiler->version = NULL;
	compiler->family = strdup(family);
	if (!compiler->family ||
		asprintf(&compiler->version, "%u.%u.%u", major,
			compiler->config_version / 100 % 100, compiler->config_version % 100) < 0)
		return error_set_errno(error, -ENOMEM, "compiler");
	compiler->name = kernel_compiler_name(family, compiler->version);
	if (!compiler->name)
		return error_set_errno(error, -ENOMEM, "compiler");
	return 0;
}

static int fill_compiler(const struct kconfig *config, const char *text,
	struct kernel_record *record, struct error *error)
{
	struct kernel_compiler *compiler = &record->compiler;
	struct error ignored = { 0 };
	bool lld = kconfig_tristate(config, "LD_IS_LLD") == 'y';
	int r = text ? kernel_compiler_parse(text, compiler, &ignored) : -EINVAL;

	/* A text that nobody understands is kept, and the numbers have the word. */
	if (r == -ENOMEM)
		return error_set_errno(error, r, "compiler");
	if (!compiler->text)
		compiler->text = strdup(text ? text : "");
	if (lld) {
		free(compiler->linker);
		compiler->linker = strdup("ld.lld");
	}
	if (record_fill_empty(record) < 0)
		return error_set_errno(error, -ENOMEM, "compiler");
	r = corroborate(config, compiler, error);
	compiler->llvm = strcmp(compiler->family, "clang") == 0;
	return r;
}

static int set(char **string, const char *value)
{
	free(*string);
	*string = strdup(value ? value : "");
	return *string ? 0 : -ENOMEM;
}

/* All that a configuration tells. @compiler_text is used where that has none; may be NULL. */
static int record_fill(struct kernel_record *record, const struct kconfig *config, const char *krel,
	const char *compiler_text, struct error *error)
{
	const char *text = kconfig_get(config, "CC_VERSION_TEXT");
	int r;

	for (unsigned int i = 0; i < KOPT_COUNT; i++)
		record->options[i] = option_value(config, i);
	record->page_kib = page_size_of(config);
	r = set(&record->krel, krel);
	if (r == 0)
		r = set(&record->arch, arch_of(config));
	if (r == 0)
		r = set(&record->sig_hash, kconfig_get(config, "MODULE_SIG_HASH"));
	if (r == 0)
		r = set(&record->compress, compress_of(config));
	if (r < 0)
		return error_set_errno(error, r, "%s", krel);
	return fill_compiler(config, text && *text ? text : compiler_text, record, error);
}

int kernel_record_of_config(const struct kconfig *config, const char *krel, const char *version,
	struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	int r = record_fill(&record, config, krel, version, error);

	if (r == 0 && set(&record.config_source, "config") < 0)
		r = error_set_errno(error, -ENOMEM, "%s", krel);
	if (r == 0)
		r = record_compute_vermagic(&record, -1, -1, error);
	if (r < 0)
		return r;
	*ret = record;
	record = (struct kernel_record){ 0 };
	return 0;
}

/*
 * Finds the configuration: the tree's own, what kbuild made of it (headers packages that leave
 * .config out have that), or what the kernel's package brought. -ENOENT when none is there.
 */
static int find_config(
	int root_fd, const char *krel, struct kconfig **ret, char **ret_path, struct error *error)
{
	static const struct {
		const char *before;
		const char *after;
	} places[] = {
		{ "lib/modules/", "/build/.config" },
		{ "lib/modules/", "/build/include/config/auto.conf" },
		{ "lib/modules/", "/config" },
		{ "boot/config-", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_close_ int fd = -1;
		_cleanup_free_ char *below = NULL;
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", places[i].before, krel, places[i].after) < 0)
			return error_set_errno(error, -ENOMEM, "%s", krel);
		fd = kernel_tree_openat(root_fd, path, O_RDONLY);
		below = fd < 0 ? NULL : kernel_tree_path(root_fd, fd);
		if (!below)
			continue;
		*ret_path = TAKE_PTR(path);
		return kconfig_read(root_fd, below, ret, error);
	}
	return -ENOENT;
}

/* LINUX_COMPILER of compile.h: kernels before 4.18 have no CONFIG_CC_VERSION_TEXT. */
static char *compile_header_text(int build_fd)
{
	static const char define[] = "#define LINUX_COMPILER \"";
	_cleanup_free_ char *text = NULL;
	const char *found;

	if (fs_read(build_fd, "include/generated/compile.h", 1 << 16, &text, NULL) < 0)
		return NULL;
	found = strstr(text, define);
	if (!found)
		return NULL;
	found += sizeof(define) - 1;
	return strndup(found, strcspn(found, "\"\n"));
}

static bool has_randseed(int root_fd, const char *krel, int build_fd)
{
	static const char *const files[] = {
		"scripts/basic/randstruct.seed",
		"scripts/gcc-plugins/randomize_layout_seed.h",
	};
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int source_fd = -1;

	if (asprintf(&path, "lib/modules/%s/source", krel) < 0)
		return false;
	source_fd = kernel_tree_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (faccessat(build_fd, files[i], F_OK, 0) == 0 ||
			(source_fd >= 0 && faccessat(source_fd, files[i], F_OK, 0) == 0))
			return true;
	return false;
}

static int check_release(
	int build_fd, const char *krel, struct kernel_record *record, struct error *error)
{
	_cleanup_free_ char *release = kernel_tree_release(build_fd);

	if (release && strcmp(release, krel) != 0)
		return error_set(error, -EINVAL, "kernel tree: it is of kernel %s, not of %s",
			release, krel);
	record->prepared = release != NULL;
	return 0;
}

static int look(int root_fd, int build_fd, struct kernel_record *record, struct error *error)
{
	int r;

	record->has_symvers = faccessat(build_fd, "Module.symvers", F_OK, 0) == 0;
	record->has_vmlinux = faccessat(build_fd, "vmlinux", F_OK, 0) == 0;
	record->has_randseed = has_randseed(root_fd, record->krel, build_fd);
	free(record->tools_arch);
	record->tools_arch = NULL;
	r = kernel_tree_tools_arch(root_fd, build_fd, &record->tools_arch);
	if (r < 0)
		return error_set_errno(error, r, "kernel tree");
	return record_compute_vermagic(record, root_fd, build_fd, error);
}

int kernel_record_make(
	int root_fd, const char *krel, struct kernel_record *ret, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *compiler = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int build_fd = -1;
	int r = kernel_tree_open(root_fd, krel, &build_fd, error);

	if (r == 0)
		r = check_release(build_fd, krel, &record, error);
	if (r < 0)
		return r;
	r = find_config(root_fd, krel, &config, &path, error);
	/* Nothing set at all, and no path: lint judges that. */
	if (r == -ENOENT)
		r = kconfig_parse("no configuration", "", 0, &config, error);
	if (r < 0)
		return r;
	compiler = compile_header_text(build_fd);
	r = record_fill(&record, config, krel, compiler, error);
	if (r < 0)
		return r;
	if (set(&record.config_source, path ? path : "") < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	r = look(root_fd, build_fd, &record, error);
	if (r < 0)
		return r;
	*ret = record;
	record = (struct kernel_record){ 0 };
	return 0;
}

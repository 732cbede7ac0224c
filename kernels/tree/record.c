/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/record.h"

#include <string.h>

#include "kernels/tree/record_parts.h"

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

int record_fill(struct kernel_record *record, const struct kconfig *config, const char *krel,
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

/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/lint/lint_rules.h"

/* Without a configuration there are no options to judge: config-missing says so. */
static bool has(const struct lint_check *check, enum kernel_option option)
{
	return kernel_record_has(check->record, option);
}

static bool is_off(const struct lint_check *check, enum kernel_option option)
{
	return *check->record->config_source && !has(check, option);
}

static int no_modules(struct lint_check *check)
{
	if (!is_off(check, KOPT_MODULES))
		return 0;
	return lint_add(check, "no-modules", LINT_ERROR,
		"build the kernel with CONFIG_MODULES=y: without it drivers can only be built in",
		"MODULES=n: this kernel loads no modules at all");
}

static int no_module_unload(struct lint_check *check)
{
	if (!is_off(check, KOPT_MODULE_UNLOAD))
		return 0;
	return lint_add(check, "no-module-unload", LINT_WARNING,
		"build the kernel with CONFIG_MODULE_UNLOAD=y, or plan a reboot for each update",
		"MODULE_UNLOAD=n: the driver can be loaded but never replaced without a reboot");
}

static int no_modversions(struct lint_check *check)
{
	if (!is_off(check, KOPT_MODVERSIONS))
		return 0;
	return lint_add(check, "no-modversions", LINT_NOTE,
		"nothing needs to be done; build anew for every kernel, however small the change",
		"MODVERSIONS=n: the kernel checks no symbol's CRC, so the load proof is by vermagic "
		"only");
}

static int extended_modversions(struct lint_check *check)
{
	if (!has(check, KOPT_EXTENDED_MODVERSIONS) || has(check, KOPT_BASIC_MODVERSIONS))
		return 0;
	return lint_add(check, "extended-modversions-only", LINT_NOTE,
		"nothing needs to be done here; modinfo and modprobe --dump-modversions of older "
		"systems show no CRCs of such modules",
		"EXTENDED_MODVERSIONS=y and BASIC_MODVERSIONS=n: modules carry their CRCs in the new "
		"form only");
}

static int infiniband_builtin(struct lint_check *check)
{
	if (!check->request->ofed || check->record->options[KOPT_INFINIBAND] != 'y')
		return 0;
	return lint_add(check, "infiniband-builtin", LINT_ERROR,
		"build the kernel with CONFIG_INFINIBAND=m or =n, or leave --ofed out",
		"INFINIBAND=y: OFED cannot replace it");
}

static int mlx5_builtin(struct lint_check *check)
{
	bool core = check->record->options[KOPT_MLX5_CORE] == 'y';
	bool infiniband = check->record->options[KOPT_MLX5_INFINIBAND] == 'y';

	if (!check->request->ofed || (!core && !infiniband))
		return 0;
	return lint_add(check, "mlx5-builtin", LINT_ERROR,
		"build the kernel with mlx5 as modules or without it, or leave --ofed out",
		"%s=y: the driver in the kernel has the device, OFED's cannot replace it",
		core ? "MLX5_CORE" : "MLX5_INFINIBAND");
}

static int peermem_without_infiniband(struct lint_check *check)
{
	const struct lint_request *request = check->request;

	if (!request->peermem || request->ofed || !is_off(check, KOPT_INFINIBAND))
		return 0;
	return lint_add(check, "peermem-without-infiniband", LINT_WARNING,
		"give --ofed, or a kernel with CONFIG_INFINIBAND=m",
		"INFINIBAND=n and no OFED: nothing there that nvidia-peermem could bind to");
}

static int drm_missing(struct lint_check *check)
{
	bool drm = has(check, KOPT_DRM);

	if (!check->request->nvidia || (drm && has(check, KOPT_DRM_KMS_HELPER)) ||
		!*check->record->config_source)
		return 0;
	return lint_add(check, "drm-missing", LINT_WARNING,
		"nothing needs to be done for compute; for displays build the kernel with "
		"CONFIG_DRM and CONFIG_DRM_KMS_HELPER",
		"%s=n: nvidia-drm has no mode setting", drm ? "DRM_KMS_HELPER" : "DRM");
}

static int preempt_rt(struct lint_check *check)
{
	if (!check->request->nvidia || !has(check, KOPT_PREEMPT_RT))
		return 0;
	return lint_add(check, "preempt-rt", LINT_ERROR,
		"use the kernel's flavour without rt, or --force: then NVIDIA's build is told to go "
		"on (IGNORE_PREEMPT_RT_PRESENCE), which NVIDIA does not support",
		"PREEMPT_RT=y: NVIDIA's build refuses kernels for real time");
}

static int sig_force_unsigned(struct lint_check *check)
{
	if (check->request->signing || !has(check, KOPT_MODULE_SIG_FORCE))
		return 0;
	return lint_add(check, "sig-force-unsigned", LINT_ERROR,
		"sign the modules with a key that the kernel trusts (--sign-key); what --force makes "
		"without one, no such kernel loads",
		"MODULE_SIG_FORCE=y: the kernel refuses modules that are not signed");
}

static int sig_hash_unsupported(struct lint_check *check)
{
	static const char *const known[] = { "sha1", "sha224", "sha256", "sha384", "sha512",
		"sha3-256", "sha3-384", "sha3-512" };
	const char *hash = check->record->sig_hash;

	if (!check->request->signing || !*hash)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i], hash) == 0)
			return 0;
	return lint_add(check, "sig-hash-unsupported", LINT_ERROR,
		"build the kernel with another CONFIG_MODULE_SIG_HASH: sha256 or sha512",
		"MODULE_SIG_HASH=\"%s\": modules cannot be signed with that hash", hash);
}

static int lockdown(struct lint_check *check)
{
	bool forced =
		has(check, KOPT_LOCKDOWN_INTEGRITY) || has(check, KOPT_LOCKDOWN_CONFIDENTIALITY);

	if (check->request->signing || (!forced && !has(check, KOPT_LOCKDOWN_SECURE_BOOT)))
		return 0;
	if (forced)
		return lint_add(check, "lockdown", LINT_ERROR,
			"sign the modules with a key that the kernel trusts (--sign-key); what "
			"--force makes without one, no such kernel loads",
			"the kernel is in lockdown from its start: it refuses modules that are not "
			"signed");
	return lint_add(check, "lockdown", LINT_NOTE,
		"sign the modules with a key that the kernel trusts (--sign-key), where nodes have "
		"Secure Boot on",
		"on nodes with Secure Boot this kernel refuses modules that are not signed");
}

static int trim_unused_ksyms(struct lint_check *check)
{
	if (!has(check, KOPT_TRIM_UNUSED_KSYMS))
		return 0;
	return lint_add(check, "trim-unused-ksyms", LINT_WARNING,
		"build the kernel without CONFIG_TRIM_UNUSED_KSYMS, or list what the drivers need in "
		"CONFIG_UNUSED_KSYMS_WHITELIST",
		"TRIM_UNUSED_KSYMS=y: the kernel exports only what its own modules use; drivers from "
		"outside may miss symbols");
}

static int btf_modules(struct lint_check *check)
{
	if (!has(check, KOPT_BTF_MODULES) || check->record->has_vmlinux)
		return 0;
	return lint_add(check, "btf-modules-without-vmlinux", LINT_NOTE,
		"nothing needs to be done: modules load without BTF; BPF programs cannot see their "
		"types",
		"DEBUG_INFO_BTF_MODULES=y, and the tree has no vmlinux: modules get no BTF");
}

static int page_size(struct lint_check *check)
{
	if (check->record->page_kib <= 4)
		return 0;
	return lint_add(check, "page-size", LINT_NOTE,
		"nothing needs to be done here; see that images on the node are made for this page "
		"size, and that nodes with other kernels get images of their own",
		"pages of %u KiB: programs and libraries must be made for them",
		check->record->page_kib);
}

const lint_rule lint_option_rules[] = {
	no_modules,
	no_module_unload,
	no_modversions,
	extended_modversions,
	infiniband_builtin,
	mlx5_builtin,
	peermem_without_infiniband,
	drm_missing,
	preempt_rt,
	sig_force_unsigned,
	sig_hash_unsupported,
	lockdown,
	trim_unused_ksyms,
	btf_modules,
	page_size,
	NULL,
};

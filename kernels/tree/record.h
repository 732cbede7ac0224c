/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a kernel: the record of its tree, made once when the tree is unpacked and kept beside
 * it as record.json; slipway-lint(1) describes the schema and the source of each value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/error.h"
#include "kernels/tree/kconfig.h"

#define KERNEL_RECORD_FILE "record.json"

/* Options of the configuration that matter for a module or its build. */
enum kernel_option {
	KOPT_SMP,
	KOPT_PREEMPT, /* the part "preempt" of vermagic */
	KOPT_PREEMPT_RT,
	KOPT_MODULES,
	KOPT_MODULE_UNLOAD,
	KOPT_MODVERSIONS,
	KOPT_BASIC_MODVERSIONS,
	KOPT_EXTENDED_MODVERSIONS,
	KOPT_GENDWARFKSYMS,
	KOPT_MODULE_SIG,
	KOPT_MODULE_SIG_FORCE,
	KOPT_MODULE_SIG_ALL,
	KOPT_LOCKDOWN_LSM,
	KOPT_LOCKDOWN_INTEGRITY,       /* forced from the start */
	KOPT_LOCKDOWN_CONFIDENTIALITY, /* forced from the start */
	KOPT_LOCKDOWN_SECURE_BOOT,     /* on when the firmware's Secure Boot is on */
	KOPT_RANDSTRUCT,
	KOPT_GCC_PLUGINS,
	KOPT_TRIM_UNUSED_KSYMS,
	KOPT_LTO,
	KOPT_CFI,
	KOPT_BTF,
	KOPT_BTF_MODULES,
	KOPT_RETPOLINE,
	KOPT_IBT,
	KOPT_LIVEPATCH,
	KOPT_INFINIBAND,
	KOPT_MLX5_CORE,
	KOPT_MLX5_INFINIBAND,
	KOPT_DRM,
	KOPT_DRM_KMS_HELPER,
	KOPT_MMU_NOTIFIER,
	KOPT_COUNT,
};

/* The compiler that the kernel was built with, according to all evidence. */
struct kernel_compiler {
	char *name;    /* "gcc-12", "clang-16": the program that modules are compiled with */
	char *family;  /* "gcc" or "clang" */
	char *program; /* the word that the text starts with: "x86_64-linux-gnu-gcc-12"; or "" */
	char *version; /* "12.2.0"; "" when it is not known */
	char *text;    /* CONFIG_CC_VERSION_TEXT, or what compile.h has; "" for neither */
	char *linker;  /* "ld.bfd" or "ld.lld" */
	unsigned int major;
	bool llvm;      /* kbuild is to be called with LLVM=1 */
	bool disagrees; /* the text and CONFIG_GCC_VERSION or CONFIG_CLANG_VERSION differ */
	unsigned int
		config_version; /* CONFIG_GCC_VERSION or CONFIG_CLANG_VERSION: 120200; 0: none */
};

/* Every string is there, "" where it is not known. */
struct kernel_record {
	char *krel;
	char *arch;       /* as uname -m prints it, by the configuration */
	char *tools_arch; /* what the tree's own programs (fixdep, modpost, objtool) run on */
	char *vermagic;
	char *vermagic_source; /* path of the module that it is from, or "config" */
	char *config_source;   /* path of the configuration in the tree */
	char *sig_hash;        /* CONFIG_MODULE_SIG_HASH: "sha256" */
	char *compress;        /* of the kernel's modules: "none", "gzip", "xz", "zstd" */
	struct kernel_compiler compiler;
	char options[KOPT_COUNT]; /* 'y', 'm' or 'n' */
	unsigned int page_kib;
	bool has_symvers;  /* Module.symvers in the tree */
	bool has_vmlinux;  /* which BTF of modules is made with */
	bool has_randseed; /* the seed that RANDSTRUCT needs */
	bool prepared;     /* include/generated/utsrelease.h is there and names krel */
};

/*
 * Makes the record of the tree in @root_fd/lib/modules/<krel>/build. What is not there is in
 * the record (has_symvers, config_source, prepared …), for kernels/lint/lint.h to judge. -ENOENT
 * when there is no tree at all, -EINVAL when it is of another release or its configuration is
 * damaged.
 */
int kernel_record_make(
	int root_fd, const char *krel, struct kernel_record *ret, struct error *error) _must_check_;

/*
 * The same from a configuration alone, as a probe bundle has it. @version is the text of
 * /proc/version, which names the compiler where the configuration does not; or NULL.
 */
void kernel_record_of_config(const struct kconfig *config, const char *krel, const char *version,
	struct kernel_record *ret);

/* Is a tristate on, as y or as m? */
bool kernel_record_has(const struct kernel_record *record, enum kernel_option option);

/* "modversions": what an option is called in JSON. */
const char *kernel_option_name(enum kernel_option option);

/* The record as an object of json-c, for what holds it as a part; freed by the caller. */
struct json_object *kernel_record_json(const struct kernel_record *record);

/* Writes record.json into a folder. */
int kernel_record_save(
	const struct kernel_record *record, int dir_fd, struct error *error) _must_check_;

/* Reads such a file. -EBADMSG with the missing or wrong field in @error. */
int kernel_record_load(
	int dir_fd, const char *path, struct kernel_record *ret, struct error *error) _must_check_;

void kernel_record_free(struct kernel_record *record);

/*
 * Reads a compiler's own text, in any of the forms of CONFIG_CC_VERSION_TEXT, compile.h
 * and /proc/version. Sets family, program, version and major; -EINVAL when it is none of them.
 */
int kernel_compiler_parse(
	const char *text, struct kernel_compiler *ret, struct error *error) _must_check_;
void kernel_compiler_free(struct kernel_compiler *compiler);

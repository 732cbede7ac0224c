/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the load proof share; others include module/proof.h. */
#pragma once

#include "common/hash.h"
#include "module/elf_internal.h"
#include "module/proof.h"

#define PROOF_NAME_SIZE   64 /* the kernel's MODULE_NAME_LEN, with the NUL */
#define PROOF_LAYOUT      ELF_LAYOUT_SYMBOL
#define PROOF_LAYOUT_HASH name_hash(PROOF_LAYOUT)
#define PROOF_REBUILD     "rebuild it against the headers of this kernel"

/* Who exports a symbol and how, from a Module.symvers or another module. Borrowed. */
struct proof_export {
	const char *symbol;
	const char *exporter;   /* "vmlinux", or a path or name of a module */
	const char *name_space; /* "" for none */
	uint32_t crc;
	bool has_crc;     /* false without crc_unknown: the exporter has none, and none is asked */
	bool crc_unknown; /* the exporter has one, or may have, and it is not known */
	bool gpl;
	bool gpl_unknown;
	bool proprietary; /* the exporter is tainted by its licence */
	bool member;      /* the exporter is of the same set */
	bool vmlinux;     /* the exporter is the kernel itself */
	bool in_name_space;
};

/* What goes before the kernel's own exports: those of the other members of a set. */
struct proof_overlay {
	void *context;
	bool (*find)(void *context, const char *symbol, uint32_t hash, struct proof_export *ret);
	/*
	 * The same of an entry of the kernel's symvers, by its place, without a look at its name:
	 * who exports it now, be it a member or the kernel. NULL: it has to be found by name.
	 */
	const struct proof_export *(*find_known)(void *context, size_t entry);
	/*
	 * Notes that @export is used, and whether it may stay unresolved. Not asked of what the
	 * kernel itself exports. 0 or -ENOMEM.
	 */
	int (*use)(void *context, const struct proof_export *export, bool weak);
	/* Whether a member takes the place of the kernel's module @path. */
	bool (*replaces)(void *context, const char *path);
	/* Whether the kernel has a module of this name. */
	bool (*is_kernels)(void *context, const char *name);
	/* Whether that is built in. */
	bool (*is_built_in)(void *context, const char *name);
};

/* One proof while it is made. */
struct proof_trial {
	const struct elf_module *module; /* NULL: data could not be opened as one */
	const void *data;
	size_t data_size;
	const struct proof_kernel *kernel;
	const struct proof_overlay *overlay; /* or NULL */
	const char *name;                    /* for messages and the blacklist: that in .modinfo */
	const char *struct_name; /* what the kernel goes by; the same unless it was changed */
	unsigned int version;    /* of the kernel's rules; 0: not known */
	uint16_t machine;
	bool modversions;          /* the kernel's */
	bool has_versions;         /* of a form that this kernel reads */
	bool has_extended;         /* of the form that it prefers then */
	bool reads_basic;          /* the kernel does, and elf_module_versions() has the others */
	struct elf_versions basic; /* then */
	struct arena basic_memory; /* that it lies in */
	bool proprietary;          /* tainted by its licence, or by an exporter's */
	bool inherited;            /* the latter */
	bool uses_gpl_only;        /* it resolved one: no symbols of proprietary modules then */
	bool among_symbols;        /* the last refusal of these is the kernel's answer */
	bool answered_symbols;     /* answer is one of these */
	size_t unknown_crcs;       /* of vmlinux: one finding for all */
	const char *unknown_crc;   /* the first of these */
	bool finds_known;          /* its symbols are entries of the kernel's symvers */
	bool exports_known;        /* the kernel's own: else what is missing may be there */
	size_t missing;            /* then: symbols that nothing is known to export */
	const char *first_missing; /* the first of these */
	bool version_differs;      /* a symbol's is not the one that it was built for */
	bool said_release;         /* that it was built for another one, in a refusal */
	bool unfit;                /* no file that this kernel looks into */
	struct proof proof;
};

/* A finding before its text: what proof_add() copies. */
struct proof_draft {
	const char *id;
	enum proof_weight weight;
	int answer;
	const char *symbol;
	const char *exporter;
	bool has_crcs;
	uint32_t wanted_crc, found_crc;
	const char *cure;
};

/* Appends a finding, "<name>: <text>". 0 or -ENOMEM. */
int proof_add(struct proof_trial *trial, const struct proof_draft *draft, const char *format, ...)
	_printf_(3, 4) _must_check_;
/* Appends to a proof that is concluded; proof_conclude() has to follow. */
int proof_append(struct proof *proof, const char *name, const struct proof_draft *draft,
	const char *format, ...) _printf_(4, 5) _must_check_;
/* Sorts by weight, keeping the order within one, and sets the verdict. */
void proof_conclude(struct proof *proof);

/* PROOF_NO is a refusal, PROOF_UNKNOWN a doubt, PROOF_YES a note. */
enum proof_weight proof_weight_without(enum proof_option option);
/* Its own name, or its file's where it is too old to state one. */
const char *proof_module_label(const struct elf_module *module);

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	const struct proof_overlay *overlay, struct proof *ret) _must_check_;

/* proof_rules.c: elf_module_info_next(), as the kernel sees .modinfo. */
const char *proof_info(const struct proof_trial *trial, const char *key, const char *previous);

/* The parts, which judge() of proof.c asks in the kernel's order; 0 or -ENOMEM. */
int proof_judge_signature(struct proof_trial *trial);
int proof_judge_file(struct proof_trial *trial);
int proof_judge_blacklist(struct proof_trial *trial);
int proof_judge_memory(struct proof_trial *trial);
int proof_judge_sysfs(struct proof_trial *trial);
int proof_judge_places(struct proof_trial *trial, uint32_t before, uint32_t *next);
int proof_judge_layout(struct proof_trial *trial);
int proof_judge_vermagic(struct proof_trial *trial);
int proof_judge_livepatch(struct proof_trial *trial);
int proof_judge_own_exports(struct proof_trial *trial);
int proof_judge_imports(struct proof_trial *trial);
int proof_judge_symbols(struct proof_trial *trial);
int proof_judge_relocations(struct proof_trial *trial);
int proof_judge_duplicates(struct proof_trial *trial);
int proof_judge_built_in(struct proof_trial *trial);
int proof_note_taints(struct proof_trial *trial);
int proof_note_release(struct proof_trial *trial);
/* Whether it was built for another release than the kernel's, and both are known. */
bool proof_foreign_release(
	const struct proof_trial *trial, const char **ret_ours, const char **ret_theirs);
/* The next step for what was not built for this kernel. */
const char *proof_rebuild(const struct proof_trial *trial);
/* Whether all that the kernel itself exports is known. */
bool proof_exports_known(const struct proof_kernel *kernel);

/* Names that the kernel knows to claim a licence that is not theirs. */
bool proof_is_license_offender(const char *name);

/* How the kernel exports what @entry is about. */
void proof_export_of(const struct proof_kernel *kernel, const struct symvers_entry *entry,
	struct proof_export *ret);
/* What exports a symbol. @hash: as elf_undefined_hash() has it. */
bool proof_find_export(const struct proof_trial *trial, const char *symbol, uint32_t hash,
	struct proof_export *ret);
/* @wanted: what the module was built for, or NULL. 0 or -ENOMEM. */
int proof_judge_version(struct proof_trial *trial, const struct proof_export *export,
	const struct elf_symbol_version *wanted, int answer);
bool proof_is_proprietary(const struct elf_module *module);

/* ---- how the kernel compares the strings that modules and kernels state */
bool proof_license_is_gpl(const char *license);
bool proof_has_word(const char *text, const char *word);
/* Length without the spaces at the end: readers often cut the one that ends the kernel's own. */
size_t proof_trimmed(const char *text);
bool proof_same_magic(const char *ours, const char *theirs, bool skip_release);
/* Whether the part before the first space is the same. */
bool proof_same_release(const char *ours, const char *theirs);
bool proof_is_debian(const char *release);
/* Whether a "module:a,b*" name space names the module. */
bool proof_name_space_names(const char *name_space, const char *module);
bool proof_is_module_name_space(const char *name_space);
/* The last component of a path, '-' as '_'. */
void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE]);
/* Whether these are one module: a path or a name each; '-' and '_' are one. */
bool proof_same_module(const char *left, const char *right);
const char *proof_machine_text(uint16_t machine, char number[16]);

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the load proof share; others include module/proof.h. */
#pragma once

#include "module/proof.h"

#define PROOF_NAME_SIZE 64 /* the kernel's MODULE_NAME_LEN, with the NUL */
#define PROOF_LAYOUT    "module_layout"

/* Who exports a symbol and how, from a Module.symvers or another module. Borrowed. */
struct proof_export {
	const char *symbol;
	const char *exporter;   /* "vmlinux", or a path or name of a module */
	const char *name_space; /* "" for none */
	uint32_t crc;
	bool has_crc;
	bool gpl;
	bool proprietary; /* the exporter's own licence is not the GPL's */
};

/* What goes before the kernel's own exports: those of the other members of a set. */
struct proof_overlay {
	bool (*find)(const void *context, const char *symbol, struct proof_export *ret);
	const void *context;
};

/* One proof while it is made. */
struct proof_trial {
	const struct elf_module *module;
	const struct proof_kernel *kernel;
	const struct proof_overlay *overlay; /* or NULL */
	const char *name;
	unsigned int version; /* of the kernel's rules; 0: not known */
	bool modversions;     /* the kernel's */
	bool proprietary;     /* tainted by its licence, or by an exporter's: no GPL-only symbols */
	bool uses_gpl_only;   /* it resolved one: no symbols of proprietary modules then */
	struct proof proof;
	size_t capacity;
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
/* Sorts by weight, keeping the order within one, and sets the verdict. */
void proof_conclude(struct proof *proof);

/* PROOF_NO is a refusal, PROOF_UNKNOWN a doubt; PROOF_YES would be a note. */
enum proof_weight proof_weight_without(enum proof_option option);

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	const struct proof_overlay *overlay, struct proof *ret) _must_check_;

/* The parts, in the kernel's order; 0 or -ENOMEM. */
int proof_judge_vermagic(struct proof_trial *trial);
int proof_judge_layout(struct proof_trial *trial);
int proof_judge_symbols(struct proof_trial *trial);

/* proof_symbols.c's helpers. */
bool proof_find_export(
	const struct proof_trial *trial, const char *symbol, struct proof_export *ret);
int proof_judge_version(struct proof_trial *trial, const struct proof_export *export, int answer);

/* proof_text.c */
bool proof_license_is_gpl(const char *license);
bool proof_has_word(const char *text, const char *word);
/* Length without the spaces at the end: readers often cut the one that ends the kernel's own. */
size_t proof_trimmed(const char *text);
bool proof_same_magic(const char *ours, const char *theirs, bool skip_release);
/* Whether a "module:a,b*" name space names the module. */
bool proof_name_space_names(const char *name_space, const char *module);
bool proof_is_module_name_space(const char *name_space);
/* The last component of a path, without ".ko", '-' as '_'. */
void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE]);

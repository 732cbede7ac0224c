/* SPDX-License-Identifier: Apache-2.0 */
/* The load proof from inside, of one module and of a set; others include module/proof.h. */
#pragma once

#include "common/hash.h"
#include "module/elf_internal.h"
#include "module/proof.h"

#define PROOF_NAME_SIZE   64 /* the kernel's MODULE_NAME_LEN, with the NUL */
#define PROOF_LAYOUT_HASH name_hash(ELF_LAYOUT_SYMBOL)

/*
 * The exporter of a symbol and how it exports it, from a Module.symvers or another module.
 * Borrowed.
 */
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
};

/* One proof while it is made. */
struct proof_trial {
	const struct elf_module *module; /* NULL: data could not be opened as one */
	const void *data;
	size_t data_size;
	const struct proof_kernel *kernel;
	struct set_view *set;    /* the set that it goes with, or NULL */
	bool whole;              /* all of the file is read: its relocations are judged, too */
	const char *name;        /* for messages and the blacklist: that in .modinfo */
	const char *struct_name; /* what the kernel goes by; the same unless it was changed */
	unsigned int version;    /* of the kernel's rules; 0: not known */
	struct elf_kernel rules; /* these, of the file's format */
	struct elf_absent absent;
	bool modversions;  /* the kernel's */
	bool has_versions; /* of a form that this kernel reads */
	bool has_extended; /* of the form that it prefers then */
	const struct elf_versions
		*basic;            /* what the kernel reads, in place of elf_module_versions() */
	bool proprietary;          /* tainted by its licence, or by an exporter's */
	bool inherited;            /* the latter */
	bool uses_gpl_only;        /* it resolved one: no symbols of proprietary modules then */
	bool among_symbols;        /* the last refusal of these is the kernel's answer */
	bool answered_symbols;     /* answer is one of these */
	size_t unknown_crcs;       /* of vmlinux: one finding for all */
	const char *unknown_crc;   /* the first of these */
	bool exports_known;        /* the kernel's own: else what is missing may be there */
	size_t missing;            /* then: symbols that nothing is known to export */
	const char *first_missing; /* the first of these */
	bool version_differs;      /* a symbol's is not the one that it was built for */
	bool said_release;         /* that it was built for another one, in a refusal */
	struct proof proof;
};

/* The symbol or module that a finding is about, where it is about one. */
struct proof_about {
	const char *symbol;
	const char *exporter;
	bool has_crcs;
	uint32_t wanted_crc, found_crc;
};

/* Appends a finding, "<name>: <text>". @about may be NULL. 0 or -ENOMEM. */
int proof_add(struct proof_trial *trial, enum proof_weight weight, const char *id, int answer,
	const char *cure, const struct proof_about *about, const char *format, ...)
	_printf_(7, 8) _must_check_;
int proof_add_note(struct proof_trial *trial, const char *id, const char *format, ...)
	_printf_(3, 4) _must_check_;
/* Appends to a proof that is concluded; proof_conclude() has to follow. */
int proof_append(struct proof *proof, const char *name, enum proof_weight weight, const char *id,
	int answer, const char *cure, const struct proof_about *about, const char *format, ...)
	_printf_(8, 9) _must_check_;
/* Sorts by weight, keeping the order within one, and sets the verdict. */
void proof_conclude(struct proof *proof);

/* ---- proof.c; what returns int: 0 or -ENOMEM */

int proof_module_among(const struct elf_module *module, const struct proof_kernel *kernel,
	struct set_view *set, struct proof *ret) _must_check_;
/* PROOF_NO is a refusal, PROOF_UNKNOWN a doubt, PROOF_YES a note. */
enum proof_weight proof_weight_without(enum proof_option option);
/* elf_module_info_next(), as the kernel sees .modinfo. */
const char *proof_info(const struct proof_trial *trial, const char *key, const char *previous);
/* Reports symbols that are wrong in themselves, up to @before. *@next: where to go on. */
int proof_judge_places(struct proof_trial *trial, uint32_t before, uint32_t *next);
/* Whether it was built for another release than the kernel's, and both are known. */
bool proof_foreign_release(
	const struct proof_trial *trial, const char **ret_ours, const char **ret_theirs);
/* The same of a module that is not on trial. */
bool proof_of_other_release(const struct elf_module *module, const struct proof_kernel *kernel);
/* The next step for what was not built for this kernel. */
const char *proof_rebuild(const struct proof_trial *trial);
/* Whether all that the kernel itself exports is known. */
bool proof_exports_known(const struct proof_kernel *kernel);
bool proof_is_proprietary(const struct elf_module *module);
/* The last component of a path, '-' as '_'. */
void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE]);
/* Whether @length bytes are the same to the kernel: '-' and '_' are one. */
bool proof_same_chars(const char *left, const char *right, size_t length);
/* Whether these are one module: a path or a name each. */
bool proof_same_module(const char *left, const char *right);
bool proof_is_module_name_space(const char *name_space);

/* ---- proof_signature.c, proof_symbols.c; 0 or -ENOMEM */

int proof_judge_signature(struct proof_trial *trial);
int proof_judge_layout(struct proof_trial *trial);
int proof_judge_symbols(struct proof_trial *trial);
int proof_judge_duplicates(struct proof_trial *trial);
/* ---- set.c: the other members of a set, as one of them sees them; before the kernel's exports */

/* Finds the export of a symbol. @hash: name_hash() of the symbol. */
bool set_find(struct set_view *view, const char *symbol, uint32_t hash, struct proof_export *ret);
/* Notes that the export found last is used, and whether it may stay unresolved. 0 or -ENOMEM. */
int set_use(struct set_view *view, const struct proof_export *export, bool weak);
/* Whether a member takes the place of the kernel's module @path. */
bool set_replaces(const struct set_view *view, const char *path);
/* Whether the kernel has a module of this name, and whether that is built in. */
bool set_is_kernels(const struct set_view *view, const char *name);
bool set_is_built_in(const struct set_view *view, const char *name);
/* Each file is read whole where the set is small enough. */
bool set_reads_whole(const struct set_view *view);

/* ---- a set from inside. Members go by their place in it. */

/* Is a module of the kernel loadable or built in? */
enum { SET_LOADABLE, SET_BUILT_IN };

/* One member has to be loaded after another. */
struct set_edge {
	uint32_t to;
	bool hard; /* by a symbol that must be there; else it is only better so */
};

struct set_node {
	const char *label; /* for messages; "" never */
	char *own_name;    /* of one that states none, or whose file cannot be read; or NULL */
	struct set_edge *edges;
	uint32_t edge_count, edge_capacity;
	struct strv relied; /* the kernel's modules that it uses, and no member is */
	bool proprietary;
	bool shadowed; /* another file of that name is loaded in its place */
	bool in_cycle;
	bool has_other_needs; /* in depends or softdep, than members */
	uint32_t position;    /* in the order; NAME_NONE: in none */
};

struct set_work {
	struct proof_set *set;
	struct set_node *nodes;
	struct name_table names;   /* of members, to the one that is loaded */
	struct name_table kernel;  /* names of the kernel's modules, to what they are */
	struct name_table symbols; /* to a place in exports */
	struct set_export {
		const struct elf_module_export *export;
		uint32_t member;
	} * exports;
	size_t export_count;
	struct set_duplicate {
		const char *symbol; /* that two members export */
		uint32_t first, second;
	} * duplicates;
	size_t duplicate_count;
	struct set_users {
		uint32_t *first; /* the users of member i are up to first[i + 1] */
		struct set_edge *items;
	} users;
	uint32_t *order; /* members that can be loaded, in their order */
	size_t order_count;
	struct strv aliases; /* patterns with '_', listed when one is asked for */
};

static inline const struct elf_module *set_module(const struct set_work *work, uint32_t member)
{
	return work->set->members[member].module;
}

int set_add_edge(struct set_work *work, uint32_t from, uint32_t to, bool hard) _must_check_;

/* set_order.c; 0 or -ENOMEM: an order in which all load: work->order. */
int set_sort(struct set_work *work) _must_check_;
/* Refuses, or doubts, what needs a member that is refused, or doubted. */
int set_spread(struct set_work *work) _must_check_;

/* set_rules.c; 0 or -ENOMEM: edges of depends and softdep. */
int set_add_soft_edges(struct set_work *work, uint32_t member) _must_check_;
int set_judge_duplicates(struct set_work *work) _must_check_;
int set_judge_kernel(struct set_work *work) _must_check_;
int set_judge_facts(struct set_work *work) _must_check_;
int set_judge_options(struct set_work *work) _must_check_;
int set_judge_images(struct set_work *work) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of module/proof_set.h share. Members go by their place in the set. */
#pragma once

#include "module/proof_internal.h"
#include "module/proof_set.h"

#define SET_NONE UINT32_MAX

/* Names to numbers: open addressing, the keys are borrowed. Zeroed, it is empty. */
struct set_table {
	struct set_slot {
		const char *key; /* NULL: free */
		uint32_t hash;
		uint32_t number;
	} * slots;
	size_t slot_count; /* a power of two, more than twice what it holds */
};

/* Room for @count keys. 0 or -ENOMEM. */
int set_table_init(struct set_table *table, size_t count) _must_check_;
/* Puts @key unless it is there; returns the number that it has now. */
uint32_t set_table_put(struct set_table *table, const char *key, uint32_t number);
uint32_t set_table_put_hashed(
	struct set_table *table, const char *key, uint32_t hash, uint32_t number);
uint32_t set_table_find(const struct set_table *table, const char *key); /* or SET_NONE */
/* With the key's hash: by name_hash(), as elf_undefined_hash() has it. */
uint32_t set_table_find_hashed(const struct set_table *table, const char *key, uint32_t hash);
void set_table_done(struct set_table *table);

/* What a module of the kernel is. */
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
	bool wishes_more;  /* in depends or softdep, than the names of members */
	uint32_t position; /* in the order; SET_NONE: in none */
};

/* A symbol that two members export. */
struct set_duplicate {
	const char *symbol;
	uint32_t first, second;
};

struct set_work {
	struct proof_set *set;
	struct set_node *nodes;
	struct set_table names;   /* of members, to the one that is loaded */
	struct set_table kernel;  /* names of the kernel's modules, to what they are */
	struct set_table symbols; /* to a place in exports */
	struct set_export {
		const struct elf_module_export *export;
		uint32_t member;
	} * exports;
	size_t export_count;
	/* Who exports what the kernel's symvers has, entry by entry; NULL where that has nothing.
	 */
	struct set_known {
		struct proof_export export; /* without an exporter: look for its name */
		uint32_t member;            /* or SET_NONE: the kernel's */
	} * known;
	struct set_duplicate *duplicates;
	size_t duplicate_count;
	struct strv wishes;      /* of softdep, for what is no module's name; may come twice */
	struct set_table wished; /* to a place in these */
	bool *fulfilled;         /* by an alias */
	uint32_t *order;         /* members that can be loaded, in their order */
	size_t order_count;
};

/* proof_set_table.c: who is who. 0 or -ENOMEM. */
int set_name_members(struct set_work *work) _must_check_;
int set_collect_exports(struct set_work *work) _must_check_;
void set_work_done(struct set_work *work);
const struct elf_module *set_module(const struct set_work *work, uint32_t member);

/*
 * proof_set_rank.c: whether depmod takes the @second of two files of one name. *@ret_certain: false
 * where that hangs on its configuration.
 */
bool set_rank(const char *krel, const char *first, const char *second, bool *ret_certain);

/* proof_set_known.c: fills work->known, after the members' exports are collected. 0 or -ENOMEM. */
int set_know(struct set_work *work) _must_check_;
/* Whether a member takes the place of the kernel's module @path. */
bool set_replaces(const struct set_work *work, const char *path);
void set_export_of(
	const struct set_work *work, const struct set_export *export, struct proof_export *ret);

/* proof_set_prove.c: each member against the kernel and the others; fills edges. */
int set_prove_members(struct set_work *work) _must_check_;
int set_add_edge(struct set_work *work, uint32_t from, uint32_t to, bool hard) _must_check_;

/* proof_set_order.c */
int set_sort(struct set_work *work) _must_check_;
int set_spread(struct set_work *work) _must_check_;

/* proof_set_kernel.c: what is left to the kernel. 0 or -ENOMEM. */
/* Notes that @member uses what the kernel's module @exporter, a path, exports. */
int set_rely(struct set_work *work, uint32_t member, const char *exporter) _must_check_;
int set_judge_kernel(struct set_work *work) _must_check_;

/* proof_set_facts.c */
/* Does something with a name ('_') that a member wishes for. 0 or -ENOMEM. */
typedef int set_visit(struct set_work *work, uint32_t member, const char *name);
int set_visit_depends(struct set_work *work, uint32_t member, set_visit *function) _must_check_;
/* Edges of depends and softdep. */
int set_add_wishes(struct set_work *work, uint32_t member) _must_check_;
int set_judge_duplicates(struct set_work *work) _must_check_;
int set_judge_facts(struct set_work *work) _must_check_;

/* proof_set_options.c */
int set_judge_options(struct set_work *work) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* The load proof of a set from inside. Members go by their place in the set. */
#pragma once

#include "module/proof_internal.h"

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
	bool has_other_needs; /* in depends or softdep, than members */
	uint32_t position;    /* in the order; SET_NONE: in none */
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
	struct strv softdeps;        /* names in softdep that are no module's; may come twice */
	struct set_table by_softdep; /* to a place in these */
	bool *has_alias;             /* which of these are a member's alias */
	uint32_t *order;             /* members that can be loaded, in their order */
	size_t order_count;
};

/* ---- set.c */

static inline const struct elf_module *set_module(const struct set_work *work, uint32_t member)
{
	return work->set->members[member].module;
}

/* Room for @count keys. */
int set_table_init(struct set_table *table, size_t count) _must_check_;
/* Puts @key unless it is there; returns the number that it has now. */
uint32_t set_table_put(struct set_table *table, const char *key, uint32_t number);
uint32_t set_table_find(const struct set_table *table, const char *key); /* or SET_NONE */
int set_add_edge(struct set_work *work, uint32_t from, uint32_t to, bool hard) _must_check_;

/* ---- set_order.c; 0 or -ENOMEM */

/* An order in which all load: work->order. */
int set_sort(struct set_work *work) _must_check_;
/* Refuses, or doubts, what needs a member that is refused, or doubted. */
int set_spread(struct set_work *work) _must_check_;

/* ---- set_rules.c; 0 or -ENOMEM */

/* Edges of depends and softdep. */
int set_add_soft_edges(struct set_work *work, uint32_t member) _must_check_;
/* Notes that @member uses what the kernel's module @exporter, a path, exports. */
int set_rely(struct set_work *work, uint32_t member, const char *exporter) _must_check_;
int set_judge_duplicates(struct set_work *work) _must_check_;
int set_judge_kernel(struct set_work *work) _must_check_;
int set_judge_facts(struct set_work *work) _must_check_;
int set_judge_options(struct set_work *work) _must_check_;

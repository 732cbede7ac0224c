/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC role's journal: how far a swap of modules came, in one file of the boot (/run) that
 * outlives the process. Each phase is written, by an atomic replace of the file, before the action
 * that it announces; what a killed container left is recovered by the phase and by what is loaded
 * (recover.c), and by nothing else. The file is removed when it has nothing to say.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/elf.h"

#define JOURNAL_PATH NIC_STATE_FOLDER "/swap.journal"

/* Why a module is in the plan. */
enum swap_part {
	SWAP_OURS,        /* the image has one of that name */
	SWAP_STORAGE,     /* goes only with UNLOAD_STORAGE_MODULES, and comes back */
	SWAP_THIRD_PARTY, /* goes only with UNLOAD_THIRD_PARTY_RDMA_MODULES, and comes back */
	SWAP_AUXILIARY,   /* goes, and comes back when it will load on ours */
	SWAP_PEERMEM,     /* nvidia_peermem: asked to go, the GPU side loads it again */
	SWAP_OTHER,       /* nobody named it: goes when nobody uses it, and comes back */
};

struct swap_module {
	char name[64];
	char build_id[BUILD_ID_HEX_SIZE]; /* of the loaded one, or "" */
	enum swap_part part;
	char *options; /* "name=value …" that bring its parameters back, or "" */
};

struct swap_plan {
	bool same; /* all that we would load is live, ours, with the same parameters */
	/*
	 * All that has to be there in the end, in order, dependencies first: also what is live
	 * already, and what the image's modules need of the kernel's own.
	 */
	struct strv load;
	struct swap_module *go; /* in order of removal: every loaded holder of one is in it */
	size_t go_count;
};

/* "ours", "storage", … as the file has it. */
const char *swap_part_name(enum swap_part part);
void swap_plan_free(struct swap_plan *plan);
/* Appends a copy of @module to go; its options may be NULL. -ENOMEM. */
int swap_plan_add(struct swap_plan *plan, const struct swap_module *module) _must_check_;
struct swap_module *swap_plan_find(const struct swap_plan *plan, const char *module);
/* Appends the names of go, in order. -ENOMEM. */
int swap_plan_going(const struct swap_plan *plan, struct strv *names) _must_check_;
/* Is any of the driver itself among what goes? */
bool swap_plan_has_driver(const struct swap_plan *plan);

enum phase {
	PHASE_NONE,       /* no swap is pending */
	PHASE_UNLOADING,  /* what the image replaces goes */
	PHASE_LOADING,    /* the image's modules come */
	PHASE_DEPENDENTS, /* what depended on the old ones comes again */
	PHASE_RESTORING,  /* all modules are there, the network gets its state */
	PHASE_COMMITTED,  /* it serves; copies of the modules are not kept yet */
	PHASE_ROLLBACK,   /* the image's modules go, what was there before comes back */
	PHASES,
};

enum journal_list {
	JOURNAL_MISSING,    /* modules that did not come back, and why */
	JOURNAL_UNRESTORED, /* what of the network's state did not */
	JOURNAL_OUTCOME,    /* how a rollback ended, for the exit message */
	JOURNAL_LISTS,
};

struct journal {
	enum phase phase;
	/* While a swap is pending: what was there (go), and what takes its place (load). */
	struct swap_plan pending;
	/*
	 * From the first swap of the boot on: the node's own modules (go), for
	 * RESTORE_DRIVER_ON_POD_TERMINATION, also after OFED was replaced by another OFED; and all
	 * that containers inserted instead (load).
	 */
	struct swap_plan own;
	struct swap_plan plan; /* what the last comparison found */
	/*
	 * Where the network's state was saved to, relative to the root, or NULL: another pod may
	 * have another inventory. And which such file is restored but cannot be removed: a folder
	 * that turned read-only is no reason to restore it again.
	 */
	char *network;
	char *network_done;
	struct strv lists[JOURNAL_LISTS];
};

/* "unloading", … as the file has it. */
const char *phase_name(enum phase phase);

/* 0 also where there is none. -EBADMSG: damaged. journal_free() in any case. */
int journal_read(int root_fd, struct journal *journal, struct error *error) _must_check_;
int journal_write(int root_fd, const struct journal *journal, struct error *error) _must_check_;
void journal_free(struct journal *journal);
#define _cleanup_journal_ _cleanup_(journal_free)

/* PHASE_NONE also of one that cannot be read. */
enum phase journal_phase(int root_fd);
/* Is a swap neither committed nor rolled back? */
bool journal_is_pending(int root_fd);
/* Is anything known of the modules that the node had before containers replaced them? */
bool journal_knows_own(const struct journal *journal);

/* Announces the next action of a pending swap. */
int journal_enter(int root_fd, enum phase phase, struct error *error) _must_check_;

struct module_lookup;
/*
 * Before the first module of @plan goes: PHASE_UNLOADING, with the plan entered as pending and the
 * node's own modules recorded. Of a swap that a killed container left pending the entries stay:
 * what was there before it is to come back, not what it left half done; modules that came since are
 * added.
 */
int journal_begin(const struct role *role, const struct swap_plan *plan,
	struct module_lookup *lookup, struct error *error) _must_check_;
/* The swap is over: nothing is rolled back any more. Done at any price. */
void journal_commit(int root_fd);
/*
 * Nothing is pending any more: rolled back, or (PHASE_COMMITTED) copies are kept. @own_is_back: the
 * node's own modules are loaded again, no record of them is needed.
 */
void journal_end(int root_fd, bool own_is_back);

/* Replaces a list; NULL: by nothing. */
int journal_set_list(int root_fd, enum journal_list list, const struct strv *lines,
	struct error *error) _must_check_;
/* Strings or NULL. */
int journal_set_network(
	int root_fd, const char *path, const char *done, struct error *error) _must_check_;

/*
 * What an older Slipway left, which deduced the phase from which of nic.swap, nic.inbox,
 * nic.settled, nic.journal, nic.journal-done, nic.missing and nic.unrestored were there: turned
 * into the journal, then removed. A container of such an image may have been killed at any point,
 * and may have run after one of this image, too.
 */
int journal_adopt_old(int root_fd, struct error *error) _must_check_;

/* Parts of journal_begin(), by themselves for the unit tests. */
/* @coming: what of plan.load this start will insert. */
int journal_merge_pending(struct swap_plan *pending, const struct swap_plan *plan,
	const struct strv *coming) _must_check_;
/* @known: there is a list already; else all of @plan is the node's own. */
int journal_merge_own(struct swap_plan *own, const struct swap_plan *plan, bool known,
	struct module_lookup *lookup) _must_check_;

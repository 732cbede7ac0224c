/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC driver container: what its files share, in the order in which each uses what stands
 * before it: inputs.c, journal.c, nic.c, kept_modules.c, compare.c, swap.c, recover.c, network.c,
 * host_options.c, host_files.c, udev.c, watch.c.
 *
 * A function that takes an action belongs to a step (nic.c) and runs in a worker, unless its
 * comment says otherwise; a bool function of a const void *role is a step's "wanted" or "is_done".
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/node_build/run_node_build.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/elf.h"

/* ---- inputs.c: the argument and the environment */

/* ENABLE_NFSRDMA: what the stock container loads then, which has both transports in one module. */
#define NIC_NFSRDMA_MODULE "rpcrdma"

enum nic_mode { NIC_PRECOMPILED, NIC_SOURCES };

const char *nic_mode_name(enum nic_mode mode);

/* Ours, in the inventory. */
#define INVENTORY_FOLDER ".slipway"

/*
 * contract.h has the names of the variables; Mellanox/doca-driver-build
 * entrypoint/internal/config/config.go the defaults.
 */
struct nic_inputs {
	enum nic_mode mode;
	bool unload_storage;     /* UNLOAD_STORAGE_MODULES */
	bool unload_third_party; /* UNLOAD_THIRD_PARTY_RDMA_MODULES */
	bool ifnames_rule;       /* CREATE_IFNAMES_UDEV */
	bool nfsrdma;            /* ENABLE_NFSRDMA */
	/* Names of modules, '_' for '-'. */
	struct strv storage;           /* STORAGE_MODULES */
	struct strv third_party;       /* THIRD_PARTY_RDMA_MODULES */
	struct strv auxiliary;         /* MLX5_AUXILIARY_MODULES */
	struct strv blacklist;         /* OFED_BLACKLIST_MODULES */
	struct strv invalid_auxiliary; /* words of it that are no names */
	/* Paths relative to the root. */
	char *ready_file;        /* DRIVER_READY_PATH */
	char *lock_file;         /* LOCK_FILE_PATH */
	char *drivers_mount;     /* MLX_DRIVERS_MOUNT */
	char *sources;           /* SHARED_KERNEL_HEADERS_DIR: what is shown to the GPU side */
	char *shown_sources;     /* where: that path below drivers_mount */
	char *udev_rules;        /* MLX_UDEV_RULES_FILE */
	char *blacklist_file;    /* OFED_BLACKLIST_MODULES_FILE */
	char *inventory;         /* NVIDIA_NIC_DRIVERS_INVENTORY_PATH, or "" */
	char *journal_folder;    /* in the inventory, on the host's disk; else NIC_STATE_FOLDER */
	bool is_inventory_roots; /* it is used, and no other user may add files to it */
	uint32_t bind_ms;        /* BIND_DELAY_SEC, an upper bound here */
	char unused[280];        /* why the inventory is not used ("is no folder …"), or "" */
};

/* Makes the journals' folder in an inventory that has none. nic_inputs_free() in any case. */
int nic_inputs_read(
	struct nic_inputs *inputs, int root_fd, char *const *arguments, struct error *error);
void nic_inputs_free(struct nic_inputs *inputs);
/* Logs inputs that were set and have no use here, and why. */
void nic_inputs_log(const struct nic_inputs *inputs, struct log *log);

/* ---- journal.c */

#define JOURNAL_PATH NIC_STATE_FOLDER "/swap.journal"

/* Why a module is in the plan. */
enum swap_part {
	SWAP_DRIVER,      /* of the driver: the image has one of that name */
	SWAP_STORAGE,     /* goes only with UNLOAD_STORAGE_MODULES, and if it will come back */
	SWAP_THIRD_PARTY, /* goes only with UNLOAD_THIRD_PARTY_RDMA_MODULES, and comes back */
	SWAP_AUXILIARY,   /* goes, and comes back when it will load on ours */
	SWAP_PEERMEM,     /* nvidia_peermem: asked to go, the GPU side loads it again */
	SWAP_OTHER,       /* not named anywhere: goes when it is not in use and will come back */
};

struct swap_module {
	char name[64];
	char build_id[BUILD_ID_HEX_SIZE]; /* of the loaded one, or "" */
	enum swap_part part;
	char *options; /* "name=value …" that bring its parameters back, or "" */
};

struct swap_plan {
	bool same; /* all that we would load is live, ours, with the same parameters */
	/* All that has to be there in the end, in order: also what is live already, and what the
	 * image's modules need of the kernel's own. */
	struct strv load;
	struct swap_module *go; /* in order of removal: every loaded holder of one is in it */
	size_t go_count;
};

void swap_plan_free(struct swap_plan *plan);
/* Put a copy of @module at @index of go, or at its end; its options may be NULL. -ENOMEM. */
int swap_plan_insert(
	struct swap_plan *plan, size_t index, const struct swap_module *module) _must_check_;
int swap_plan_add(struct swap_plan *plan, const struct swap_module *module) _must_check_;
struct swap_module *swap_plan_find(const struct swap_plan *plan, const char *module);
/* Appends the names of go that are not there yet, in order. -ENOMEM. */
int swap_plan_going(const struct swap_plan *plan, struct strv *names) _must_check_;

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
	/* From the first swap of the boot on: the node's own modules (go), for
	 * RESTORE_DRIVER_ON_POD_TERMINATION, and all that containers inserted instead (load). */
	struct swap_plan own;
	struct swap_plan plan; /* what the last comparison found */
	char *network;         /* where its state was saved, or NULL: inventories may differ */
	char *network_done;    /* which file of it is restored, but could not be removed */
	struct strv lists[JOURNAL_LISTS];
};

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

/* Announces the next action of a pending swap: in the file, or with all of @journal. @coming: what
 * it may insert besides pending.load; NULL: nothing. */
int journal_enter(
	int root_fd, enum phase phase, const struct strv *coming, struct error *error) _must_check_;
/* Takes out those of @names that were to be inserted and are not there: the host may load them
 * later for itself. */
int journal_forget_absent(int root_fd, const struct strv *names, struct error *error) _must_check_;
int journal_write_phase(
	int root_fd, struct journal *journal, enum phase phase, struct error *error) _must_check_;

struct module_lookup;
/*
 * PHASE_UNLOADING, with the plan entered as pending and the node's own modules recorded. Of a swap
 * that a killed container left pending the entries stay: what was there before it is to come back,
 * not what it left half done.
 */
int journal_begin(const struct swap_plan *plan, struct module_lookup *lookup,
	struct error *error) _must_check_;
/* Nothing is rolled back any more. Done at any price. */
void journal_commit(int root_fd);
/* All is rolled back, or copies are kept. @own_is_back: its record is needed no more. */
void journal_end(int root_fd, bool own_is_back);

/* Replaces a list; NULL: by nothing. */
int journal_set_list(int root_fd, enum journal_list list, const struct strv *lines,
	struct error *error) _must_check_;
/* Strings or NULL. */
int journal_set_network(
	int root_fd, const char *path, const char *done, struct error *error) _must_check_;

/* Adds what goes by @plan, and what of plan.load this start will insert (@coming, or NULL). */
int journal_merge_pending(struct swap_plan *pending, const struct swap_plan *plan,
	const struct strv *coming) _must_check_;

/* ---- nic.c */

/* watch.c's. */
struct nic_watch {
	struct nic_watched {
		char name[64];
		char build_id[BUILD_ID_HEX_SIZE];
		unsigned long long load; /* another number each time that it is loaded */
	} * modules;                     /* that are to be there */
	size_t count;
	struct strv changed; /* what was reported of them last */
	struct strv missing; /* modules that did not come back, and why, until they are loaded */
	uint64_t settled_ms; /* until then its folder may not be as the kernel reported; 0: it is */
};

struct nic {
	struct role role; /* first: a step's void *role is also a struct nic * */
	struct nic_inputs inputs;
	struct nodebuild build; /* of the mode sources, kept below the inventory */
	char *build_cache;      /* build.cache, or NULL: no inventory */
	struct swap_plan swap;  /* as the step "compare" made it */
	struct nic_watch watch;
	int lock_fd;       /* of LOCK_FILE_PATH where that is another one, or -1 */
	char *const *mode; /* the arguments: the mode, or none */
};

static inline struct nic *nic_of(void *role)
{
	return role;
}

void nic_free(struct nic *nic);
/* The role's steps, for tests. */
const struct step *nic_plan(size_t *ret_count);
/* A line for people, from a worker: "note" in the events. */
void nic_note(const struct action *action, const char *format, ...) _printf_(2, 3);
int nic_no_memory(struct action *action);
/* Appends those that are not there yet. -ENOMEM. */
int nic_push_all(struct strv *names, const struct strv *more) _must_check_;
/* Appends the auxiliary modules that the image's set has, each after what it depends on. -ENOMEM.
 */
int nic_resolve_auxiliary(
	const struct nic *nic, struct loader *image, struct strv *names) _must_check_;

/* Opens @path, which is in the journals' @folder, or an earlier container's: from the folder above
 * that one on all has to be root's alone. -EINVAL: it is not below the folder above. */
int nic_open_owned(int root_fd, const char *folder, const char *path, struct error *error);

/* Sets role.build from the inputs. It stays NULL in the other modes, which compile nothing. */
int nic_build_read(struct nic *nic, struct error *error);
/*
 * Makes the links ofa_kernel/{default,<krel>} in @sources, which lead to <arch>/<krel> relatively,
 * so that they hold wherever the folder is seen. -ENOENT: no Module.symvers for this kernel.
 */
int sources_link(
	int root_fd, const char *sources, const char *arch, const char *krel, struct error *error);

/* ---- kept_modules.c: module files by build id, and the copies that are kept of them */

struct module_lookup {
	struct action *action; /* the role's, and to report to */
	struct strv files;     /* filled by the first search, best place first */
	struct strv skipped;   /* kept files that others could have written, and that is reported */
	bool listed;
};

void module_lookup_free(struct module_lookup *lookup);
/*
 * The file of the module @name (with '_') and @build_id: in the host's tree, among what an earlier
 * image kept, in this image. A new string, relative to the root, without links. -ENOENT, -ENOMEM.
 */
int module_find(
	struct module_lookup *lookup, const char *name, const char *build_id, char **ret_path);
/* Does the host's own tree have that very file? */
bool module_is_on_host(struct module_lookup *lookup, const char *name, const char *build_id);
/* Is that path, as module_find() gave it, one of the host's tree? */
bool module_is_of_host(const struct module_lookup *lookup, const char *path);
/*
 * Keeps copies of the files at @paths, each with a name of its own, for the next image's rollback.
 * They replace what is kept in one step, synced; not when that is the set @id already.
 */
int modules_keep(
	const struct nic *nic, const struct strv *paths, const char *id, struct error *error);

/* ---- compare.c */

/* The plan goes to the journal, and (STEP_DIRECT) from there into struct nic. */
int nic_compare(struct action *action);
int nic_adopt_plan(struct action *action);
/*
 * -EBUSY (REASON_MODULE_IN_USE) when a module of plan->go may not or cannot go, with all of the
 * reasons in one message, and what to do; each is also reported by itself.
 */
int nic_refuse(struct action *action, const struct swap_plan *plan);
/* Both refuse, too: the plan of a start, and what goes when these modules of the image go. */
int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan);
int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan);

/* ---- swap.c */

/* The source of a module: a tree, or the very build, wherever it is. */
enum swap_source { SWAP_IMAGE, SWAP_HOST, SWAP_EXACT, SWAP_SOURCES };

/* The journal as it was at first, and where modules come from. */
struct swap_context {
	struct action *action;
	struct nic *nic;
	const struct role *role;
	int root_fd;
	struct journal journal;
	bool is_damaged;                    /* the journal: nothing is pending, as for its phase */
	struct loader *trees[SWAP_SOURCES]; /* swap_tree() */
	struct module_lookup lookup;
};

int swap_open(struct swap_context *swap, struct action *action);
void swap_close(struct swap_context *swap);
/* The image's or the host's: opened when it is first asked for, borrowed. NULL with a message when
 * it cannot be used. */
struct loader *swap_tree(struct swap_context *swap, enum swap_source tree, struct error *error);
/* Has the tree a file for it? */
bool swap_tree_has(struct swap_context *swap, enum swap_source tree, const char *name);
/* Is a module of that name there, which is no part of the kernel itself? */
bool swap_is_loaded(const struct swap_context *swap, const char *name);
/* Is the image's build of it loaded, or where none is known, what this context loaded? */
bool swap_is_ours(struct swap_context *swap, const char *name);
/* Is that very build loaded? */
bool swap_is_build(const struct swap_context *swap, const struct swap_module *module);
/*
 * Loads one module, of a tree after what it depends on, with those of its options that its file
 * takes. Options that the kernel refuses are given up, and reported. -ENOENT: there is no such
 * file. -EEXIST: another build was loaded meanwhile.
 */
int swap_load(struct swap_context *swap, enum swap_source from, const struct swap_module *module,
	struct error *error);
/* As unload_modules() (role/modset.h), with the failure's reason. */
int swap_unload(struct swap_context *swap, const struct strv *names, bool holders_too,
	struct strv *removed);
/* The modules of plan->go, nvidia_peermem first, which is asked to go. @undoing: with what holds
 * them by now. */
int swap_unload_plan(struct swap_context *swap, const struct swap_plan *plan, bool undoing,
	struct strv *removed);
/* Removes the folder that "swap-out" keeps in /dev/infiniband. */
void swap_release_device_folder(const struct swap_context *swap);
/*
 * Loads what of the pending modules is not there: with @of_image the image's where it has one, else
 * the host's; without, of all but the driver itself, the very build, else the host's. What does not
 * come goes to @missing, to the events and to the journal. -ENOMEM.
 */
int swap_load_dependents(struct swap_context *swap, bool of_image, struct strv *missing);

/* Removes plan.go; nvidia_peermem, which is asked to go, first. */
int nic_swap_out(struct action *action);
/* Loads plan.load. Modules that the host's udev brings in the middle are taken out again. */
int nic_swap_in(struct action *action);
/* Loads again what went besides. What cannot come is reported, and does not fail the start. */
int nic_swap_dependents(struct action *action);
/* Was a swap committed whose modules are not kept yet? */
bool nic_is_committed(const void *role);
/* Keeps them for the next image's rollback. A failure is reported. */
int nic_keep_modules(struct action *action);

/* ---- recover.c */

/* Puts a damaged journal aside; called by the first step. */
void nic_open_journal(struct nic *nic);
/* Is a swap pending, or is there a saved state of the network? */
bool nic_is_unfinished(const void *role);
/* Reports which of them. */
int nic_note_unfinished(struct action *action);
/* After the comparison: does all of the image run, so that nothing is unloaded or loaded? */
bool nic_is_swapped(const void *role);
/* The same, and no dependents of a swap that was killed are left to be loaded. */
bool nic_dependents_are_done(const void *role);
/* Did the killed container finish its swap, and not come to write that it is committed? */
bool nic_is_all_but_committed(const void *role);
/* Writes that, before a step can fail: a start that fails would roll that swap back. */
int nic_commit_earlier(struct action *action);
/* On the way out: does OFED stay? Not when the operator wants the node's own driver back, or a swap
 * is pending, of this container or of one before it. */
bool nic_stays(const struct role *role);
/*
 * The undo of nic_swap_in(). Of a pending swap ours go. Else they stay, unless the operator wants
 * the node's own modules back: then those are proven, become what is pending, and ours go.
 */
int nic_swap_in_undo(struct action *action);
/* The undo of nic_swap_out(): what was there before a pending swap comes back. */
int nic_swap_out_undo(struct action *action);
/*
 * The two halves of the rollback of a killed container's swap, by a start that does not come to its
 * own steps. The first saves the network, unless the killed container did, and unloads the image's
 * modules. The second, also when the first failed, loads what was there before and restores the
 * network.
 */
int nic_recover_unload(struct action *action);
int nic_recover_load(struct action *action);
/* STEP_DIRECT, the last undo of all: how the node is left, for the exit message. */
int nic_report_outcome(struct action *action);

/* ---- network.c: the network's state, saved before and restored after (netstate/netstate.h) */

/*
 * The path of the state file, or of the one to be written; NULL without memory. @ret_saved: it is
 * there, not restored, and only root can have written it.
 */
char *nic_network_path(const struct nic *nic, bool *ret_saved);
/* Is the recorded one skipped, as others than root can have written it? */
bool nic_network_is_distrusted(int root_fd, struct error *why);
/* Is there nothing to restore? */
bool nic_network_is_whole(const void *role);
/* Is there only what a finished restore still has to do (netstate_is_pending())? */
bool nic_network_is_for_next_start(const struct nic *nic);
/* Before the save into @path: records it, and removes one that is restored or not believed. */
int nic_network_begin(const struct nic *nic, const char *path, struct error *error);
/* When @path was restored: what is there still is not to be restored again. */
int nic_network_end(const struct nic *nic, const char *path, struct error *error);

/* Does no module go? */
bool nic_network_stays(const void *role);
/* Saves the state of the devices whose drivers go. */
int nic_network_save(struct action *action);
/* Its undo, by then with the old drivers loaded. Where no device has a driver the state stays for
 * the next start, and so does what a finished restore left for that one. */
int nic_network_save_undo(struct action *action);
/* The same, and what a finished restore left, too. */
int nic_network_give_back(struct action *action);
/* When modules are unloaded and no others loaded yet (netstate_restore_bond_macs()). */
void nic_network_restore_bond_macs(const struct nic *nic);
/* State that could not be restored is reported and no failure: the driver is there. */
int nic_network_restore(struct action *action);
/* Its undo: saves anew, when modules are about to go and others to come. */
int nic_network_save_again(struct action *action);
/* Would modules go with nothing saved of what they know, because an undo before failed? */
bool nic_network_is_at_risk(const struct role *role);

/* ---- host_options.c */

/* REASON_BAD_PARAMETER when the kernel would refuse a value. */
int nic_host_options(struct action *action);

/* The options that modprobe.d folders have for modules, with the file of each. */
struct modprobe_options {
	struct strv modules; /* '_' in the names */
	struct strv words;   /* "name=value" of the module at the same index */
	struct strv files;   /* relative to the root */
};

void modprobe_options_free(struct modprobe_options *options);
/*
 * Reads the options in the container's and the host's modprobe.d as libkmod does
 * (libkmod/libkmod-config.c, kmod_config_new()). What cannot be read is noted.
 */
int modprobe_options_read(
	int root_fd, struct modprobe_options *options, struct strv *notes, struct error *error);

/* ---- host_files.c */

/* None of these fails: what cannot be put or undone is reported. First, what an earlier container
 * left is undone; the udev rules stay where they are wanted. */
int nic_host_files_clear(struct action *action);
/* Rules and blacklist, and udevd is asked to read them. */
int nic_host_files_put(struct action *action);
/* Both, and whatever else the journal knows. */
int nic_host_files_undo(struct action *action);
/* Right after the last load the blacklist goes; it comes back when modules are to go again. */
int nic_unblock(struct action *action);
int nic_block_again(struct action *action);

struct hostfiles {
	int root_fd;
	char journal[PATH_MAX]; /* relative to the root, on a disk of the host */
	struct strv notes;      /* to be reported, and freed, by the caller */
	bool changed;           /* something was put or undone */
};

/*
 * Puts @content at @path: atomically, and with the SELinux label that its folder's files have. The
 * folder is made when the one above is there. Nothing is done when it is there already, and, with a
 * note, when @path leads to /dev/null: so an administrator refuses such a file. When it fails,
 * nothing was touched.
 */
int hostfiles_put(
	struct hostfiles *files, const char *path, const char *content, struct error *error);
/*
 * Undoes @only, or (NULL) all that the journal knows but @keep (or NULL): the old file comes back,
 * or none. One that another process changed or replaced meanwhile, or that cannot be undone, stays,
 * with a note. Returns how many files were undone.
 */
int hostfiles_undo(struct hostfiles *files, const char *only, const char *keep);
/* Is what is at @path a link of ours that leads somewhere? */
bool hostfiles_is_there(struct hostfiles *files, const char *path);

/* ---- udev.c */

/* Within this time udevd finds changes by itself that it cannot be asked to read. */
#define UDEVD_LOOK_MS 3000

/* Makes rules that keep the names of the interfaces whose drivers are of these modules. */
int udev_rules_make(int root_fd, const struct strv *modules, struct strv *notes, char **ret_text,
	struct error *error);
/* Asks udevd to read its files anew and waits until it answers that it did, at most @limit_ms for
 * each call. True when it did, or when there is none: no socket of its own below /run/udev. */
bool udevd_reload(int root_fd, uint32_t limit_ms);

/* ---- watch.c */

/* The role's watch. */
void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

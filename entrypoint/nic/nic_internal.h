/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC driver container: what its files share. What takes an action is one of a step (nic.c) and
 * runs in a worker, unless it says otherwise.
 */
#pragma once

#include <limits.h>

#include "entrypoint/nic/inputs_internal.h"
#include "entrypoint/nic/journal_internal.h"
#include "entrypoint/nic/nic_build_internal.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"

/* watch.c: are the modules that run while it serves still those that it loaded? */
struct nic_watch {
	struct strv modules; /* "name build-id load" of each that is to be there */
	struct strv changed; /* what was reported of them last */
	uint64_t settled_ms; /* until then its folder may not be as the kernel told; 0: it is */
};

struct nic {
	struct role role; /* first: a step's void *role is also a struct nic * */
	struct nic_inputs inputs;
	struct nic_build build; /* of the mode sources */
	struct swap_plan swap;  /* as the step "compare" made it */
	struct nic_watch watch;
	int lock_fd;            /* of LOCK_FILE_PATH where that is another one, or -1 */
	char *const *arguments; /* the mode, or none */
};

static inline struct nic *nic_of(void *role)
{
	return (struct nic *) role;
}

static inline const struct nic *nic_of_const(const void *role)
{
	return (const struct nic *) role;
}

/* ---- nic.c */

/* The role's steps, for tests: @ret_count of them. */
const struct step *nic_plan(size_t *ret_count);
/* A line for people, from a worker: "note" in the events. */
void nic_note(const struct action *action, const char *format, ...) _printf_(2, 3);

/* ---- compare.c: what has to go so that the image's modules can come, without touching anything */

/*
 * Compares every module of the image's set with what runs, and writes the plan to the journal.
 * -EBUSY (REASON_MODULE_IN_USE) when something that would have to go cannot: the message names all
 * of it, with what to do.
 */
int nic_compare(struct action *action);
/* STEP_DIRECT, next: reads it into struct nic. */
int nic_adopt_plan(struct action *action);
/* The same with a tree of the caller's choice: nic_compare()'s part for the unit tests. */
int swap_plan_make(struct action *action, struct loader *loader, struct swap_plan *plan);
/*
 * What goes when these @modules, which are the image's, go: they and all that hold them, in order,
 * to plan->go. Refusals as for a start.
 */
int swap_plan_removal(struct action *action, const struct strv *modules, struct swap_plan *plan);
/*
 * Appends the modules that the image is asked to load: what its image.conf names, else what OFED's
 * own start script loads, of those that it has; and with ENABLE_NFSRDMA what that brings. -ENOENT
 * when it lacks the first of them, which no driver does without.
 */
int nic_module_list(struct action *action, struct strv *names);

/* ---- refuse.c */

/*
 * -EBUSY (REASON_MODULE_IN_USE) when a module of plan->go may not or cannot go, with all of the
 * reasons in one message; each is also reported by itself. 0 else.
 */
int nic_refuse(struct action *action, const struct swap_plan *plan);

/* ---- modules.c: module files, known by their build ids, and copies of them on the node */

struct module_lookup {
	int root_fd;
	const char *krel;
	const char *host; /* the host's root as seen from here, relative: "host"; "" for none */
	const char *kept; /* folder of kept files, relative to the root */
	/*
	 * The folder above @kept from which on all has to be root's, for nobody else to write
	 * (common/owned.h), or NULL: other containers have it, too. A kept file of which that does
	 * not hold is skipped, and reported by @tell (may be NULL) with @tell_context.
	 */
	const char *kept_in;
	void (*tell)(void *context, const char *text);
	void *tell_context;
	struct strv skipped; /* reported already */
	/* Filled by the first search: module files with their paths, best place first. */
	struct strv files;
	bool listed;
};

void module_lookup_free(struct module_lookup *lookup);
/*
 * Finds the file of the module @name (with '_') and @build_id into a new string, a path relative to
 * the root without links in it: in the host's module tree, among what an earlier image kept on the
 * node, in this image. -ENOENT when nothing has it, or when @build_id is "". -ENOMEM.
 */
int module_find(
	struct module_lookup *lookup, const char *name, const char *build_id, char **ret_path);
/* Does the host's own tree have that very file? */
bool module_is_on_host(struct module_lookup *lookup, const char *name, const char *build_id);
/* Is that path, as module_find() gave it, one of the host's tree? */
bool module_is_of_host(const struct module_lookup *lookup, const char *path);
/* "updates/dkms/mlx5-core.ko.xz" is of the module "mlx5_core": true with its name, '_' for '-'. */
bool module_of_path(const char *path, char name[ELF_STRUCT_NAME_SIZE]);
/*
 * Copies of the files that this container loaded, for the next image, whose container does not have
 * them: should what it loads fail, they have to come back. Makes @folder hold copies of exactly the
 * files at @paths (relative to the root, each with a name of its own) for @krel, in one step: until
 * all are there the old set stays. Nothing is written when @folder says that it has the set @id,
 * one line that differs when the files do. Synced.
 */
int modules_keep(int root_fd, const char *folder, const char *krel, const struct strv *paths,
	const char *id, struct error *error);

/* ---- swap.c: old modules out, ours in, what depended on the old ones in again */

/* The trees that modules come from, each opened when it is first asked for. */
struct swap_context {
	struct action *action;
	struct nic *nic;
	const struct role *role;
	struct loader *own_tree;  /* the image's; swap_own_tree() */
	struct loader *host_tree; /* the host's; swap_host_tree() */
	struct module_lookup lookup;
	char kept[PATH_MAX];    /* folder of what earlier images loaded, of any kernel */
	char kept_of[PATH_MAX]; /* of this kernel */
	char kept_in[PATH_MAX]; /* the folder above all that this role keeps */
};

int swap_open(struct swap_context *swap, struct action *action);
void swap_close(struct swap_context *swap);
/* NULL with a message when the tree cannot be used. Borrowed. */
struct loader *swap_own_tree(struct swap_context *swap, struct error *error);
struct loader *swap_host_tree(struct swap_context *swap, struct error *error);
/* Has the tree a file for it? */
bool swap_tree_has(struct loader *tree, const char *name);
/*
 * Is the image's own build of it loaded? False for what the image lacks. Of a kernel that shows
 * neither build ids nor srcversions: what this context's own loader loaded.
 */
bool swap_is_ours(struct swap_context *swap, const char *name);
/*
 * Each loads one module, with those of the @options that its file takes; options that the kernel
 * refuses are given up, and reported. -EEXIST when somebody else loaded another build meanwhile.
 */
/* The very build, from wherever it is; what it needs is there. -ENOENT: it is nowhere. */
int swap_load_build(
	struct swap_context *swap, const struct swap_module *module, struct error *error);
/* The tree's, after what it depends on. -ENOENT: the tree lacks it. */
int swap_load(struct swap_context *swap, struct loader *tree, const struct swap_module *module,
	struct error *error);
/*
 * Unloads these and whatever holds them, all or none, as far as the kernel can be asked before.
 * What went is appended to @removed. -EBUSY with who uses one of them.
 */
int swap_unload(struct swap_context *swap, const struct strv *names, struct strv *removed);
/*
 * Loads what of @pending's modules is not there: with @of_image the image's where it has one, else
 * the host's; without, of all but the driver itself, the very build where it is found, else the
 * host's. Each is proven before. A line for each that does not come goes to @missing, to the events
 * and to the journal. -ENOMEM.
 */
int swap_load_dependents(struct swap_context *swap, const struct swap_plan *pending, bool of_image,
	struct strv *missing);

/* Removes plan.go, nvidia_peermem first, by asking for it; nothing when the plan says same. */
int nic_swap_out(struct action *action);
/* Loads plan.load. Modules that the host's udev brings in the middle are taken out again. */
int nic_swap_in(struct action *action);
/*
 * Loads again what went besides: from the image where that has it, else from the host, when the
 * load proof lets it. Never fails the start: what cannot come is reported, and kept in the journal.
 */
int nic_swap_dependents(struct action *action);
/* wanted: was a swap committed whose modules are not kept yet? */
bool nic_is_committed(const void *role);
/* Keeps copies of what was loaded where the next image finds them. A failure is reported. */
int nic_keep_modules(struct action *action);

/* ---- recover.c: the rollback, and what a killed container left */

/* STEP_DIRECT, first: takes up what an older Slipway left, and looks whether it can be read. */
void nic_open_journal(struct nic *nic);
/* wanted: is a swap pending, or is there a saved state of the network? */
bool nic_is_unfinished(const void *role);
/* Says so. */
int nic_tell_unfinished(struct action *action);
/* is_done, once compared: of the steps that unload, load and unblock; of those that follow. */
bool nic_is_swapped(const void *role);
bool nic_has_dependents(const void *role);
/* wanted: did the killed container do all but write that it is over? */
bool nic_is_all_but_committed(const void *role);
/* STEP_DIRECT: writes it, before anything can fail, for then this start would roll back. */
int nic_commit_earlier(struct action *action);
/*
 * On the way out: does OFED stay? Unless the operator wants the node's own driver back, or a swap
 * is pending: of this container, or of one before it, whatever this one's plan says.
 */
bool nic_stays(const struct role *role);
/*
 * The undo of nic_swap_in(). When the swap is pending, ours go. Else they stay, unless the operator
 * wants the node's own modules back (RESTORE_DRIVER_ON_POD_TERMINATION): then those are proven,
 * what was there before becomes what is pending, and ours go. A refusal leaves ours as they are.
 */
int nic_swap_in_undo(struct action *action);
/*
 * The undo of nic_swap_out(): when a swap is pending, what was there before comes back, last gone
 * first, with its parameters: the very builds, or where one of them is nowhere to be found or
 * fails, the host's own modules, and at worst ours again. Nothing else.
 */
int nic_swap_out_undo(struct action *action);
/*
 * Undo: ours go, when a killed container's swap is pending. The network is saved first where that
 * one left no state; when it cannot be, ours stay. -EBUSY: to be tried again.
 */
int nic_unfinished_out(struct action *action);
/*
 * Undo, after the other one however that ended: what was there before comes, at worst ours again,
 * and the network gets its state.
 */
int nic_unfinished_back(struct action *action);
/* STEP_DIRECT, the last undo of all: a failed start's exit message also says what became of it. */
void nic_tell_outcome(struct role *role);

/* ---- network.c: the network's state, saved before and restored after (netstate/netstate.h) */

/* Where its file is, else where it is to be; relative to the root. NULL: out of memory. */
char *nic_network_path(const struct nic *nic);
/*
 * The recorded one is to be restored, and others than root could have written it:
 * nic_network_path() skips it, and @why says who or what.
 */
bool nic_network_is_distrusted(int root_fd, struct error *why);
/* is_done of nic_network_restore(): there is no file, or it is not believed, or it is restored. */
bool nic_network_is_whole(const void *role);
/* Is there one of what a finished restore still has to do (netstate_is_pending())? */
bool nic_network_is_for_next_start(const struct nic *nic);
/*
 * To be called before the save into @path: records it, and takes away one that is restored or not
 * believed. Fails when that one would be taken for an unfinished save.
 */
int nic_network_begin(const struct nic *nic, const char *path, struct error *error);
/* To be called when @path was restored: what is there still is not to be restored again. */
int nic_network_end(const struct nic *nic, const char *path, struct error *error);

/* is_done of nic_network_save(): no module goes. */
bool nic_network_stays(const void *role);
/* Of the devices whose drivers go. */
int nic_network_save(struct action *action);
/*
 * Its undo: when a state is there still, by then with the old drivers loaded. Where no device has a
 * driver it stays for the next start, and so does what a finished restore left for that one.
 */
int nic_network_save_undo(struct action *action);
/* The same, and what a finished restore left, too. */
int nic_network_give_back(struct action *action);
/*
 * Restores it. What could not be is reported and written to the journal, and is no failure: the
 * driver is there. When it could not be done at all, it is (REASON_NETWORK_INCOMPLETE).
 */
int nic_network_restore(struct action *action);
/* Its undo: saves anew, when modules are about to go and others to come. */
int nic_network_save_again(struct action *action);
/*
 * Would modules go with nothing saved of what they know? When an undo before failed, the save
 * itself say, and others were to come.
 */
bool nic_network_is_at_risk(const struct role *role);

/* ---- host_options.c */

/* Where libkmod finds the host's options in the container. */
#define HOST_OPTIONS_PATH "etc/modprobe.d/slipway-host.conf"

/*
 * The host's modprobe options for the modules that we load in its stead: an administrator who gave
 * mlx5_core or ib_core an option wants it whichever build is loaded. Taken from
 * /host/etc/modprobe.d, /host/usr/{local/,}lib/modprobe.d and /host/lib/modprobe.d; what the
 * operator mounted into the container's own /etc/modprobe.d comes before them, and libkmod reads
 * that by itself. REASON_BAD_PARAMETER when the kernel would refuse a value; one that our module
 * does not know is left out with a note, as the kernel would do. Of the role it wants krel and
 * driver_modules.
 */
int nic_host_options(struct action *action);

/* The options that modprobe.d folders have for modules, with the file that says each. */
struct modprobe_options {
	struct strv modules; /* '_' in the names */
	struct strv words;   /* "name=value" of the module at the same index */
	struct strv files;   /* relative to the root */
};

void modprobe_options_free(struct modprobe_options *options);
/*
 * Reads @folders (relative to the root, NULL at the end, first wins) as libkmod does
 * (libkmod/libkmod-config.c, kmod_config_new()); one that is absent is fine. @host: prefix of
 * absolute links in them. A line that cannot be read is skipped and noted.
 */
int modprobe_options_read(int root_fd, const char *const *folders, const char *host,
	struct modprobe_options *options, struct strv *notes, struct error *error);

/* ---- sources.c: OFED's headers and Module.symvers as the GPU side finds them */

/* STEP_DIRECT. Shows them, in the place of what an earlier container shows: without a gap. */
int nic_export_sources(struct action *action);
/*
 * STEP_DIRECT. The end of it; and before the first module goes: what is shown is not what will be
 * loaded.
 */
int nic_detach_sources(struct action *action);
/*
 * Makes the links ofa_kernel/{default,<krel>} in @sources (relative to the root), which lead to
 * <arch>/<krel> relatively, so that they hold wherever the folder is seen. A folder of such a name
 * is left alone. -ENOENT when there is no Module.symvers for this kernel.
 */
int sources_link(
	int root_fd, const char *sources, const char *arch, const char *krel, struct error *error);

/* ---- watch.c */

void nic_watch_free(struct nic_watch *watch);
/*
 * A watch of the role (struct watch): somebody on the node may unload the modules, or put the
 * host's own in their place. That is reported (event, status, metrics, and the reason
 * DRIVER_REPLACED), and nothing is done about it: who did it may be at work still, and the
 * operator's liveness probe ends the container when there is no mlx5_core at all.
 */
void nic_watch(struct role *role, unsigned happened, uint64_t *wake_ms);

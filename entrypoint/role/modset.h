/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of modules: one tree of them by libkmod (files, order, options), loading, unloading all or
 * none, and the steps of a role that exchange what is loaded. All of it runs in workers: libkmod is
 * opened at run time there, so that the init, which stays for months, never maps it nor what it
 * drags in (libcrypto, liblzma, libzstd).
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/engine/worker.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/role.h"
#include "module/elf.h"

/* ---- a tree of modules (loader.c) */

struct loader;

/*
 * Opens the tree whose top is @prefix ("" for the image itself, "/host" for the host's) for @krel.
 * Options are those of the modprobe.d folders of the same top: the host's own driver, when it comes
 * back, gets the host's options, not the container's. Links among modules and options mean what
 * they mean to a process with that root: weak-updates of Enterprise Linux is full of absolute ones.
 * -ENOENT: no such tree (no modules.dep.bin; with a prefix modules.dep has to be beside it);
 * -ELIBACC, -ELIBBAD: no libkmod.
 */
int loader_open(int root_fd, const char *prefix, const char *krel, struct loader **ret,
	struct error *error) _must_check_;
void loader_close(struct loader **loader);

/*
 * Loads @module after all that it depends on, as modprobe would: with the options and soft
 * dependencies of modprobe.d and the tree, reporting each module that was inserted. What is live
 * already is left alone. A soft dependency that does not load is no failure. On failure @reason and
 * @error have the kernel's errno and the lines of its log that name the module.
 */
int loader_load(struct loader *loader, struct worker *worker, const char *module,
	enum reason *reason, struct error *error) _must_check_;

/* Whether the kernel took the module from this loader: it is the tree's own then. */
bool loader_inserted(const struct loader *loader, const char *module);
/* These were removed again: should they be there after this, another process loaded them. */
void loader_forget(struct loader *loader, const struct strv *modules);

/* Appends @module's dependencies (all, in load order) and the module itself, '_' in the names. */
int loader_resolve(struct loader *loader, const char *module, struct strv *names,
	struct error *error) _must_check_;
/* The same with what loader_load() loads as soft dependencies of them, in no order. */
int loader_resolve_all(struct loader *loader, const char *module, struct strv *names,
	struct error *error) _must_check_;

/*
 * The .ko file of @module: its path as a new string, without links in a tree with a prefix; or
 * opened by elf_module_open_brief(). -ENOENT when the tree lacks it, or has a link that leads
 * nowhere.
 */
int loader_file(struct loader *loader, const char *module, char **ret_path,
	struct error *error) _must_check_;
int loader_elf(struct loader *loader, const char *module, struct elf_module **ret,
	struct error *error) _must_check_;

/* The options of modprobe.d and the kernel's command line, a new string: "" for none. */
int loader_options(struct loader *loader, const char *module, char **ret_options,
	struct error *error) _must_check_;

/* Appends what @module's file declares. */
int loader_parameters(struct loader *loader, const char *module, struct parameters_taken *taken,
	struct error *error) _must_check_;

/*
 * Debian installs nvidia.ko as nvidia-current.ko, and modprobe.d has an install command for nvidia.
 * Finds such files of the @loaded modules that no file is named after: those whose modinfo has the
 * module's name (kernels since 4.14), the loaded build if it is among them. From then on the loader
 * knows the modules by their own names, and gives them the options of both.
 */
int loader_find_renamed(
	struct loader *loader, const struct strv *loaded, struct error *error) _must_check_;
/* The same for one that was found before: @file_name is without ".ko", with '_'. */
int loader_rename(struct loader *loader, const char *name, const char *file_name,
	struct error *error) _must_check_;
/* Borrowed: @name itself, if its file was not found under another. */
const char *loader_file_name(const struct loader *loader, const char *name);

/* ---- one module (unload.c compares, insert.c loads it) */

enum loaded {
	LOADED_SAME,
	LOADED_OTHER,
	LOADED_UNKNOWN, /* the kernel shows neither build id nor srcversion */
};

/*
 * Is the loaded module @name the build that @file is (elf_module_open_brief() will do)? By the
 * build id where both have one, else by srcversion.
 */
enum loaded loaded_compare(int root_fd, const char *name, const struct elf_module *file);
/* Compares the module with the tree's file of that name. */
int loader_compare(struct loader *loader, const char *name, enum loaded *ret,
	struct error *error) _must_check_;

/* One file with options of the caller's choice. What it depends on is loaded already. */
struct insertion {
	int root_fd;
	const char *path; /* .ko, plain or packed, relative to root_fd unless it begins with '/' */
	const char *name; /* as the kernel will know it, for messages */
	const char *options; /* "name=value …"; NULL: none */
};

/*
 * 0 when it is loaded, or when a module of that name was there already (the caller looks whose
 * build it is). Else as loader_load() fails.
 */
int insert_file(const struct insertion *insertion, struct worker *worker, enum reason *reason,
	struct error *error) _must_check_;

/* ---- unloading (unload.c): all are checked first, then go in the order that the holders give */

struct unload {
	int root_fd;
	const struct strv *modules; /* absent ones are skipped */
	/*
	 * Prefixes of the device paths whose users are named when a module is in use that has none
	 * of its own (users_patterns()); NULL-terminated.
	 */
	const char *const *device_prefixes;
	/* An unused module outside the set that holds one of it goes too. */
	bool holders_too;
};

/*
 * Puts the order of removal into @order: every module comes after those that hold it. -EBUSY when
 * something outside the set holds one of them or a module has references of its own; @error then
 * names module, holders and processes with their pods, and each process goes to @worker, which may
 * be NULL. Touches nothing.
 */
int unload_order(const struct unload *unload, struct worker *worker, struct strv *order,
	struct error *error) _must_check_;

/*
 * Checks, then removes, reporting each module that went. -EBUSY, with nothing removed, as
 * unload_order(). When the kernel refuses one in mid-course (a reference was taken after the
 * check), the modules that are gone are in @removed, in order, which the caller can load again:
 * with holders_too some of them may be of another tree than the set's.
 */
int unload_modules(const struct unload *unload, struct worker *worker, struct strv *removed,
	struct error *error);

/* ---- what roles do with them (modset_steps.c) */

/*
 * Puts those of the image's modules that are loaded, live or not yet, into @present, and the first
 * of them that is another build than the image's into @foreign, "" when none is.
 */
int role_compare_loaded(const struct role *role, struct loader *loader, struct strv *present,
	char foreign[64], struct error *error) _must_check_;

/* Is any of the image's modules loaded? Reads sysfs only. */
bool role_has_loaded(const struct role *role);

/*
 * STEP_WORKER: when a module of the image is loaded in another build, or with other parameters,
 * unloads all that the image replaces. Otherwise they stay: a previous run of the container loaded
 * them. The names of another driver's go to <state_folder>/<role>.replaced before the first goes,
 * "nvidia nvidia_current" where the host's tree has it in a file of another name.
 */
int role_unload_conflicting(struct action *action);
/*
 * STEP_WORKER, its undo: loads what was unloaded again, from the host's tree, when the start failed
 * or the operator wants the old driver back.
 */
int role_reload_replaced(struct action *action);

/* Has the role loaded modules, in this run or an earlier one, that it has not unloaded since? */
bool role_has_inserted(const struct role *role);

/*
 * STEP_WORKER: unloads the image's modules, all or none, then the dependencies of theirs that were
 * not there before us and that nothing else uses by now.
 */
int role_unload(struct action *action);

/*
 * Appends what of these the image has. The first @required of them must be there: else -ENOENT,
 * with the action failed.
 */
int role_select(struct action *action, const char *const *modules, size_t count, size_t required,
	struct strv *selected) _must_check_;

/*
 * Loads the modules with their dependencies, in this order; those of role_select(). Afterwards
 * every loaded module of the image's set has to be the image's very own: udev may have been quicker
 * with the host's.
 */
int role_load(struct action *action, const char *const *modules, size_t count, size_t required);

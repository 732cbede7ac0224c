/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading modules with their dependencies from one module tree, as modprobe would. Runs in a
 * worker: it reads modules.dep and .ko files. libkmod is asked for options only, and only where
 * they are beyond modules/modprobe_d.h: to open it takes longer than all the rest.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/engine/worker.h"
#include "entrypoint/role/parameter.h"

struct loader;

/*
 * Opens the tree whose top is @prefix ("" for the image itself, "/host" for the host's) for @krel.
 * The caller closes it with loader_close().
 */
int loader_open(int root_fd, const char *prefix, const char *krel, struct loader **ret,
	struct error *error);
void loader_close(struct loader **loader);

/*
 * Loads @module after all that it depends on, with the options of the tree's modprobe.d, telling
 * @worker of each one that was inserted. What is live already is left alone. On failure @reason and
 * @error say what the kernel said: its errno and the lines of its log that name the module.
 */
int loader_load(struct loader *loader, struct worker *worker, const char *module,
	enum reason *reason, struct error *error);

/* Whether the kernel took the module from this loader: it is the tree's own then. */
bool loader_inserted(const struct loader *loader, const char *module);

/* These were taken out again: the tree's own, should they be there after this, are somebody's. */
void loader_forget(struct loader *loader, const struct strv *modules);

/* Appends @module's dependencies (all, in load order) and the module itself, '_' in the names. */
int loader_resolve(
	struct loader *loader, const char *module, struct strv *names, struct error *error);

/* Writes the .ko file's path of @module to a new string. -ENOENT when the tree lacks it. */
int loader_file(struct loader *loader, const char *module, char **ret_path, struct error *error);

/*
 * Writes the options that loader_load() would give @module, as modprobe.d has them, to a new
 * string: "" for none.
 */
int loader_options(
	struct loader *loader, const char *module, char **ret_options, struct error *error);

/* What @module's file says that it takes, appended. Much cheaper than elf_module_open(). */
int loader_parameters(struct loader *loader, const char *module, struct parameters_taken *taken,
	struct error *error);

/*
 * What finit_module(2)'s negative errno @code means for the module @name, with what the kernel's
 * log says of it since @kmsg_fd was opened (modules/kmsg.h). Returns @code.
 */
int loader_failure(
	const char *name, int code, int kmsg_fd, enum reason *reason, struct error *error);

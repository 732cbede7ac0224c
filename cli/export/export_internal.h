/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share. */
#pragma once

#include "cli/export/export.h"
#include "cli/image/staging.h"
#include "cli/json.h"
#include "cli/verify/input.h"
#include "common/image_conf.h"

#define EXPORT_FOLDER    "usr/lib/slipway"
#define EXPORT_LIST      "export.json"
#define EXPORT_NAME      "slipway" /* of its files in folders of others */
#define EXPORT_SMI       "usr/bin/nvidia-smi"
#define EXPORT_USERSPACE "userspace" /* of --without */

/* One of the images: what is wanted of it is unpacked. */
struct export_input {
	struct verify_input image;
	struct image_conf conf; /* for the kernel */
};

/* A form of --as. */
struct export_form {
	const char *name;
	/* Fills the root: what is beside the userspace. Failures are in @root. */
	int (*stage)(struct export *export, struct staging *root, struct error *error);
	/* Writes the files to the folder @to; @root is the whole tree. */
	int (*write)(struct export *export, const char *root, const char *to, struct error *error);
	/* Prints how the files are used. */
	void (*print)(const struct export *export);
	const char *programs[2]; /* that it needs */
	bool own_folder; /* it is one of several on a node: EXPORT_LIST has a folder of its own */
	bool signs;
};

extern const struct export_form export_forms[];

/* ---- export.c */

/* Names the cache and the next steps, if @r is that its disk is full. Returns @r. */
int export_name_cache(const struct export *export, int r, struct error *error);

/* ---- inputs.c */

/* The image of this role, or NULL. */
const struct export_input *export_find_role(const struct export *export, const char *role);
/* Has the export a module of this name, with '_' for '-'? */
bool export_has_module(const struct export *export, const char *name);

/* ---- userspace.c */

/* Does the export take what is at @path of an image, beside the modules? */
bool export_wants_userspace(const char *path);
/* Puts the driver's userspace where the system keeps such, and finds out what it needs. */
int export_stage_userspace(
	struct export *export, struct staging *root, struct error *error) _must_check_;

/* ---- tree.c */

/* Modules and depmod's rules where the kernel's own tools look for them. */
int export_stage_modules(
	struct export *export, struct staging *root, struct error *error) _must_check_;
/* usr/lib/modprobe.d/<name>.conf, and udev's rule for the nodes of GPUs. */
void export_stage_rules(struct export *export, struct staging *root, const char *name);
/* Appends those of the modules that a node loads by name; the others come as they are needed. */
void export_list_loaded(const struct export *export, struct strv *names);
/* Looks at the whole tree, gives all files their mode, and writes EXPORT_LIST. */
int export_finish_tree(
	struct export *export, struct staging *root, struct error *error) _must_check_;

/* ---- layer.c */

int export_write_tar(
	struct export *export, const char *root, const char *to, struct error *error) _must_check_;
int export_write_layer(
	struct export *export, const char *root, const char *to, struct error *error) _must_check_;
void export_print_tar(const struct export *export);
void export_print_layer(const struct export *export);
/* The values of both operators for such nodes. */
void export_print_values(const struct export *export);

/* ---- sysext.c */

int export_stage_sysext(
	struct export *export, struct staging *root, struct error *error) _must_check_;
int export_write_sysext(
	struct export *export, const char *root, const char *to, struct error *error) _must_check_;
void export_print_sysext(const struct export *export);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the very file that a loaded module was made of can be had again: the host's module tree,
 * what an earlier image kept on the node (kept.h), and this image. A file is known by its build id.
 * Runs in workers: it reads .ko files.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "module/elf.h"

struct at_hand {
	int root_fd;
	const char *krel;
	const char *host; /* the host's root as seen from here, relative: "host"; "" for none */
	const char *kept; /* folder of kept files, relative to the root */
	/*
	 * The folder above @kept from which on all has to be root's, for nobody else to write
	 * (common/owned.h), or NULL: other containers have it, too. A kept file of which that does
	 * not hold is passed over, and told by @tell (may be NULL) with @tell_context.
	 */
	const char *kept_in;
	void (*tell)(void *context, const char *text);
	void *tell_context;
	struct strv passed_over; /* told already */
	/* Filled by the first search: module files with their paths, best place first. */
	struct strv files;
	bool listed;
};

void at_hand_free(struct at_hand *at_hand);

/*
 * Finds the file of the module @name (with '_') and @build_id into a new string, a path relative to
 * the root without links in it. -ENOENT when nothing has it, or when @build_id is "". -ENOMEM.
 */
int at_hand_find(struct at_hand *at_hand, const char *name, const char *build_id, char **ret_path);

/* Does the host's own tree have that very file? */
bool at_hand_on_host(struct at_hand *at_hand, const char *name, const char *build_id);

/* Is that path, as at_hand_find() gave it, one of the host's tree? */
bool at_hand_is_of_host(const struct at_hand *at_hand, const char *path);

/* "updates/dkms/mlx5-core.ko.xz" is of the module "mlx5_core": true with its name, '_' for '-'. */
bool at_hand_module_of(const char *path, char name[ELF_STRUCT_NAME_SIZE]);

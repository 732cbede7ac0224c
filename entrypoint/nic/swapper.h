/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the steps of the swap share: the trees that modules come from, each opened when it is first
 * asked for, and ways to bring one module. For workers.
 */
#pragma once

#include <limits.h>

#include "entrypoint/role/load.h"
#include "entrypoint/nic/at_hand.h"
#include "entrypoint/nic/nic.h"

struct swapper {
	struct action *action;
	struct nic *nic;
	const struct role *role;
	struct loader *own;  /* the image's tree; swapper_own() */
	struct loader *host; /* the host's; swapper_host() */
	struct at_hand at_hand;
	char kept[PATH_MAX];    /* folder of what earlier images loaded, of any kernel */
	char kept_of[PATH_MAX]; /* of this kernel */
	char kept_in[PATH_MAX]; /* the folder above all that this role keeps */
};

int swapper_open(struct swapper *swapper, struct action *action);
void swapper_close(struct swapper *swapper);

/* NULL with a message when the tree cannot be used. Borrowed. */
struct loader *swapper_own(struct swapper *swapper, struct error *error);
struct loader *swapper_host(struct swapper *swapper, struct error *error);

/*
 * Is the image's own build of it loaded? False for what the image lacks. Of a kernel that shows
 * neither build ids nor srcversions: what this swapper's own loader loaded.
 */
bool swapper_is_ours(struct swapper *swapper, const char *name);

/* Has the tree a file for it? */
bool swapper_tree_has(struct loader *tree, const char *name);

/*
 * Each loads one module, with those of the @options that its file takes; options that the kernel
 * refuses are given up, and told. -EEXIST when somebody else loaded another build meanwhile.
 */
/* The very build, from wherever it is at hand; what it needs is there. -ENOENT: it is nowhere. */
int swapper_bring_build(
	struct swapper *swapper, const struct swap_module *module, struct error *error);
/* The tree's, after what it depends on. -ENOENT: the tree lacks it. */
int swapper_bring(struct swapper *swapper, struct loader *tree, const char *name,
	const char *options, struct error *error);

/*
 * Unloads these and whatever holds them, all or none, as far as the kernel can be asked before.
 * What went is appended to @removed. -EBUSY with who uses one of them.
 */
int swapper_remove(struct swapper *swapper, const struct strv *names, struct strv *removed);

/* A line for people: "note" in the events. */
void swapper_tell(struct swapper *swapper, const char *format, ...) _printf_(2, 3);

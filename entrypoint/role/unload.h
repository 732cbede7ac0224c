/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unloading a set of modules, all or none: first the whole set is checked, from what the kernel
 * says of holders and references, then the modules go in the order that the holders give. Runs in a
 * worker.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/worker.h"

struct unload {
	int root_fd;
	/* What has to go; absent ones are passed over. */
	const struct strv *modules;
	/*
	 * Prefixes of the device paths whose users are named when a module is in use that has none
	 * of its own (users_patterns()); NULL-terminated.
	 */
	const char *const *device_prefixes;
	/*
	 * Whether a module outside the set that holds one of it goes too, when nobody uses it: then
	 * it is part of the order.
	 */
	bool holders_too;
};

/*
 * Works out the order of removal into @order: every module comes after the modules that hold it.
 * -EBUSY when something outside the set holds one of them or a module has references of its own;
 * @error then names module, holders and processes with their pods, and each process goes to
 * @worker, which may be NULL. Touches nothing.
 */
int unload_order(const struct unload *unload, struct worker *worker, struct strv *order,
	struct error *error);

/*
 * Checks, then removes, telling @worker of each module that went. -EBUSY, with nothing removed, as
 * unload_order() says. When the kernel refuses one in mid-course (someone took a reference after
 * the check), the modules that are gone are in @removed, in order, which the caller can load again:
 * with holders_too some of them may be of another tree than the set's.
 */
int unload_modules(const struct unload *unload, struct worker *worker, struct strv *removed,
	struct error *error);

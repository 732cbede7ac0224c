/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the kernel's own modules that a module set needs: the transitive closure over what the
 * modules themselves state ("depends", "softdep"), never a fixed list.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

struct depends {
	const char *krel;
	int kernel_fd; /* holds lib/modules/<krel>/kernel, modules.builtin … of the kernel's package
			*/
	int set_fd;    /* holds lib/modules/<krel>/updates: the modules that go into the image */
	int other_fd; /* another set, loaded from another image: what it provides is left out; -1 */
};

/*
 * Appends the kernel's modules that the set needs, as paths below lib/modules/<krel>. -ENODATA when
 * a module depends on one that neither has.
 */
int depends_closure(
	const struct depends *depends, struct strv *paths, struct error *error) _must_check_;

/*
 * Copies these, with modules.builtin, modules.builtin.modinfo and modules.order, which depmod
 * wants, to the same place below @to_fd.
 */
int depends_copy(const struct depends *depends, const struct strv *paths, int to_fd,
	struct error *error) _must_check_;

/* Appends the paths of all modules in a folder, relative to @dir_fd, sorted. */
int depends_list_modules(int dir_fd, const char *folder, struct strv *paths) _must_check_;

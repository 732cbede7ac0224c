/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel tree: what modules compile against, as the packages of any distribution or a user's own
 * build leave it. The tree must work wherever it lies, so what was made absolute is made relative
 * here. A root holds lib/modules/<krel>/{build,source} and whatever they point to.
 */
#pragma once

#include "common/error.h"

/* In a Makefile: the folder that it lies in, with a slash. */
#define KERNEL_TREE_HERE "$(dir $(lastword $(MAKEFILE_LIST)))"

/*
 * Makes the tree in @root_fd complete and movable:
 * - lib/modules/<krel>/build is found where the packages bring no such link: Debian's, Ubuntu's
 *   and Photon's usr/src/linux-headers-*, Enterprise Linux's usr/src/kernels/<krel>, SUSE's
 *   usr/src/linux-*-obj/<arch>/<flavour>; usr/lib/modules counts as lib/modules;
 * - absolute links become relative ones to the same place below the root; "source" links that
 *   lead nowhere go;
 * - absolute paths of a generated Makefile (Debian, SUSE, make O=) become relative.
 * Doing it again changes nothing. -ENOENT when no tree of @krel is there, -EINVAL when the Makefile
 * needs a source tree that is not.
 */
int kernel_tree_relocate(int root_fd, const char *krel, struct error *error) _must_check_;

/*
 * Makes lib/modules/<krel> lead to usr/lib/modules/<krel> where only that is there: packages of
 * distributions with a merged /usr. For the kernel's own modules too.
 */
int kernel_tree_settle_modules(int root_fd, const char *krel, struct error *error) _must_check_;

/* Opens lib/modules/<krel>/build; links never lead out of the root. The caller closes it. */
int kernel_tree_open(int root_fd, const char *krel, int *ret_fd, struct error *error) _must_check_;

/* The text that a header defines @name as, freed by the caller; NULL when it does not. */
char *kernel_tree_defined(const char *text, const char *name);

#define KERNEL_TREE_RELEASE_HEADER "include/generated/utsrelease.h"

/* The release that modules get (UTS_RELEASE), freed by the caller; NULL when not prepared. */
char *kernel_tree_release(int build_fd);

/* Returns that kernel build's uname -v (UTS_VERSION), freed by the caller; or NULL. */
char *kernel_tree_version(int build_fd);

/*
 * The architecture, as uname -m prints it, that the programs of the tree in
 * lib/modules/<krel>/build (fixdep, modpost, objtool) run on; "" when there are none.
 */
const char *kernel_tree_tools_arch(int root_fd, const char *krel);

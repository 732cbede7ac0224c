/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The userspace of NVIDIA's driver in a GPU image, judged before anything is compiled: what
 * --userspace names, and what there is without it. containers/recipes/userspace.sh arranges it.
 */
#pragma once

#include "cli/stage/build.h"

/*
 * Is @text a folder in which NVIDIA's installer was unpacked, with all that the recipe wants of it?
 * -EINVAL with what is wrong. The caller frees *ret and *ret_version, "595.58.03".
 */
int userspace_open(
	const char *text, struct source *ret, char **ret_version, struct error *error) _must_check_;

/*
 * Is --userspace of the version that the modules will be of? The lock or their source tells; an
 * archive is unpacked for it. -EINVAL when not; on failure build->context.failure is the exit code.
 */
int userspace_check_version(struct build *build, struct error *error) _must_check_;

/* Says what a GPU image will lack of the userspace. */
int userspace_say_lacks(struct build *build, struct error *error) _must_check_;

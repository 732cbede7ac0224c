/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module set on the node's disk consists of, written down when it was made: a set that a
 * disk or a person changed since is not one to load. One line for each file and link, "<kind>
 * <hash> <size> <path>", sorted; the hash (FNV-1a, 64 bits) is of a file's content or a link's
 * target. It finds damage, not malice: whoever can write here is root on the node, which is seen
 * to: a file or folder that is not root's, or that others may write to, is damage as well.
 */
#pragma once

#include "common/error.h"

#define CONTENTS_FILE "contents"

/*
 * Writes the list of all that is below @set_fd, beside it, and makes all of it root's, for nobody
 * else to write.
 */
int contents_write(int set_fd);

/*
 * 0 when the set is what was written down; -EBADMSG when it is not, with the first path that
 * differs in @error; -ENOENT without a list.
 */
int contents_check(int set_fd, struct error *error);

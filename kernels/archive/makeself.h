/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's installer, NVIDIA-Linux-<machine>-<version>.run: a shell script of Makeself 1.6.0-nv2
 * (2012) or later, and behind it a packed tarball. It is read, and never run. Source: makeself.sh,
 * which the installer itself has (390.48): its second and third line are the checksums of all that
 * follows them, "skip=" is the number of the line that the tarball begins with.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

/* The header's first lines; "" for values that they lack. */
struct makeself {
	char version[32]; /* of the driver */
	char machine[32]; /* as uname -m has it */
	bool has_md5;     /* false: zeros in its place, makeself_seek() checks nothing by it */
};

/*
 * Reads the first lines of @fd: 0 and @ret when it is such an installer, -ENOEXEC when it is
 * something else. The position of @fd stays; other errnos are those of reading.
 */
int makeself_read(int fd, struct makeself *ret) _must_check_;

/* Checks the whole file, and leaves @fd where the tarball begins. -EBADMSG for one that is damaged.
 */
int makeself_seek(int fd, const char *path, struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/* The files of modprobe.d, as modprobe would read them on a system whose root lies below ours. */
#pragma once

#include <stddef.h>

#include "common/error.h"

struct modprobe_folder {
	const char *top;  /* links start from it: "" for root_fd, else below root_fd, or absolute */
	const char *path; /* below @top */
};

/*
 * @path: the file, perhaps a link. @text: its content, which may be changed; NULL where it cannot
 * be read, with a negative errno in @r. Returns 0, or a negative errno that ends the reading.
 */
typedef int modprobe_file_fn(void *data, const char *path, char *text, int r);

/*
 * Calls @each for the files, by their names (modprobe.d(5)): the first folder that has one of a
 * name hides others. A link that leads nowhere, which modprobe ignores, hides them too: it is one
 * to /dev/null in a container that has no part but /etc of the host.
 */
int modprobe_d_read(int root_fd, const struct modprobe_folder *folders, size_t count,
	modprobe_file_fn *each, void *data) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SELinux labels of files that a container makes for its host: a privileged pod's own type would
 * keep the host's services from reading them. Nothing is done where files have no labels.
 */
#pragma once

#include "common/error.h"

/*
 * Gives @path (relative to @root_fd, a symbolic link itself, not what it leads to) the label of the
 * first regular file in the folder @like, or of that folder.
 */
int label_copy(int root_fd, const char *path, const char *like, struct error *error);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings for fabric manager from the pod's environment: NVFM_CONFIG_<field>=<value> becomes
 * "<field>=<value>" in fabricmanager.cfg, in the place of a line that sets the field already, else
 * at the end (source: gpu-driver-container's ubuntu24.04/nvidia-driver).
 */
#pragma once

#include "common/error.h"

#define FM_CONFIG          "usr/share/nvidia/nvswitch/fabricmanager.cfg"
#define FM_VARIABLE_PREFIX "NVFM_CONFIG_"

/*
 * Returns @text with the settings of @environment (NULL-terminated, "NAME=value") in it, or NULL
 * without memory. A setting whose field is no name (empty, or with other bytes than letters,
 * digits and '_'), or whose value has a line break, is left out and counted in *ret_ignored.
 */
char *fm_config_merge(
	const char *text, char *const *environment, unsigned *ret_set, unsigned *ret_ignored);

/*
 * Does the same to the file. *ret_set is how many settings there are. -ENOENT when there are
 * settings and no file: the image has no fabric manager.
 */
int fm_config_apply(int root_fd, char *const *environment, unsigned *ret_set, unsigned *ret_ignored,
	struct error *error);

/* The value of a field in the file to @value, "" when it is not set. */
void fm_config_value(int root_fd, const char *field, char *value, size_t size);

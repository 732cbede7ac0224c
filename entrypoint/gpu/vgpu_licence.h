/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vGPU guest's licence: what the operator mounts below /drivers goes where nvidia-gridd looks
 * (source: gpu-driver-container's ubuntu24.04/nvidia-driver, gpu-operator's driver_volumes.go).
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

#define GRIDD_CONF  "etc/nvidia/gridd.conf"
#define GRIDD_TOKEN "etc/nvidia/ClientConfigToken"

/*
 * Copies gridd.conf and, @with_token, the client configuration tokens. *ret_conf says whether there
 * was one, *ret_tokens how many: their absence is the administrator's choice, and no error.
 */
int vgpu_licence_place(
	int root_fd, bool with_token, bool *ret_conf, unsigned *ret_tokens, struct error *error);

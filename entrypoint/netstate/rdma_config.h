/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of RDMA devices' ports that rdma_cm has in configfs, as a folder for each device that a
 * user makes: <device>/ports/<port>/default_roce_mode, default_roce_tos (Linux
 * Documentation/ABI/testing/configfs-rdma_cm, drivers/infiniband/core/cma_configfs.c). The settings
 * stay when the folder goes, which holds a reference on rdma_cm.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

#define RDMA_NAME_SIZE 64 /* IB_DEVICE_NAME_MAX of include/rdma/ib_verbs.h */

#define RDMA_CONFIG_MODE "default_roce_mode" /* "IB/RoCE v1" or "RoCE v2" */
#define RDMA_CONFIG_TOS  "default_roce_tos"  /* 0 to 255 */

struct rdma_config {
	int fd; /* rdma_config_open()'s, not closed by rdma_config_end() */
	char folder[sizeof("rdma_cm/") + RDMA_NAME_SIZE];
	bool is_made; /* by rdma_config_begin(): it was not there before */
};

/*
 * Opens configfs in the visible /sys or, if that lacks it as in a container, in a detached mount.
 * The caller closes it. -ENOENT: rdma_cm is not loaded, or has no settings. Other negative errnos:
 * the mount is refused.
 */
int rdma_config_open(int root_fd);

/* Makes the device's folder. False: rdma_cm does not know the device. */
bool rdma_config_begin(struct rdma_config *config, int fd, const char *device);
/*
 * Removes it, also where it was there before: with it rdma_cm could not be unloaded. A run that was
 * killed has left it, or somebody whose settings stay.
 */
void rdma_config_end(struct rdma_config *config);

/* The caller frees the line. -ENOENT: the device has no such port. */
int rdma_config_read(const struct rdma_config *config, const char *port, const char *setting,
	char **ret) _must_check_;
int rdma_config_write(const struct rdma_config *config, const char *port, const char *setting,
	const char *value) _must_check_;

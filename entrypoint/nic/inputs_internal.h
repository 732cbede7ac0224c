/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network operator tells the NIC container: its argument and its environment (contract.h
 * has the names; Mellanox/doca-driver-build entrypoint/internal/config/config.go the defaults).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/log.h"

/* ENABLE_NFSRDMA: what the stock container loads then, which has both transports in one module. */
#define NIC_NFSRDMA_MODULE "rpcrdma"

enum nic_mode { NIC_PRECOMPILED, NIC_SOURCES };

/* As the argument says it. */
const char *nic_mode_name(enum nic_mode mode);

struct nic_inputs {
	enum nic_mode mode;
	bool unload_storage;     /* UNLOAD_STORAGE_MODULES */
	bool unload_third_party; /* UNLOAD_THIRD_PARTY_RDMA_MODULES */
	bool ifnames_rule;       /* CREATE_IFNAMES_UDEV */
	bool nfsrdma;            /* ENABLE_NFSRDMA */
	/* Names of modules, '_' for '-'. */
	struct strv storage;     /* STORAGE_MODULES */
	struct strv third_party; /* THIRD_PARTY_RDMA_MODULES */
	struct strv auxiliary;   /* MLX5_AUXILIARY_MODULES */
	struct strv blacklist;   /* OFED_BLACKLIST_MODULES */
	/* Paths relative to the root. */
	char *ready_file;     /* DRIVER_READY_PATH */
	char *lock_file;      /* LOCK_FILE_PATH */
	char *drivers_mount;  /* MLX_DRIVERS_MOUNT */
	char *sources;        /* SHARED_KERNEL_HEADERS_DIR: what is shown to the GPU side */
	char *shown_sources;  /* where: that path below drivers_mount */
	char *udev_rules;     /* MLX_UDEV_RULES_FILE */
	char *blacklist_file; /* OFED_BLACKLIST_MODULES_FILE */
	char *inventory;      /* NVIDIA_NIC_DRIVERS_INVENTORY_PATH, or "" */
	uint32_t bind_ms;     /* BIND_DELAY_SEC, an upper bound here */
	/*
	 * Where journals go that have to outlive a power loss: below the inventory, which is a
	 * folder of the host's disk; NIC_STATE_FOLDER, in memory, when there is none.
	 */
	char *journal_folder;
	bool journal_on_disk;
	/* Not on disk because that folder is not root's alone: "" or what is wrong, in words. */
	char distrusted[256];
};

/*
 * Reads the environment and the arguments after the program's name, NULL for none ("precompiled",
 * "sources"). -EINVAL for a value that is none, naming it. Makes the journals' folder
 * in an inventory that has none. nic_inputs_free() in any case.
 */
int nic_inputs_read(
	struct nic_inputs *inputs, int root_fd, char *const *arguments, struct error *error);
void nic_inputs_free(struct nic_inputs *inputs);

/* Says of each variable that was set and has no use here why that is so. */
void nic_inputs_tell(const struct nic_inputs *inputs, struct log *log);

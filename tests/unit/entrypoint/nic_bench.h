/* SPDX-License-Identifier: Apache-2.0 */
/* A NIC container on a node that is a folder. */
#pragma once

#include "entrypoint/nic/nic_internal.h"
#include "tests/unit/node_folder.h"

static char nic_inventory[] = "inventory/.slipway";

struct bench {
	struct nic nic;
	struct action action;
	struct module_lookup lookup;
};

static inline void open_bench(struct bench *bench, const struct folder *folder)
{
	*bench = (struct bench){ .nic = { .inputs = { .journal_folder = nic_inventory } } };
	bench->nic.role.root_fd = folder->fd;
	bench->nic.role.host_root = "/host";
	(void) snprintf(bench->nic.role.krel, sizeof(bench->nic.role.krel), "%s", KREL);
	bench->action.role = &bench->nic;
	bench->lookup.action = &bench->action;
}

static inline void close_bench(struct bench *bench)
{
	module_lookup_free(&bench->lookup);
}

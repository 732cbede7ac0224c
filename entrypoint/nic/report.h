/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC role's report about itself, in addition to its state: NIC_REPORT_PATH, for status and
 * metrics, while it serves. Lines of "key=value"; a key may stand more than once.
 *
 *   mode=precompiled                  the container's argument
 *   swap=same                         nothing was touched; "loaded": nothing had to go; "swapped"
 *   unloaded=ib_core                  a module that was unloaded for the swap, one a line
 *   missing=ib_iser: …                one of them that could not be reloaded, and why
 *   unrestored=ens1f0: …              a part of the network's state that could not be restored
 *   parameters=mlx5_core prof_sel=2   what a module was loaded with, where that is anything
 *   replaced=mlx5_core: …             a module that was unloaded or replaced since
 */
#pragma once

#include "common/strv.h"
#include "entrypoint/role/roles.h"

#define NIC_REPORT_PATH NIC_STATE_FOLDER "/nic.report"

enum nic_report_list {
	NIC_REPORT_UNLOADED,
	NIC_REPORT_MISSING,
	NIC_REPORT_UNRESTORED,
	NIC_REPORT_PARAMETERS,
	NIC_REPORT_REPLACED,
	NIC_REPORT_LISTS,
};

struct nic_report {
	char mode[16];
	char swap[16];
	struct strv lists[NIC_REPORT_LISTS];
};

/* A key of the file, and of the JSON object. */
const char *nic_report_key(enum nic_report_list list);

/* -ENOENT when the role does not serve. nic_report_free() in any case. */
int nic_report_read(int root_fd, struct nic_report *report);
int nic_report_write(int root_fd, const struct nic_report *report);
void nic_report_free(struct nic_report *report);

// SPDX-License-Identifier: GPL-2.0
/* What ENABLE_NFSRDMA asks for, by its name and nothing more. */
#include <linux/module.h>

MODULE_DESCRIPTION("Test module: compiled when NFS/RDMA is asked for");
MODULE_LICENSE("GPL");

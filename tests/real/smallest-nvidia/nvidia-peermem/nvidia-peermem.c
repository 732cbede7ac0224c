// SPDX-License-Identifier: Apache-2.0
#include <linux/module.h>

#include "../nvidia/nv-p2p.h"
#include "peer_mem.h"

static int __init peermem_init(void)
{
#ifdef HAVE_PEER_MEMORY
	ib_register_peer_memory_client();
	ib_unregister_peer_memory_client();
#endif
	return nvidia_p2p_get_pages();
}
module_init(peermem_init);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Uses a symbol of nvidia and two of OFED's");

// SPDX-License-Identifier: Apache-2.0
#include <linux/module.h>

#include "nv-p2p.h"

int nvidia_p2p_get_pages(void)
{
	return 0;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Exports a symbol and does nothing");

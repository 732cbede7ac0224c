/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as PCI configuration space, cut anywhere: what is found is inside, and lists end. */
#include <errno.h>
#include <linux/pci_regs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/role/pci_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned ids[] = { PCI_CAP_ID_EXP, PCI_CAP_ID_VNDR, 0 };
	size_t cut = size < PCI_CONFIG_SIZE_EXP ? size : PCI_CONFIG_SIZE_EXP;
	/* A block of exactly that size, for the sanitiser. */
	unsigned char *config = malloc(cut + !cut);
	int acs;

	if (!config)
		return 0;
	memcpy(config, data, cut);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		size_t at = pci_config_find(config, cut, ids[i], 4);
		size_t extended = pci_config_find_extended(config, cut, ids[i], 8);

		if (at && (at < PCI_STD_HEADER_SIZEOF || at + 4 > PCI_CONFIG_SIZE))
			abort();
		if (extended && (extended < PCI_CONFIG_SIZE || extended + 8 > cut))
			abort();
	}
	acs = pci_config_acs_control(config, cut);
	if (acs != -ENODATA && (acs < 0 || acs > 0xffff))
		abort();
	free(config);
	return 0;
}

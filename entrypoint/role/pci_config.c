/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/pci_config.h"

#include <errno.h>
#include <linux/pci_regs.h>

static unsigned read16(const unsigned char *bytes)
{
	return bytes[0] | (unsigned) bytes[1] << 8;
}

size_t pci_config_find(const unsigned char *config, size_t size, unsigned id, size_t length)
{
	size_t at;

	if (size < PCI_CONFIG_SIZE || !(config[PCI_STATUS] & PCI_STATUS_CAP_LIST))
		return 0;
	at = config[PCI_CAPABILITY_LIST] & ~3u;
	/* A list has no more entries than fit; one that is longer is a circle. */
	for (size_t left = PCI_CONFIG_SIZE / 4; left && at >= PCI_STD_HEADER_SIZEOF; left--) {
		if (config[at + PCI_CAP_LIST_ID] == 0xff) /* nothing answers there */
			return 0;
		if (config[at + PCI_CAP_LIST_ID] == id)
			return at + length <= PCI_CONFIG_SIZE ? at : 0;
		at = config[at + PCI_CAP_LIST_NEXT] & ~3u;
	}
	return 0;
}

size_t pci_config_find_extended(
	const unsigned char *config, size_t size, unsigned id, size_t length)
{
	size_t at = PCI_CONFIG_SIZE;

	/* An entry is eight bytes or more, with its header. */
	for (size_t left = PCI_CONFIG_SIZE_EXP / 8; left && at >= PCI_CONFIG_SIZE; left--) {
		if (at + 4 > size)
			return 0;
		if (read16(config + at) == id)
			return at + length <= size ? at : 0;
		at = read16(config + at + 2) >> 4 & 0xffc;
	}
	return 0;
}

int pci_config_acs_control(const unsigned char *config, size_t size)
{
	size_t at;

	if (size < PCI_CONFIG_SIZE || read16(config) == 0xffff)
		return -ENODATA;
	/* A conventional bridge has no extended space. */
	if (!pci_config_find(config, size, PCI_CAP_ID_EXP, 2))
		return 0;
	if (size < PCI_CONFIG_SIZE_EXP)
		return -ENODATA;
	at = pci_config_find_extended(config, size, PCI_EXT_CAP_ID_ACS, PCI_ACS_CTRL + 2);
	return at ? (int) read16(config + at + PCI_ACS_CTRL) : 0;
}

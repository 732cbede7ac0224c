/* SPDX-License-Identifier: GPL-2.0 */
/* Included at the end of netdevsim's bus.c, whose functions are static: see simnet.c. */
#pragma once

int simnet_new_device(unsigned int id, unsigned int port_count)
{
	char text[32];

	return new_device_store(
		&nsim_bus, text, scnprintf(text, sizeof(text), "%u %u", id, port_count));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The udev rules that keep the names of network interfaces while their driver is replaced. One
 * driver says which port of its device an interface is (phys_port_name), another does not, and udev
 * makes another name of it: ens1f0 becomes ens1f0np0, and the host's network configuration no
 * longer fits (systemd src/udev/udev-builtin-net_id.c).
 *
 * Each interface that is there now keeps its name: a rule for its place in /sys, its port on that
 * device. For ports that come later there is a general rule where no interface has "np0" in its
 * name today. It lets udev make the name without the port, by any of its policies (ONBOARD, SLOT,
 * PATH); systemd 255 and later know that word, others pass over it. Nothing runs a program.
 */
#pragma once

#include "common/error.h"
#include "common/strv.h"

struct name_rules {
	int root_fd;
	const struct strv *modules; /* interfaces whose drivers are of these ('_' in their names) */
	struct strv *notes;         /* what the caller should tell gets appended */
};

/* Writes the rules file's text to a new string. */
int name_rules_make(const struct name_rules *rules, char **ret_text, struct error *error);

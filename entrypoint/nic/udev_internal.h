/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's udev: rules that keep the names of network interfaces while their driver is replaced,
 * and how udevd is told to read what was written.
 *
 * One driver says which port of its device an interface is (phys_port_name), another does not, and
 * udev makes another name of it: ens1f0 becomes ens1f0np0, and the host's network configuration no
 * longer fits (systemd src/udev/udev-builtin-net_id.c).
 *
 * Each interface that is there now keeps its name: a rule for its place in /sys, its port on that
 * device. For ports that come later there is a general rule where no interface has "np0" in its
 * name today. It lets udev make the name without the port, by any of its policies (ONBOARD, SLOT,
 * PATH); systemd 255 and later know that word, others pass over it. Nothing runs a program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"

struct name_rules {
	int root_fd;
	const struct strv *modules; /* interfaces whose drivers are of these ('_' in their names) */
	struct strv *notes;         /* what the caller should tell gets appended */
};

/* Writes the rules file's text to a new string. */
int name_rules_make(const struct name_rules *rules, char **ret_text, struct error *error);

/*
 * The host's udevd looks at the times of its folders of rules, and of libkmod's folders, when an
 * event comes and three seconds have passed since it looked last (systemd
 * src/udev/udev-manager.c, event_queue_start()). A file that is to be heard by the next event has
 * to be announced.
 */

/* What udevd cannot be told it finds by itself in that time. */
#define UDEVD_LOOK_MS 3000

/*
 * Asks udevd to read its files anew and waits until it says that it did, at most @limit_ms. True
 * when it did, or when there is no udevd that could: no socket of its own below /run/udev. Its
 * sockets are /run/udev/io.systemd.Udev, varlink, which newer ones have, and /run/udev/control.
 */
bool udevd_reload(int root_fd, uint32_t limit_ms);

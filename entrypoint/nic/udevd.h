/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's udevd looks at the times of its folders of rules, and of libkmod's folders, when an
 * event comes and three seconds have passed since it looked last (systemd
 * src/udev/udev-manager.c, event_queue_start()). A file that is to be heard by the next event has
 * to be announced.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What udevd cannot be told it finds by itself in that time. */
#define UDEVD_LOOK_MS 3000

/*
 * Asks udevd to read its files anew and waits until it says that it did, at most @limit_ms. True
 * when it did, or when there is no udevd that could: no socket of its own below /run/udev. Its
 * sockets are /run/udev/io.systemd.Udev, varlink, which newer ones have, and /run/udev/control.
 */
bool udevd_reload(int root_fd, uint32_t limit_ms);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which module exports a symbol in the running kernel, by /proc/kallsyms. The kernel formats some
 * 100,000 lines for it (50 ms on a server, 150 ms under emulation) and module symbols come last:
 * ask once, when nothing cheaper can tell, and never in a loop.
 */
#pragma once

#include <stddef.h>

#include "common/strv.h"

/* Hears of @symbol, which @owner exports ("vmlinux": it is global there). Non-zero ends the search.
 */
typedef int kallsyms_listener(void *context, const char *symbol, const char *owner);

/*
 * Calls @listener for each of @symbols that somebody exports, and returns what it returned last; a
 * negative errno when the file cannot be read.
 */
int kallsyms_search(int root_fd, const struct strv *symbols, kallsyms_listener *listener,
	void *context) _must_check_;

/*
 * Writes the name of the exporter of one symbol to @owner. -ENOENT when nobody exports it, other
 * negative errno when the file cannot be read.
 */
int kallsyms_exporter(int root_fd, const char *symbol, char *owner, size_t size) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the running kernel shows of its modules in /sys/module: state, use, holders, identity.
 * All of it is relative to a root descriptor. Names use '_'.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strv.h"
#include "module/elf.h"

/* Present and done with its init function ("live"); a built-in one counts as live. */
bool sysmodule_is_live(int root_fd, const char *name);
/* There in any state: coming, live or going. Built-in ones too. */
bool sysmodule_exists(int root_fd, const char *name);
/* Part of the kernel itself: it has a folder (for its parameters) but no state. */
bool sysmodule_is_built_in(int root_fd, const char *name);

/* References to the module, holders included; -ENOENT without the module or MODULE_UNLOAD. */
int sysmodule_references(int root_fd, const char *name);

/* Appends the modules that use it, sorted; an absent module has none. */
int sysmodule_holders(int root_fd, const char *name, struct strv *holders) _must_check_;

/* Appends the loaded modules, in any state, sorted: of /proc/modules, else those with an initstate.
 */
int sysmodule_list(int root_fd, struct strv *names) _must_check_;

/*
 * The GNU build id of the loaded module in lower-case hex, from its notes, or "" when it is not
 * known. It identifies the very file that was loaded, also where srcversion is missing (that needs
 * MODULE_VERSION or CONFIG_MODULE_SRCVERSION_ALL).
 */
void sysmodule_build_id(int root_fd, const char *name, char hex[BUILD_ID_HEX_SIZE]);

#define BUILD_ID_SIZE ((BUILD_ID_HEX_SIZE - 1) / 2)

/* The bytes of the build id in @size bytes of ELF notes, and how many there are; 0: none. */
size_t build_id_of_notes(const char *notes, size_t size, unsigned char id[BUILD_ID_SIZE]);

/*
 * True when the kernel shows the module's sections (/sys/module/<name>/sections, for root) and none
 * is a table of exported symbols. False also where nothing is known.
 */
bool sysmodule_exports_nothing(int root_fd, const char *name);

/* ---- /proc/kallsyms */

/*
 * Which module exports a symbol in the running kernel, by /proc/kallsyms. The kernel formats some
 * 100,000 lines for it (50 ms on a server, 150 ms under emulation) and module symbols come last:
 * ask once, when nothing cheaper can tell, and never in a loop.
 */

/* Gets @symbol, which @owner exports ("vmlinux": it is global there). Non-zero ends the search. */
typedef int kallsyms_listener(void *context, const char *symbol, const char *owner);

/*
 * Calls @listener for each of @symbols that are exported, and returns what it returned last; a
 * negative errno when the file cannot be read.
 */
int kallsyms_search(int root_fd, const struct strv *symbols, kallsyms_listener *listener,
	void *context) _must_check_;

/*
 * Writes the name of the exporter of one symbol to @owner. -ENOENT when nothing exports it, other
 * negative errno when the file cannot be read.
 */
int kallsyms_exporter(int root_fd, const char *symbol, char *owner, size_t size) _must_check_;

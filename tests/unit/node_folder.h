/* SPDX-License-Identifier: Apache-2.0 */
/* A node in a folder, for the tests of module/running*.c. */
#pragma once

#include "tests/unit/support.h"

#include "common/fs.h"
#include "module/running.h"

#define KREL     "6.1.0-1-test"
#define VERMAGIC KREL " SMP preempt mod_unload modversions "
#define REGISTER "ib_register_peer_memory_client"
#define FACTS    KERNEL_FACTS_FOLDER "/" KREL "/" KERNEL_FACTS_FILE
#define SYMVERS  "symvers"
#define BUILD_ID "0123456789abcdef0123456789abcdef01234567"

#define _cleanup_running_ _cleanup_(running_close)
#define _cleanup_module_  _cleanup_(elf_module_close)

/* A node: what a test leaves out is as it is on a plain one. */
struct node {
	const struct folder *folder;
	struct running_sources sources;
	const struct elf_module *modules[1];
	struct strv symvers, trees;
};

/* The build id of a loaded module, ending in @last. */
void write_note(const struct folder *folder, const char *module, unsigned char last);
void copy_fixture(const struct folder *folder, const char *fixture, const char *to);
/* The indexes of lib/modules/KREL below the folder @top of it, "" for itself. */
void run_depmod(const struct folder *folder, const char *top);
void write_facts(const struct folder *folder, const char *build);
/* An OFED's ib_uverbs is loaded; its file is in the tree "host", and its build id ends in @last. */
void load_uverbs(const struct folder *folder, unsigned char last);
/* @peer: the fixture that is to be loaded; the caller closes it after the node. */
void node_init(struct node *node, const struct folder *folder, struct elf_module **peer);
struct running *node_folder_run(struct node *node);
void node_done(struct node *node);
/* @exporter: NULL for none. @crc: -1 for one that is not known. */
void expect_exporter(
	const struct running *running, const char *symbol, const char *exporter, long crc);

/* SPDX-License-Identifier: Apache-2.0 */
/* A fixture before the load proof, with the exports of a kernel that it was built for. */
#pragma once

#include "tests/unit/mutant.h"

#define VERMAGIC "6.1.0-1-test SMP preempt mod_unload modversions "

#define LAYOUT "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PRINTK "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PEER   "0x8e6daf35\tib_register_peer_memory_client\t/b/ib-uverbs\tEXPORT_SYMBOL\t\n"
#define ALL    LAYOUT PRINTK PEER

#define _cleanup_proof_   _cleanup_(proof_free)
#define _cleanup_symvers_ _cleanup_(symvers_close)

/* Proves a fixture as it is. @exports: of a Module.symvers; NULL: none. The caller frees it. */
struct proof prove(const struct folder *folder, const char *fixture, const char *exports,
	struct proof_kernel kernel);

/* Proves, and looks for one finding; with NULL for @id the module has to load without any but
 * notes. */
void expect(const struct folder *folder, const struct mutant *mutant, const char *exports,
	struct proof_kernel kernel, const char *id, enum proof_weight weight, int answer);
/* The same of a fixture as it is. */
void expect_plain(const struct folder *folder, const char *fixture, const char *exports,
	struct proof_kernel kernel, const char *id, enum proof_weight weight, int answer);

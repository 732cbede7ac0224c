/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof in its first form: will the kernel take this module? It follows the kernel's own
 * checks (Linux kernel/module/version.c: check_version(), same_magic()) over a .ko and the symbol
 * versions of everything that will be loaded before it.
 */
#pragma once

#include "common/strv.h"
#include "module/elf_module.h"
#include "module/symvers.h"

enum proof_verdict {
	PROOF_WILL_LOAD,
	PROOF_WILL_NOT_LOAD,
	PROOF_CANNOT_TELL, /* it hangs on an option of the kernel: to be treated as a refusal */
};

struct proof {
	enum proof_verdict verdict;
	/* One finished sentence a finding, worst first: symbol, both CRCs, who exports it. */
	struct strv findings;
};

/*
 * Compares one module with the kernel whose vermagic is @vermagic (as .modinfo of that kernel's own
 * modules states it) and whose exports, with those of the modules loaded before, are @symvers.
 * Returns 0 with the verdict in @proof, which the caller frees, or -ENOMEM.
 */
int proof_module(const struct elf_module *module, const char *vermagic,
	const struct symvers *symvers, struct proof *proof);
void proof_free(struct proof *proof);

const char *proof_verdict_text(enum proof_verdict verdict);

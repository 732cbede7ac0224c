/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel, the programs that load modules and NVIDIA's drivers say when a module does not
 * load, and what it means for a build. Sources of the texts: Linux 3.10 to 7.2 (kernel/module*,
 * kernel/module_signature.c, crypto/asymmetric_keys, certs, security/lockdown), kmod, BusyBox,
 * NVIDIA's open kernel modules.
 */
#pragma once

#include <stddef.h>

/* Which input of the build was wrong. */
enum explain_input {
	EXPLAIN_KERNEL,    /* --kernel: compiled against another kernel */
	EXPLAIN_OFED,      /* --ofed: compiled against another OFED */
	EXPLAIN_NVIDIA,    /* --nvidia: the driver source */
	EXPLAIN_SYMBOL,    /* --kernel, --ofed or --nvidia: by who has the symbol */
	EXPLAIN_COMPILER,  /* the compiler, and what comes with it */
	EXPLAIN_LICENCE,   /* the driver source's licence */
	EXPLAIN_SIGNATURE, /* slipway sign: the key or the hash */
	EXPLAIN_ARCH,      /* --arch */
	EXPLAIN_FILE,      /* the module file was damaged or cut on its way */
	EXPLAIN_OPTIONS,   /* parameters in modprobe.d */
	EXPLAIN_USERSPACE, /* libraries and firmware of another version */
	EXPLAIN_NODE,      /* no input: what runs on the node, or its hardware */
};

/* The more a message tells, the higher; what tells less joins what tells more of the same. */
enum explain_rank {
	EXPLAIN_RESULT, /* only that it failed: the errno of a loader */
	EXPLAIN_HINT,   /* a kernel message with several causes */
	EXPLAIN_CAUSE,
};

/*
 * In patterns and texts, {name} stands for a field: module, symbol, number, word (without blanks)
 * or text (as far as the rest of the pattern allows), which may have a digit at the end. Letters
 * match in either case. {owner} in a remedy is what to do about who has the symbol.
 */
struct explain_entry {
	const char *id; /* stable; docs/explain.md lists them */
	const char *pattern;
	enum explain_rank rank;
	enum explain_input input;
	const char *because;
	const char *remedy; /* NULL: {owner} alone */
};

extern const struct explain_entry explain_table[];
extern const size_t explain_table_count;

const char *explain_input_text(enum explain_input input);

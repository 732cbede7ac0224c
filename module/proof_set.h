/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof of modules that go to one kernel together: each against the kernel and the others,
 * an order in which all load, and what only shows between them (Linux kernel/module/main.c:
 * verify_exported_symbols(), resolve_symbol(); kmod's depends and softdep).
 */
#pragma once

#include "module/proof.h"

struct proof_member {
	const struct elf_module
		*module; /* NULL: it could not be opened, and proof says so already */
	const char *path;
	struct proof proof; /* filled by proof_set_run(), but of those without a module */
};

struct proof_set {
	/* In; borrowed. */
	const struct proof_kernel *kernel;
	struct proof_member *members; /* the array is the caller's */
	size_t member_count;
	/* Names ('_') of the kernel's modules that are there, built-in ones too; NULL: symvers'. */
	const struct strv *kernel_modules;
	/* Whether lib/firmware has a name of .modinfo's "firmware"; NULL: not judged. */
	bool (*firmware_there)(void *context, const char *name);
	void *firmware_context;
	const struct strv *options; /* "module parameter[=value] …" as in modprobe.d; NULL: none */
	unsigned int jobs;          /* threads; 0 is 1 */

	/* Out. */
	struct strv order; /* paths of those that load, each after what it needs */
	/*
	 * Names ('_') of modules outside the set that those that load use, sorted: the kernel's
	 * own, or what symvers has besides. That they will load, and before the set, is taken for
	 * granted.
	 */
	struct strv relied;
	struct proof findings;            /* of the set as a whole */
	enum proof_verdict verdict;       /* of the set and all members: the worst */
	size_t loading, refused, unknown; /* members by verdict */
};

/* 0, or a negative errno with a message; a bad verdict is no error. */
int proof_set_run(struct proof_set *set, struct error *error) _must_check_;

/* What was filled, the members' proofs too; not the members' modules. */
void proof_set_free(struct proof_set *set);

/* SPDX-License-Identifier: Apache-2.0 */
/* Module files for the load proof's tests: fixtures with some bytes replaced by as many others. */
#pragma once

#include "module/elf.h"
#include "module/proof.h"
#include "tests/unit/support.h"

struct mutant {
	char *data;
	size_t size;
	struct elf_module *module;
};

/*
 * Reads a fixture and replaces each occurrence of changes[0] by changes[1], of changes[2] by
 * changes[3] …, up to a NULL; each has to be there, and both as long. NULL: as it is. @tail, of
 * @tail_size bytes, comes behind. Fails the test when it cannot.
 */
void mutant_make(struct mutant *mutant, const char *fixture, const char *const *changes,
	const void *tail, size_t tail_size);
void mutant_free(struct mutant *mutant);

#define _cleanup_mutant_ _cleanup_(mutant_free)

/* A kernel's symvers of this text. The caller closes it. */
struct symvers *symvers_of(const struct folder *folder, const char *text);

/* The one with this id, or NULL. */
const struct proof_finding *finding_of(const struct proof *proof, const char *id);
/* It is there, with that weight and answer. */
void assert_finding(
	const struct proof *proof, const char *id, enum proof_weight weight, int answer);

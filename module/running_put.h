/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One symbol that the running kernel may export, and who tells of it: the kernel's symvers, a
 * module's file, the word of whoever loaded it, a driver's own symvers. What is found is put into
 * running->there. Those that return int: 1 for found, 0 for not there as far as is known, -ENOMEM.
 */
#pragma once

#include "module/running_parts.h"

/* Has it no export at all, by its sections in sysfs? Asked once of each. */
bool running_exports_nothing(const struct running *running, struct loaded *loaded);
/* Does who loaded it say that it is of the build that driver_symvers are of? Asked once of each. */
bool running_is_vouched_for(const struct running *running, struct loaded *loaded);

/*
 * What a driver's own symvers says of a loaded module that no file explains, or NULL; borrowed.
 * @hash: of the symbol, as symvers_find_hashed() wants it, here and below.
 */
const struct symvers_entry *running_find_driver_entry(const struct running *running,
	const char *symbol, uint32_t hash, struct loaded **ret_loaded);

/* By what the kernel's symvers says of the symbol. */
int running_put_given(struct running *running, const char *symbol, uint32_t hash) _must_check_;
/* As @loaded exports it. @in_kernel: where the kernel's symvers has that module, or NULL. */
int running_put_loaded(struct running *running, struct loaded *loaded, const char *symbol,
	const char *in_kernel) _must_check_;
/* By the word of others about this very build of @loaded, without a look at files. */
int running_put_by_word(
	struct running *running, struct loaded *loaded, const char *symbol) _must_check_;
/* By drivers' own symvers. */
int running_put_by_driver(struct running *running, const char *symbol) _must_check_;
/* @entry: what running_find_driver_entry() found of @loaded. */
int running_put_found(struct running *running, struct loaded *loaded,
	const struct symvers_entry *entry) _must_check_;
/* Exported by that module, nobody knows with which CRC. 0 or -ENOMEM. */
int running_put_unknown(
	struct running *running, const char *symbol, const char *module) _must_check_;

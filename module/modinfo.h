/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "key=value" strings of a module's .modinfo section, found as Linux kernel/module/main.c
 * finds them (get_next_modinfo()).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/cleanup.h"

#define MODINFO_FIRSTS 64 /* a power of two */

struct modinfo {
	char *text; /* the strings; a NUL ends the last one */
	struct modinfo_entry {
		uint32_t offset; /* where in the text it begins */
		uint32_t mark;   /* of its key: most that differ show here already; 0: no '=' */
	} * entries;             /* those of "alias" at the end of the list */
	size_t count;
	size_t alias_count; /* how many of them are aliases: thousands in some modules */
	/*
	 * By a few bits of a mark, where the first of the others with these bits is, plus 1; 0:
	 * none, as of most keys that are asked for.
	 */
	uint8_t first[MODINFO_FIRSTS];
};

/*
 * Copies the @size bytes of the section at @data, of which @more follow in the file: a last string
 * without an end goes on there, as it does for the kernel. What @info has lies in @memory, the
 * caller's. -ENOMEM; -EFBIG for 4 GiB.
 */
int modinfo_read(struct modinfo *info, const char *data, size_t size, size_t more,
	struct arena *memory) _must_check_;

/* The value of @key after @previous, the first for NULL; NULL at the end. */
const char *modinfo_next(const struct modinfo *info, const char *key, const char *previous);

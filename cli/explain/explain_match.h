/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a message in a line of any log, and takes its fields out: no regular expressions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define EXPLAIN_FIELDS 5

struct explain_field {
	const char *name; /* "module", in the pattern */
	size_t name_size;
	const char *value; /* in the line */
	size_t size;
};

struct explain_fields {
	struct explain_field items[EXPLAIN_FIELDS];
	size_t count;
};

/*
 * Looks for @pattern (see explain_table.h) anywhere in @line where a word starts, so that whatever
 * dmesg, journalctl or syslog puts in front does not matter. @ret borrows from both.
 */
bool explain_match(const char *pattern, const char *line, struct explain_fields *ret);

/* A field by name, NULL when the pattern has none. */
const struct explain_field *explain_field(const struct explain_fields *fields, const char *name);

/* Replaces each {name} in @text by its value. The caller frees it; NULL without memory. */
char *explain_fill(const char *text, const struct explain_fields *fields);

/*
 * The module that insmod, modprobe (kmod's or BusyBox's) says it could not load: its name as the
 * kernel has it. False when the line is not such.
 */
bool explain_loader_module(const char *line, char *name, size_t size);

/* Is it a line of the kernel's log, by what stands in front? */
bool explain_is_kernel_line(const char *line);

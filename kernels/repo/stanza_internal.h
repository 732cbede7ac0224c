/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the "Field: value" format of Debian's lists (deb822(5)) as a stream: it is fed chunks of
 * any size and hands over one stanza after the other, so that a list of any length costs the memory
 * of its largest stanza.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* The longest of real lists are a tenth of these; more is -EFBIG. */
#define STANZA_LINE_LIMIT ((size_t) 1 << 20)
#define STANZA_LIMIT      ((size_t) 8 << 20)

struct stanza_field {
	const char *name;
	const char *value; /* without outer blanks; lines of a folded value are joined by '\n' */
};

struct stanza {
	const struct stanza_field *fields;
	size_t count;
	uint64_t offset; /* where it starts in what was fed, for messages */
};

/* The value of a field, whatever the case of its name, or NULL; of two with one name the first. */
const char *stanza_value(const struct stanza *stanza, const char *name);

struct stanza_reader;

/* Called with each stanza, which is valid for the call only; what is not 0 ends the reading. */
typedef int (*stanza_handler)(void *context, const struct stanza *stanza, struct error *error);

/* @name is what messages call the list; it is copied. NULL without memory. */
struct stanza_reader *stanza_reader_new(const char *name, stanza_handler on_stanza, void *context);
void stanza_reader_free(struct stanza_reader **reader);

/*
 * Both return -EPROTO with the offset for what is no stanza, -EFBIG for a line or stanza over its
 * limit, -ENOMEM, or what the handler returned. After that the reader can only be freed.
 */
int stanza_reader_feed(struct stanza_reader *reader, const char *data, size_t size,
	struct error *error) _must_check_;
/* The end: the last stanza needs no blank line, but the last line must be whole. */
int stanza_reader_finish(struct stanza_reader *reader, struct error *error) _must_check_;

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XML as a stream, through expat, for lists from outside: no document type, no entities, no deep
 * nesting, no endless tag or text, so that memory stays small whatever is fed.
 */
#pragma once

#include <stddef.h>

#include "common/error.h"

/* Elements and attributes in a namespace are "<URI>|<name>". What is not 0 ends the reading. */
struct xml_events {
	/* @attributes: name, value, name, value, …, NULL. */
	int (*on_start)(void *context, const char *element, const char *const *attributes,
		struct error *error);
	/* @text: what was between its start and this end, after its last child. */
	int (*on_end)(void *context, const char *element, const char *text, struct error *error);
	void *context;
};

struct xml_reader;

/* @name is what messages call the file; it is copied. NULL without memory. */
struct xml_reader *xml_reader_new(const char *name, const struct xml_events *events);
void xml_reader_free(struct xml_reader **reader);

/*
 * Both return -EPROTO with line and offset for what is no XML or has what is refused, -EFBIG for a
 * tag or text without end, or what a handler returned. After that the reader can only be freed.
 */
int xml_reader_feed(
	struct xml_reader *reader, const char *data, size_t size, struct error *error) _must_check_;
int xml_reader_finish(struct xml_reader *reader, struct error *error) _must_check_;

/* The value of an attribute, or NULL. */
const char *xml_attribute(const char *const *attributes, const char *name);

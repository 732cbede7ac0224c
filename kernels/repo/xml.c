/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/xml_internal.h"

#include <expat.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define DEPTH_LIMIT ((unsigned int) 16)       /* the lists that we read have five levels */
#define TEXT_LIMIT  ((size_t) 256 << 10)      /* of one element */
#define TAG_LIMIT   ((unsigned long) 1 << 20) /* what expat may hold back, waiting for its end */

struct xml_reader {
	XML_Parser parser;
	char *name;
	struct xml_events events;
	unsigned int depth;
	char *text;
	size_t text_size;
	size_t text_capacity;
	unsigned long long fed;
	int result; /* why a handler ended the reading, with @error */
	struct error *error;
};

const char *xml_attribute(const char *const *attributes, const char *name)
{
	for (size_t i = 0; attributes[i]; i += 2)
		if (strcmp(attributes[i], name) == 0)
			return attributes[i + 1];
	return NULL;
}

static void stop(struct xml_reader *reader, int result)
{
	if (reader->result == 0)
		reader->result = result;
	(void) XML_StopParser(reader->parser, XML_FALSE);
}

static void refuse(struct xml_reader *reader, int code, const char *why)
{
	if (reader->result)
		return;
	stop(reader, error_set(reader->error, code, "%s:%lu: %s: no such list has that: refused",
			     reader->name, (unsigned long) XML_GetCurrentLineNumber(reader->parser),
			     why));
}

static void on_start(void *context, const XML_Char *element, const XML_Char **attributes)
{
	struct xml_reader *reader = context;
	int r;

	if (reader->result)
		return;
	if (++reader->depth > DEPTH_LIMIT) {
		refuse(reader, -EPROTO, "elements nested deeper than 16 levels");
		return;
	}
	reader->text_size = 0;
	r = reader->events.on_start(
		reader->events.context, element, (const char *const *) attributes, reader->error);
	if (r != 0)
		stop(reader, r);
}

static void on_end(void *context, const XML_Char *element)
{
	struct xml_reader *reader = context;
	int r;

	if (reader->result)
		return;
	reader->depth--;
	reader->text[reader->text_size] = '\0';
	r = reader->events.on_end(reader->events.context, element, reader->text, reader->error);
	reader->text_size = 0;
	if (r != 0)
		stop(reader, r);
}

static void on_text(void *context, const XML_Char *text, int length)
{
	struct xml_reader *reader = context;
	size_t size = (size_t) length;

	if (reader->result)
		return;
	if (reader->text_size + size > TEXT_LIMIT) {
		refuse(reader, -EFBIG, "an element with more than 256 KiB of text");
		return;
	}
	if (reader->text_size + size + 1 > reader->text_capacity) {
		size_t capacity = 2 * (reader->text_size + size + 1);
		char *grown = realloc(reader->text, capacity);

		if (!grown) {
			stop(reader, error_set_errno(reader->error, -ENOMEM, "%s", reader->name));
			return;
		}
		reader->text = grown;
		reader->text_capacity = capacity;
	}
	memcpy(reader->text + reader->text_size, text, size);
	reader->text_size += size;
}

/* Entities need a document type: without one there is nothing to expand. */
static void on_doctype(void *context, const XML_Char *doctype, const XML_Char *system_id,
	const XML_Char *public_id, int has_subset)
{
	(void) doctype;
	(void) system_id;
	(void) public_id;
	(void) has_subset;
	refuse(context, -EPROTO, "a document type declaration, which entities need");
}

struct xml_reader *xml_reader_new(const char *name, const struct xml_events *events)
{
	_cleanup_(xml_reader_free) struct xml_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->events = *events;
	reader->name = strdup(name);
	reader->text_capacity = 256;
	reader->text = malloc(reader->text_capacity);
	reader->parser = XML_ParserCreateNS(NULL, '|');
	if (!reader->name || !reader->text || !reader->parser)
		return NULL;
	XML_SetUserData(reader->parser, reader);
	XML_SetElementHandler(reader->parser, on_start, on_end);
	XML_SetCharacterDataHandler(reader->parser, on_text);
	XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
	return TAKE_PTR(reader);
}

void xml_reader_free(struct xml_reader **reader)
{
	if (!*reader)
		return;
	if ((*reader)->parser)
		XML_ParserFree((*reader)->parser);
	free((*reader)->name);
	free((*reader)->text);
	free(*reader);
	*reader = NULL;
}

static int parse(struct xml_reader *reader, const char *data, size_t size, bool last)
{
	XML_Parser parser = reader->parser;
	enum XML_Status status = XML_Parse(parser, data, (int) size, last);
	long long at;

	reader->fed += size;
	if (reader->result)
		return reader->result;
	at = (long long) XML_GetCurrentByteIndex(parser);
	if (status == XML_STATUS_ERROR)
		return error_set(reader->error, -EPROTO,
			"%s:%lu: malformed at byte %lld: %s: the list is cut or damaged: fetch it "
			"again with --refresh",
			reader->name, (unsigned long) XML_GetCurrentLineNumber(parser), at,
			XML_ErrorString(XML_GetErrorCode(parser)));
	if (!last && at >= 0 && reader->fed - (unsigned long long) at > TAG_LIMIT)
		return error_set(reader->error, -EFBIG,
			"%s: a tag of more than %lu bytes at byte %lld: refused", reader->name,
			TAG_LIMIT, at);
	return 0;
}

int xml_reader_feed(struct xml_reader *reader, const char *data, size_t size, struct error *error)
{
	const size_t step = (size_t) 64 << 10;
	int r = 0;

	reader->error = error;
	while (size && r == 0) {
		size_t part = size < step ? size : step;

		r = parse(reader, data, part, false);
		data += part;
		size -= part;
	}
	return r;
}

int xml_reader_finish(struct xml_reader *reader, struct error *error)
{
	reader->error = error;
	return parse(reader, "", 0, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/stanza.h"

#include <string.h>
#include <strings.h>

/* While a stanza grows its text may move, hence positions instead of pointers. */
struct place {
	size_t name;
	size_t value;
};

struct stanza_reader {
	char *list;
	stanza_handler on_stanza;
	void *context;
	char *text; /* names and values of the stanza at hand, each ended by a NUL, and the line */
	size_t size;
	size_t capacity;
	size_t line; /* where in @text the line at hand starts */
	struct place *places;
	struct stanza_field *fields;
	size_t count;
	size_t places_capacity;
	uint64_t offset; /* of the line at hand */
	uint64_t fed;
	uint64_t stanza_offset;
};

const char *stanza_value(const struct stanza *stanza, const char *name)
{
	for (size_t i = 0; i < stanza->count; i++)
		if (strcasecmp(stanza->fields[i].name, name) == 0)
			return stanza->fields[i].value;
	return NULL;
}

struct stanza_reader *stanza_reader_new(const char *name, stanza_handler on_stanza, void *context)
{
	_cleanup_(stanza_reader_free) struct stanza_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->on_stanza = on_stanza;
	reader->context = context;
	reader->list = strdup(name);
	return reader->list ? TAKE_PTR(reader) : NULL;
}

void stanza_reader_free(struct stanza_reader **reader)
{
	if (!*reader)
		return;
	free((*reader)->list);
	free((*reader)->text);
	free((*reader)->places);
	free((*reader)->fields);
	free(*reader);
	*reader = NULL;
}

static int malformed(const struct stanza_reader *reader, const char *why, struct error *error)
{
	return error_set(error, -EPROTO,
		"%s: malformed at byte %llu: %s: the list is damaged or is no such list",
		reader->list, (unsigned long long) reader->offset, why);
}

static int too_big(
	const struct stanza_reader *reader, const char *what, size_t limit, struct error *error)
{
	return error_set(error, -EFBIG, "%s: a %s of more than %zu bytes at byte %llu: refused",
		reader->list, what, limit, (unsigned long long) reader->offset);
}

static int append(struct stanza_reader *reader, const char *data, size_t size, struct error *error)
{
	size_t needed = reader->size + size + 2; /* a folded line's '\n' and the NUL */

	if (reader->size - reader->line + size > STANZA_LINE_LIMIT)
		return too_big(reader, "line", STANZA_LINE_LIMIT, error);
	if (needed > STANZA_LIMIT)
		return too_big(reader, "stanza", STANZA_LIMIT, error);
	if (needed > reader->capacity) {
		size_t capacity = needed < 4096 ? 4096 : needed * 2;
		char *grown = realloc(reader->text, capacity);

		if (!grown)
			return error_set_errno(error, -ENOMEM, "%s", reader->list);
		reader->text = grown;
		reader->capacity = capacity;
	}
	memcpy(reader->text + reader->size, data, size);
	reader->size += size;
	return 0;
}

static int grow_places(struct stanza_reader *reader)
{
	size_t capacity = reader->places_capacity ? reader->places_capacity * 2 : 32;
	struct place *places = reallocarray(reader->places, capacity, sizeof(*places));
	struct stanza_field *fields;

	if (!places)
		return -ENOMEM;
	reader->places = places;
	fields = reallocarray(reader->fields, capacity, sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	reader->fields = fields;
	reader->places_capacity = capacity;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* "Name: value": the name gets its NUL where the colon was. */
static int end_field(struct stanza_reader *reader, size_t length, struct error *error)
{
	char *line = reader->text + reader->line;
	char *colon = memchr(line, ':', length);
	size_t value;

	if (!colon || colon == line)
		return malformed(reader, "a line that is no \"Field: value\"", error);
	for (const char *c = line; c < colon; c++)
		if ((unsigned char) *c <= ' ' || (unsigned char) *c >= 0x7f)
			return malformed(reader, "a field name with a blank in it", error);
	if (reader->count == reader->places_capacity && grow_places(reader) < 0)
		return error_set_errno(error, -ENOMEM, "%s", reader->list);
	if (reader->count == 0)
		reader->stanza_offset = reader->offset;
	value = (size_t) (colon - line) + 1;
	while (value < length && is_blank(line[value]))
		value++;
	*colon = '\0';
	line[length] = '\0';
	reader->places[reader->count++] =
		(struct place){ .name = reader->line, .value = reader->line + value };
	reader->size = reader->line + length + 1;
	reader->line = reader->size;
	return 0;
}

/* A folded line goes to the end of the field before it, whose NUL becomes a '\n'. */
static int end_folded(struct stanza_reader *reader, size_t length, struct error *error)
{
	char *line = reader->text + reader->line;
	size_t blanks = 0;

	if (reader->count == 0)
		return malformed(reader, "a folded line without a field before it", error);
	while (blanks < length && is_blank(line[blanks]))
		blanks++;
	line[-1] = '\n';
	memmove(line, line + blanks, length - blanks);
	line[length - blanks] = '\0';
	reader->size = reader->line + length - blanks + 1;
	reader->line = reader->size;
	return 0;
}

static int end_stanza(struct stanza_reader *reader, struct error *error)
{
	struct stanza stanza = {
		.fields = reader->fields, .count = reader->count, .offset = reader->stanza_offset
	};

	for (size_t i = 0; i < reader->count; i++)
		reader->fields[i] = (struct stanza_field){
			.name = reader->text + reader->places[i].name,
			.value = reader->text + reader->places[i].value,
		};
	reader->size = 0;
	reader->line = 0;
	reader->count = 0;
	return stanza.count ? reader->on_stanza(reader->context, &stanza, error) : 0;
}

static int end_line(struct stanza_reader *reader, struct error *error)
{
	size_t length = reader->size - reader->line;
	const char *line = reader->text + reader->line;
	int r;

	if (length && memchr(line, '\0', length))
		return malformed(reader, "a NUL byte", error);
	while (length && is_blank(line[length - 1]))
		length--;
	if (length == 0) {
		reader->size = reader->line;
		r = end_stanza(reader, error);
	} else if (is_blank(line[0])) {
		r = end_folded(reader, length, error);
	} else {
		r = end_field(reader, length, error);
	}
	reader->offset = reader->fed;
	return r;
}

int stanza_reader_feed(
	struct stanza_reader *reader, const char *data, size_t size, struct error *error)
{
	while (size) {
		const char *end = memchr(data, '\n', size);
		size_t length = end ? (size_t) (end - data) : size;
		int r = append(reader, data, length, error);

		if (r < 0)
			return r;
		length += end != NULL;
		data += length;
		size -= length;
		reader->fed += length;
		r = end ? end_line(reader, error) : 0;
		if (r != 0)
			return r;
	}
	return 0;
}

int stanza_reader_finish(struct stanza_reader *reader, struct error *error)
{
	if (reader->size > reader->line)
		return error_set(error, -EPROTO,
			"%s: ends in the middle of a line, at byte %llu: the list is cut: fetch it "
			"again with --refresh",
			reader->list, (unsigned long long) reader->fed);
	return end_stanza(reader, error);
}

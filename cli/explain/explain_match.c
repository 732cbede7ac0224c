/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/explain_match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

static bool is_module_char(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '-';
}

static bool is_symbol_char(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '.' || c == '$';
}

static bool is_number_char(char c)
{
	return isdigit((unsigned char) c) || c == '-';
}

static bool is_word_char(char c)
{
	return c && !isspace((unsigned char) c);
}

static bool is_text_char(char c)
{
	return c && c != '\n';
}

static const struct {
	const char *name;
	bool (*allows)(char c);
} kinds[] = {
	{ "module", is_module_char },
	{ "symbol", is_symbol_char },
	{ "number", is_number_char },
	{ "word", is_word_char },
	{ "text", is_text_char },
};

/* The kind of a {name}, whose digit does not count. */
static bool (*field_kind(const char *name, size_t size))(char c)
{
	if (size && isdigit((unsigned char) name[size - 1]))
		size--;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strlen(kinds[i].name) == size && strncmp(kinds[i].name, name, size) == 0)
			return kinds[i].allows;
	return is_word_char;
}

static bool starts_with(const char *line, const char *literal, size_t size)
{
	return strncasecmp(line, literal, size) == 0;
}

/* How far a field goes: to the next literal, or as long as its kind allows. */
static size_t field_length(const char *line, bool (*allows)(char c), const char *literal)
{
	size_t literal_size = strcspn(literal, "{");
	size_t length = 0;

	while (allows(line[length]) &&
		!(literal_size && length && starts_with(line + length, literal, literal_size)))
		length++;
	return length;
}

static bool match_here(const char *pattern, const char *line, struct explain_fields *fields)
{
	fields->count = 0;
	while (*pattern) {
		size_t literal = strcspn(pattern, "{");
		struct explain_field *field = &fields->items[fields->count];

		if (!starts_with(line, pattern, literal))
			return false;
		line += literal;
		pattern += literal;
		if (!*pattern)
			break;
		if (fields->count == EXPLAIN_FIELDS)
			return false;
		fields->count++;
		field->name = pattern + 1;
		field->name_size = strcspn(field->name, "}");
		pattern = field->name + field->name_size + 1;
		field->value = line;
		field->size =
			field_length(line, field_kind(field->name, field->name_size), pattern);
		if (field->size == 0)
			return false;
		line += field->size;
	}
	return true;
}

/* Where a word may start. Not after a dot or a slash: "x.ko: Unknown…" is not of a module "ko". */
static bool is_start(const char *line, size_t offset)
{
	return offset == 0 || strchr(" \t]>;:'\"(", line[offset - 1]);
}

bool explain_match(const char *pattern, const char *line, struct explain_fields *ret)
{
	for (size_t i = 0; line[i]; i++)
		if (is_start(line, i) && match_here(pattern, line + i, ret))
			return true;
	return false;
}

const struct explain_field *explain_field(const struct explain_fields *fields, const char *name)
{
	for (size_t i = 0; i < fields->count; i++)
		if (fields->items[i].name_size == strlen(name) &&
			strncmp(fields->items[i].name, name, fields->items[i].name_size) == 0)
			return &fields->items[i];
	return NULL;
}

static const struct explain_field *field_at(
	const struct explain_fields *fields, const char *name, size_t size)
{
	for (size_t i = 0; i < fields->count; i++)
		if (fields->items[i].name_size == size &&
			strncmp(fields->items[i].name, name, size) == 0)
			return &fields->items[i];
	return NULL;
}

char *explain_fill(const char *text, const struct explain_fields *fields)
{
	char *filled = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&filled, &size);

	if (!out)
		return NULL;
	while (*text) {
		size_t literal = strcspn(text, "{");
		const struct explain_field *field;
		size_t name_size;

		(void) fwrite(text, 1, literal, out);
		text += literal;
		if (!*text)
			break;
		name_size = strcspn(text + 1, "}");
		field = field_at(fields, text + 1, name_size);
		if (field)
			(void) fwrite(field->value, 1, field->size, out);
		else
			(void) fputs("it", out);
		text += 1 + name_size + 1;
	}
	if (fclose(out) == 0)
		return filled;
	free(filled);
	return NULL;
}

/* "/x/nvidia-uvm.ko.xz" is nvidia_uvm. */
static void module_name(const struct explain_field *path, char *name, size_t size)
{
	const char *start = path->value;
	const char *end = path->value + path->size;
	size_t length = 0;

	for (const char *c = start; c < end; c++)
		if (*c == '/')
			start = c + 1;
	while (start + length < end && is_module_char(start[length]) && length + 1 < size) {
		name[length] = start[length] == '-' ? '_' : start[length];
		length++;
	}
	name[length] = '\0';
}

bool explain_loader_module(const char *line, char *name, size_t size)
{
	static const char *const patterns[] = { "could not insert module {word}: ",
		"could not insert '{word}': ", "could not insert {word}: ",
		"can't insert '{word}': ", "can't insert {word}: ", "can't load module {word} (" };
	struct explain_fields fields = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (!explain_match(patterns[i], line, &fields))
			continue;
		module_name(&fields.items[0], name, size);
		return true;
	}
	return false;
}

bool explain_is_kernel_line(const char *line)
{
	line += strspn(line, " \t");
	return *line == '[' || *line == '<' || strstr(line, " kernel: ");
}

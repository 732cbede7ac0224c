/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <string.h>

#include "cli/explain/explain_match.h"
#include "cli/explain/explain_owner.h"

const char *explain_remedy_for(enum explain_input input)
{
	switch (input) {
	case EXPLAIN_OFED:
		return "build with --ofed set to the OFED that is loaded on the node, and load "
		       "that one first; after another OFED was loaded, build the GPU image again "
		       "too";
	case EXPLAIN_COMPILER:
		return "build with the compiler that built the kernel: slipway build takes it from "
		       "the kernel's configuration";
	case EXPLAIN_LICENCE:
		return "use a driver source whose licence the kernel takes for its GPL-only "
		       "symbols: the open kernel modules (--nvidia with an open source)";
	case EXPLAIN_SIGNATURE:
		return "sign it with slipway sign (--replace where it is signed already), with the "
		       "key of a certificate that this kernel trusts: docs/signing.md";
	case EXPLAIN_ARCH:
		return "rebuild with --arch set to what uname -m prints on the node";
	case EXPLAIN_FILE:
		return "fetch or build the image again; compare the file's sum with the one in the "
		       "image";
	case EXPLAIN_NVIDIA:
		return "build all modules of the driver from one --nvidia source, and unload those "
		       "of another version first";
	default:
		return "rebuild with --kernel set to what uname -r prints on the node; a symbol of "
		       "a module needs that module loaded first";
	}
}

static void finding_free(struct explain_finding *finding)
{
	free(finding->module);
	strv_free(&finding->symbols);
	strv_free(&finding->lines);
	free(finding->because);
	free(finding->remedy);
	strv_free(&finding->evidence);
}

void explain_free(struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++)
		finding_free(&explanation->items[i]);
	free(explanation->items);
	*explanation = (struct explanation){ 0 };
}

/* Findings of one cause in one module are one, whichever symbols they name. */
static struct explain_finding *find_same(struct explanation *explanation,
	const struct explain_entry *entry, enum explain_input input, const char *module)
{
	for (size_t i = 0; i < explanation->count; i++) {
		struct explain_finding *finding = &explanation->items[i];

		if (strcmp(finding->entry->id, entry->id) == 0 && finding->input == input &&
			strcmp(finding->module, module) == 0)
			return finding;
	}
	return NULL;
}

static struct explain_finding *append(struct explanation *explanation)
{
	struct explain_finding *items = reallocarray(
		explanation->items, explanation->count + 1, sizeof(*explanation->items));

	if (!items)
		return NULL;
	explanation->items = items;
	items[explanation->count] = (struct explain_finding){ 0 };
	return &items[explanation->count++];
}

/* The next word of a vermagic, which is moved past it; its size. */
static size_t next_word(const char **text, const char *end, const char **ret_word)
{
	size_t size = 0;

	while (*text < end && **text == ' ')
		(*text)++;
	*ret_word = *text;
	while (*text + size < end && (*text)[size] != ' ')
		size++;
	*text += size;
	return size;
}

/* Two vermagics are long and alike: which part differs is the news. */
static int compare_vermagic(struct explain_finding *finding, const struct explain_field *built,
	const struct explain_field *running)
{
	const char *left = built->value, *right = running->value, *left_word, *right_word;
	size_t left_size, right_size;

	do {
		left_size = next_word(&left, built->value + built->size, &left_word);
		right_size = next_word(&right, running->value + running->size, &right_word);
		if (left_size != right_size || strncmp(left_word, right_word, left_size) != 0)
			return strv_pushf(&finding->evidence,
				"%s: \"%.*s\" when it was compiled, \"%.*s\" in the kernel",
				left_word == built->value ? "another release"
							  : "another configuration",
				(int) left_size, left_word, (int) right_size, right_word);
	} while (left_size);
	return 0;
}

static int fill_finding(struct explain_finding *finding, const struct explain_entry *entry,
	enum explain_input input, const char *module, const struct explain_fields *fields)
{
	struct explain_fields with_owner = *fields;
	const char *owner = explain_remedy_for(input);
	const struct explain_field *built = explain_field(fields, "text1");
	const struct explain_field *running = explain_field(fields, "text2");

	if (with_owner.count < EXPLAIN_FIELDS)
		with_owner.items[with_owner.count++] =
			(struct explain_field){ "owner", strlen("owner"), owner, strlen(owner) };
	finding->entry = entry;
	finding->input = input;
	finding->module = strdup(module);
	finding->because = explain_fill(entry->because, fields);
	finding->remedy = explain_fill(entry->remedy ? entry->remedy : "{owner}", &with_owner);
	if (!finding->module || !finding->because || !finding->remedy)
		return -ENOMEM;
	return built && running ? compare_vermagic(finding, built, running) : 0;
}

static void take_module(const struct explain_fields *fields, const char *line, char *name)
{
	const struct explain_field *field = explain_field(fields, "module");

	name[0] = '\0';
	if (field) {
		(void) snprintf(name, EXPLAIN_NAME_SIZE, "%.*s", (int) field->size, field->value);
		for (char *dash = name; (dash = strchr(dash, '-'));)
			*dash = '_';
	} else {
		(void) explain_loader_module(line, name, EXPLAIN_NAME_SIZE);
	}
}

/* Where the line is about another module than the one at hand, that one says nothing here. */
static void find_owner(const struct explain_witness *witness, const char *module,
	const char *symbol, struct explain_owner *owner)
{
	struct explain_witness about = { 0 };
	const char *own;

	if (witness)
		about = *witness;
	own = about.module ? elf_module_name(about.module) : NULL;
	if (own && *module && strcmp(own, module) != 0)
		about.module = NULL;
	explain_owner_find(&about, symbol, owner);
}

static int add(struct explanation *explanation, const struct explain_entry *entry,
	const struct explain_fields *fields, const char *line)
{
	const struct explain_field *symbol = explain_field(fields, "symbol");
	struct explain_owner owner = { .input = entry->input };
	struct explain_finding *finding;
	char module[EXPLAIN_NAME_SIZE];
	char name[EXPLAIN_NAME_SIZE] = "";
	int r = 0;

	if (symbol)
		(void) snprintf(name, sizeof(name), "%.*s", (int) symbol->size, symbol->value);
	take_module(fields, line, module);
	if (entry->input == EXPLAIN_SYMBOL && symbol)
		find_owner(explanation->witness, module, name, &owner);
	finding = find_same(explanation, entry, owner.input, module);
	if (!finding) {
		finding = append(explanation);
		r = finding ? fill_finding(finding, entry, owner.input, module, fields) : -ENOMEM;
	}
	if (r == 0)
		finding->guessed |= owner.guessed;
	if (r == 0 && *name)
		r = strv_push_unique(&finding->symbols, name);
	return r < 0 ? r : strv_push(&finding->lines, line);
}

/* An errno's text stands in many lines of a kernel's log that no module's loading is about. */
static bool is_result_line(const char *line)
{
	char name[EXPLAIN_NAME_SIZE];

	return !explain_is_kernel_line(line) || explain_loader_module(line, name, sizeof(name));
}

/* Who copies a message may leave the module in front of it behind. */
static bool match_half(
	const struct explain_entry *entry, const char *line, struct explain_fields *ret)
{
	static const char front[] = "{module}: ";
	const struct explain_field *symbol;

	if (strncmp(entry->pattern, front, strlen(front)) != 0 ||
		!explain_match(entry->pattern + strlen(front), line, ret))
		return false;
	symbol = explain_field(ret, "symbol");
	return !symbol || isalpha((unsigned char) *symbol->value) || strchr("_.", *symbol->value);
}

int explain_add_line(struct explanation *explanation, const char *line)
{
	struct explain_fields fields;

	if (line[strspn(line, " \t\r")] == '\0')
		return 0;
	explanation->lines++;
	for (size_t i = 0; i < explain_table_count; i++) {
		const struct explain_entry *entry = &explain_table[i];

		if (entry->rank == EXPLAIN_RESULT && !is_result_line(line))
			continue;
		if (explain_match(entry->pattern, line, &fields))
			return add(explanation, entry, &fields, line);
	}
	for (size_t i = 0; i < explain_table_count; i++)
		if (match_half(&explain_table[i], line, &fields))
			return add(explanation, &explain_table[i], &fields, line);
	explanation->unknown++;
	return 0;
}

static bool has_all(const struct strv *list, const struct strv *wanted)
{
	for (size_t i = 0; i < wanted->count; i++)
		if (!strv_contains(list, wanted->items[i]))
			return false;
	return true;
}

/* The part of an id before '-': what the message is about. */
static bool same_family(const struct explain_finding *one, const struct explain_finding *other)
{
	size_t length = strcspn(one->entry->id, "-");

	return strncmp(one->entry->id, other->entry->id, length) == 0 &&
	       strcspn(other->entry->id, "-") == length;
}

static bool same_module(const struct explain_finding *one, const struct explain_finding *other)
{
	return !*one->module || !*other->module || strcmp(one->module, other->module) == 0;
}

/* Is @less another line of what @more explains? */
static bool belongs(const struct explain_finding *less, const struct explain_finding *more)
{
	if (less->entry->rank >= more->entry->rank || !same_module(less, more))
		return false;
	if (less->entry->rank == EXPLAIN_RESULT)
		return true;
	if (less->symbols.count)
		return has_all(&more->symbols, &less->symbols);
	return same_family(less, more);
}

static void join(struct explain_finding *less, struct explain_finding *more)
{
	for (size_t i = 0; i < less->lines.count; i++)
		if (strv_push(&more->lines, less->lines.items[i]) < 0)
			return;
	less->joined = true;
}

static int compare_findings(const void *a, const void *b)
{
	const struct explain_finding *left = a, *right = b;

	if (left->entry->rank != right->entry->rank)
		return left->entry->rank > right->entry->rank ? -1 : 1;
	return 0;
}

/* Few findings: a stable sort by insertion keeps those of one rank in the order of the lines. */
static void sort_by_rank(struct explanation *explanation)
{
	for (size_t i = 1; i < explanation->count; i++) {
		struct explain_finding moving = explanation->items[i];
		size_t j = i;

		for (; j && compare_findings(&explanation->items[j - 1], &moving) > 0; j--)
			explanation->items[j] = explanation->items[j - 1];
		explanation->items[j] = moving;
	}
}

void explain_finish(struct explanation *explanation)
{
	sort_by_rank(explanation);
	for (size_t i = explanation->count; i-- > 0;)
		for (size_t j = 0; j < i && !explanation->items[i].joined; j++)
			if (!explanation->items[j].joined &&
				belongs(&explanation->items[i], &explanation->items[j]))
				join(&explanation->items[i], &explanation->items[j]);
}

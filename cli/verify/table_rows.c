/* SPDX-License-Identifier: Apache-2.0 */
/* The table itself: a line a module, with the reason that counts. */
#include <string.h>

#include "cli/verify/table.h"
#include "kernels/tree/depends.h"

#define ROWS_SHOWN    50 /* modules of one verdict */
#define LABEL_MIN     16
#define LABEL_MAX     48
#define REASON_MAX    110 /* the reasons below have the whole */
#define VERDICT_WIDTH 13

static const char unknown_symbols[] = "what the kernel exports is not known";

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* One more folder of @name, of which @start is the end. */
static const char *extend(const char *name, const char *start)
{
	if (start > name)
		start--;
	while (start > name && start[-1] != '/')
		start--;
	return start;
}

/* Two images of one file name are told by as many of their folders as it takes. */
static int name_inputs(struct table *table)
{
	const struct verify_report *report = table->report;
	bool changed = true;

	table->inputs = calloc(report->input_count + 1, sizeof(char *));
	if (!table->inputs)
		return -ENOMEM;
	for (size_t i = 0; i < report->input_count; i++)
		table->inputs[i] = base_name(report->inputs[i].name);
	while (changed) {
		changed = false;
		for (size_t i = 1; i < report->input_count; i++)
			for (size_t k = 0; k < i; k++) {
				const char *was = table->inputs[i];

				if (strcmp(was, table->inputs[k]) != 0)
					continue;
				table->inputs[i] = extend(report->inputs[i].name, was);
				table->inputs[k] = extend(report->inputs[k].name, table->inputs[k]);
				changed |= table->inputs[i] != was;
			}
	}
	return 0;
}

static const char *input_of(const struct table *table, const struct table_row *row)
{
	return table->inputs[row->input - table->report->inputs];
}

static char *name_of(const struct proof_member *member)
{
	const char *name = member->module ? elf_module_name(member->module) : NULL;
	char own[256];

	if (!name && depends_module_name(member->path, own, sizeof(own)))
		name = own;
	return strdup(name ? name : base_name(member->path));
}

static int compare_names(const void *left, const void *right)
{
	const struct table_row *a = left, *b = right;
	int r = strcmp(a->name, b->name);

	return r ? r : strcmp(a->member->path, b->member->path);
}

/* Who asks for drivers does not ask for what the kernel brings. */
static int compare_rows(const void *left, const void *right)
{
	const struct table_row *a = left, *b = right;

	return a->own == b->own ? compare_names(a, b) : (int) a->own - (int) b->own;
}

static bool same_name(const struct table_row *a, const struct table_row *b)
{
	return strcmp(a->name, b->name) == 0;
}

/* Of one name in two images: the image. Of two in one: the path. */
static char *label_of(const struct table *table, size_t i)
{
	const struct table_row *row = &table->rows[i];
	const struct table_row *end = table->rows + table->row_count;
	const char *path = row->member->path;
	size_t length = strlen(row->input->name);
	bool twin = false, other = false;
	char *label;

	for (const struct table_row *p = row; p-- > table->rows && same_name(p, row);)
		*(p->input == row->input ? &twin : &other) = true;
	for (const struct table_row *p = row + 1; p < end && same_name(p, row); p++)
		*(p->input == row->input ? &twin : &other) = true;
	if (!twin && !other)
		return strdup(row->name);
	if (row->input->kind == VERIFY_MODULE)
		return strdup(input_of(table, row));
	if (strncmp(path, row->input->name, length) == 0 && path[length] == ':')
		path += length + 1;
	if (table->report->input_count == 1)
		return strdup(path);
	return asprintf(&label, "%s:%s", input_of(table, row), twin ? path : row->name) < 0 ? NULL
											    : label;
}

static int make_rows(struct table *table)
{
	const struct verify_members *members = table->report->members;
	size_t own = 0;

	table->rows = calloc(members->count + 1, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	for (size_t i = 0; i < members->count; i++) {
		const struct proof_member *member = &members->items[i];
		struct table_row *row = &table->rows[table->row_count++];

		row->member = member;
		row->input = members->inputs[i];
		row->own = member->module && elf_module_info(member->module, "intree");
		own += row->own;
		row->name = name_of(member);
		if (!row->name)
			return -ENOMEM;
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_names);
	for (size_t i = 0; i < table->row_count; i++) {
		table->rows[i].label = label_of(table, i);
		if (!table->rows[i].label)
			return -ENOMEM;
	}
	if (own && own < table->row_count)
		qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
	return 0;
}

/*
 * Does anything tell what the kernel itself exports? A Module.symvers of a driver alone does not.
 * Without MODVERSIONS there is no module_layout, but vmlinux is named.
 */
static bool knows_exports(const struct symvers *symvers)
{
	if (!symvers)
		return false;
	if (symvers_find(symvers, "module_layout"))
		return true;
	for (size_t i = 0; i < symvers_count(symvers); i++)
		if (strcmp(symvers_at(symvers, i)->module, "vmlinux") == 0)
			return true;
	return false;
}

int table_open(const struct verify_report *report, FILE *file, struct table *table)
{
	int r;

	*table = (struct table){
		.report = report,
		.file = file,
		.exports_known = knows_exports(report->kernel->facts.symvers),
	};
	r = name_inputs(table);
	return r < 0 ? r : make_rows(table);
}

void table_close(struct table *table)
{
	for (size_t i = 0; i < table->row_count; i++) {
		free(table->rows[i].name);
		free(table->rows[i].label);
	}
	free(table->rows);
	free(table->inputs);
}

bool table_is_unknown_symbol(const struct table *table, const struct proof_finding *finding)
{
	static const char *const ids[] = { "symvers", "symbol-missing", "symbol-crc-unknown",
		"needs-refused" };

	if (table->exports_known || finding->weight != PROOF_DOUBT)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (strcmp(finding->id, ids[i]) == 0)
			return true;
	return false;
}

/* What could not be opened is called by its path there. */
const char *table_text(const struct proof_finding *finding, const struct table_row *row)
{
	const char *names[] = { row->name, row->member->path, base_name(row->member->path) };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(finding->text, names[i], length) == 0 && finding->text[length] == ':')
			return finding->text + length + 1 + strspn(finding->text + length + 1, " ");
	}
	return finding->text;
}

/* Several images: which one each module is from. Of single files the name says that. */
static bool has_from(const struct table *table)
{
	const struct verify_report *report = table->report;

	for (size_t i = 0; i < report->input_count; i++)
		if (report->inputs[i].kind != VERIFY_MODULE)
			return report->input_count > 1;
	return false;
}

/* With a column of its own the image needs no place in the label. */
static const char *shown_name(const struct table *table, const struct table_row *row, bool from)
{
	size_t length = strlen(input_of(table, row));

	if (from && row->input->kind != VERIFY_MODULE && strlen(row->label) > length &&
		strcmp(row->label, row->name) != 0)
		return row->label + length + 1;
	return row->label;
}

struct widths {
	int name, from;
};

static int clamp(int width, int least, int most)
{
	return width < least ? least : width > most ? most : width;
}

static struct widths measure(const struct table *table)
{
	bool from = has_from(table);
	struct widths widths = { 0 };

	for (size_t i = 0; i < table->row_count; i++) {
		const struct table_row *row = &table->rows[i];
		int name = (int) strnlen(shown_name(table, row, from), LABEL_MAX);
		int input = (int) strnlen(input_of(table, row), LABEL_MAX);

		widths.name = name > widths.name ? name : widths.name;
		widths.from = from && input > widths.from ? input : widths.from;
	}
	widths.name = clamp(widths.name, LABEL_MIN, LABEL_MAX);
	if (from)
		widths.from = clamp(widths.from, 4, LABEL_MAX);
	return widths;
}

/* As many whole words as there is room for. */
static void print_reason(const struct table *table, const char *reason)
{
	size_t length = strlen(reason);

	if (length <= REASON_MAX || table->report->all) {
		(void) fputs(reason, table->file);
		return;
	}
	while (length > REASON_MAX || (length > REASON_MAX / 2 && reason[length] != ' '))
		length--;
	(void) fprintf(table->file, "%.*s …", (int) length, reason);
}

static void print_row(
	const struct table *table, const struct table_row *row, const struct widths *widths)
{
	const struct proof *proof = &row->member->proof;
	const char *verdict = proof_verdict_text(proof->verdict);
	FILE *file = table->file;

	(void) fprintf(file, "%-*s  ", widths->name, shown_name(table, row, widths->from > 0));
	if (widths->from)
		(void) fprintf(file, "%-*s  ", widths->from, input_of(table, row));
	if (proof->verdict == PROOF_WILL_LOAD || !proof->count) {
		(void) fprintf(file, "%s\n", verdict);
		return;
	}
	(void) fprintf(file, "%-*s  ", VERDICT_WIDTH, verdict);
	if (table_is_unknown_symbol(table, &proof->findings[0]))
		(void) fputs(unknown_symbols, file);
	else
		print_reason(table, table_text(&proof->findings[0], row));
	(void) fputc('\n', file);
}

static void print_verdict(
	const struct table *table, enum proof_verdict verdict, const struct widths *widths)
{
	size_t shown = 0, all = 0;

	for (size_t i = 0; i < table->row_count; i++) {
		if (table->rows[i].member->proof.verdict != verdict)
			continue;
		if (all++ < ROWS_SHOWN || table->report->all) {
			print_row(table, &table->rows[i], widths);
			shown++;
		}
	}
	if (shown < all)
		(void) fprintf(table->file, "and %zu more: %s (--all lists them)\n", all - shown,
			proof_verdict_text(verdict));
}

void table_print_rows(const struct table *table)
{
	const struct widths widths = measure(table);

	(void) fprintf(table->file, "\n%-*s  ", widths.name, "MODULE");
	if (widths.from)
		(void) fprintf(table->file, "%-*s  ", widths.from, "FROM");
	(void) fprintf(table->file, "%-*s  FIRST REASON\n", VERDICT_WIDTH, "VERDICT");
	print_verdict(table, PROOF_WILL_NOT_LOAD, &widths);
	print_verdict(table, PROOF_CANNOT_TELL, &widths);
	print_verdict(table, PROOF_WILL_LOAD, &widths);
}

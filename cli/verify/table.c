/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: a line a module, worst first; then each reason once, with its cure. */
#include <string.h>

#include "cli/verify/report.h"

#define ROWS_SHOWN    20 /* modules of one verdict */
#define REASONS_SHOWN 3  /* findings of one kind; of notes one */
#define NAME_WIDTH    32

static const enum proof_verdict verdicts[] = { PROOF_WILL_NOT_LOAD, PROOF_CANNOT_TELL,
	PROOF_WILL_LOAD };

/* A finding with the module that it is about; NULL: it is about the set. */
struct reason {
	const struct proof_finding *finding;
	const struct proof_member *member;
	bool shown;
};

struct table {
	const struct verify_report *report;
	FILE *file;
	const char **names; /* of all members, sorted: of two of one name the path is told */
};

struct reasons {
	struct reason *items;
	size_t count;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The text without "name: " where a column or line says the name already. */
static const char *text_of(const struct proof_finding *finding, const char *name)
{
	size_t length = name ? strlen(name) : 0;

	if (length && strncmp(finding->text, name, length) == 0 && finding->text[length] == ':')
		return finding->text + length + 1 + strspn(finding->text + length + 1, " ");
	return finding->text;
}

static const char *name_of(const struct proof_member *member)
{
	const char *name = member->module ? elf_module_name(member->module) : NULL;

	return name ? name : base_name(member->path);
}

static int compare(const void *left, const void *right)
{
	return strcmp(*(const char *const *) left, *(const char *const *) right);
}

static int sort_names(struct table *table)
{
	const struct verify_members *members = table->report->members;

	table->names = calloc(members->count + 1, sizeof(char *));
	if (!table->names)
		return -ENOMEM;
	for (size_t i = 0; i < members->count; i++)
		table->names[i] = name_of(&members->items[i]);
	qsort(table->names, members->count, sizeof(char *), compare);
	return 0;
}

static bool is_ambiguous(const struct table *table, const char *name)
{
	size_t count = table->report->members->count;
	const char *const *end = table->names + count;
	const char *const *found = bsearch(&name, table->names, count, sizeof(char *), compare);

	return found && ((found > table->names && strcmp(found[-1], name) == 0) ||
				(found + 1 < end && strcmp(found[1], name) == 0));
}

static void print_header(const struct verify_report *report, FILE *file)
{
	const struct verify_kernel *kernel = report->kernel;

	(void) fprintf(file, "kernel %s, vermagic ", kernel->krel ? kernel->krel : "(no release)");
	if (kernel->facts.vermagic)
		(void) fprintf(file, "\"%s\"", kernel->facts.vermagic);
	else
		(void) fputs("not known", file);
	if (kernel->facts.vermagic && !verify_has_versions(report))
		(void) fputs(", no MODVERSIONS: vermagic only", file);
	if (kernel->symvers_count)
		(void) fprintf(file, ", %zu symbols", kernel->symvers_count);
	else
		(void) fputs(", no Module.symvers", file);
	(void) fprintf(file, ", %zu module%s\n", report->members->count,
		report->members->count == 1 ? "" : "s");
}

static void print_inputs(const struct verify_report *report, FILE *file)
{
	for (size_t i = 0; i < report->input_count; i++) {
		const struct verify_input *input = &report->inputs[i];
		_cleanup_free_ char *list = strv_join(&input->passed_over, ", ");

		if (input->passed_over.count)
			(void) fprintf(file, "%s: modules for other kernels are passed over: %s\n",
				input->name, list ? list : "");
		if (input->other_kernel)
			(void) fprintf(file,
				"%s: nothing in it lies in a folder of %s: all its modules are "
				"judged\n",
				input->name, report->kernel->krel);
	}
	for (size_t i = 0; i < report->kernel->notes.count; i++)
		(void) fprintf(file, "note: %s\n", report->kernel->notes.items[i]);
}

static void print_row(const struct table *table, const struct proof_member *member)
{
	const struct proof *proof = &member->proof;
	const char *name = name_of(member);
	FILE *file = table->file;
	const char *reason = "";

	if (proof->verdict != PROOF_WILL_LOAD && proof->count)
		reason = text_of(&proof->findings[0], name);
	(void) fprintf(file, "%-*s  %s", NAME_WIDTH,
		is_ambiguous(table, name) ? member->path : name,
		proof_verdict_text(proof->verdict));
	if (*reason)
		(void) fprintf(file, "%*s%s", 15 - (int) strlen(proof_verdict_text(proof->verdict)),
			"", reason);
	(void) fputc('\n', file);
}

static void print_rows(const struct table *table)
{
	const struct verify_report *report = table->report;
	FILE *file = table->file;

	(void) fprintf(
		file, "\n%-*s  %-13s  %s\n", NAME_WIDTH, "MODULE", "VERDICT", "FIRST REASON");
	for (size_t v = 0; v < ARRAY_SIZE(verdicts); v++) {
		size_t shown = 0, all = 0;

		for (size_t i = 0; i < report->members->count; i++) {
			const struct proof_member *member = &report->members->items[i];

			if (member->proof.verdict != verdicts[v])
				continue;
			if (all++ < ROWS_SHOWN || report->all) {
				print_row(table, member);
				shown++;
			}
		}
		if (shown < all)
			(void) fprintf(file, "and %-*zu  %-13s  (--all lists them)\n",
				NAME_WIDTH - 4, all - shown, proof_verdict_text(verdicts[v]));
	}
}

static void add(
	struct reasons *reasons, const struct proof *proof, const struct proof_member *member)
{
	for (size_t i = 0; i < proof->count; i++)
		reasons->items[reasons->count++] =
			(struct reason){ .finding = &proof->findings[i], .member = member };
}

static int gather(const struct verify_report *report, struct reasons *reasons)
{
	size_t count = report->set->findings.count;

	for (size_t i = 0; i < report->members->count; i++)
		count += report->members->items[i].proof.count;
	reasons->items = calloc(count + 1, sizeof(*reasons->items));
	if (!reasons->items)
		return -ENOMEM;
	for (size_t i = 0; i < report->members->count; i++)
		add(reasons, &report->members->items[i].proof, &report->members->items[i]);
	add(reasons, &report->set->findings, NULL);
	return 0;
}

static bool same_kind(const struct proof_finding *a, const struct proof_finding *b)
{
	return a->weight == b->weight && strcmp(a->id, b->id) == 0;
}

static void print_reason(const struct table *table, const struct reason *reason)
{
	const struct proof_member *member = reason->member;

	if (member && is_ambiguous(table, name_of(member)))
		(void) fprintf(table->file, "  %s (%s)\n", reason->finding->text, member->path);
	else
		(void) fprintf(table->file, "  %s\n", reason->finding->text);
}

/* One kind: its first few, each with its cure where that is not the one before's. */
static void print_kind(const struct table *table, struct reasons *reasons, size_t first)
{
	bool all = table->report->all;
	FILE *file = table->file;
	const struct proof_finding *kind = reasons->items[first].finding;
	size_t limit = kind->weight == PROOF_NOTE ? 1 : REASONS_SHOWN;
	size_t count = 0;
	const char *cure = "";

	(void) fprintf(file, "\n%s (%s)\n", kind->id, proof_weight_text(kind->weight));
	for (size_t i = first; i < reasons->count; i++) {
		struct reason *reason = &reasons->items[i];
		const struct proof_finding *finding = reason->finding;

		if (reason->shown || !same_kind(finding, kind))
			continue;
		reason->shown = true;
		if (count++ >= limit && !all)
			continue;
		if (*cure && strcmp(cure, finding->cure) != 0)
			(void) fprintf(file, "    do: %s\n", cure);
		print_reason(table, reason);
		cure = finding->cure;
	}
	if (*cure)
		(void) fprintf(file, "    do: %s\n", cure);
	if (count > limit && !all)
		(void) fprintf(
			file, "  … and %zu more of this kind (--all lists them)\n", count - limit);
}

static int print_reasons(const struct table *table)
{
	struct reasons reasons = { 0 };
	int r = gather(table->report, &reasons);

	for (enum proof_weight weight = PROOF_REFUSAL; weight <= PROOF_NOTE && r == 0; weight++)
		for (size_t i = 0; i < reasons.count; i++)
			if (!reasons.items[i].shown && reasons.items[i].finding->weight == weight)
				print_kind(table, &reasons, i);
	free(reasons.items);
	return r;
}

static void print_order(const struct verify_report *report, FILE *file)
{
	const struct strv *order = &report->set->order;

	(void) fprintf(file, "\nin this order %s load:\n",
		order->count == report->members->count ? "all" : "those that will");
	for (size_t i = 0; i < order->count; i++)
		(void) fprintf(file, "%6zu  %s\n", i + 1, order->items[i]);
}

int verify_print(const struct verify_report *report, FILE *file)
{
	struct table table = { .report = report, .file = file };
	size_t counts[3] = { 0 };
	int r = sort_names(&table);

	if (r < 0)
		return r;

	for (size_t i = 0; i < report->members->count; i++)
		counts[report->members->items[i].proof.verdict]++;
	print_header(report, file);
	print_inputs(report, file);
	print_rows(&table);
	r = print_reasons(&table);
	free(table.names);
	if (r < 0)
		return r;
	if (report->order)
		print_order(report, file);
	(void) fprintf(file, "\n%zu module%s: %zu will load, %zu will not, %zu cannot tell\n",
		report->members->count, report->members->count == 1 ? "" : "s",
		counts[PROOF_WILL_LOAD], counts[PROOF_WILL_NOT_LOAD], counts[PROOF_CANNOT_TELL]);
	return 0;
}

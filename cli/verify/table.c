/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: what was judged, the table, the reasons, the order, and the sum. */
#include <string.h>

#include "cli/verify/verify.h"
#include "common/xalloc.h"
#include "kernels/tree/depends.h"

#define ROWS_SHOWN     50 /* modules of one verdict */
#define REASONS_SHOWN  3  /* findings of one kind; of notes one */
#define LABEL_MIN      16
#define LABEL_MAX      48
#define REASON_MAX     110 /* the reasons below have the whole */
#define SUM_REASON_MAX 160 /* bytes; above it stands whole */
#define VERDICT_WIDTH  13

struct table_row {
	const struct proof_member *member;
	const struct verify_input *input;
	char *name;  /* of the module: from the file's own name where it tells none */
	char *label; /* the name; of two of one name with where each is from */
	bool own;    /* the kernel's own module, by what it says of itself: MODULE_INFO(intree) */
};

struct table {
	const struct verify_report *report;
	FILE *file;
	struct table_row *rows; /* of all members: others before the kernel's own, then by name */
	size_t row_count;
	const char **inputs; /* of each input the end of its name that is nobody else's */
	bool exports_known;  /* something tells what the kernel itself exports */
};

/* --- the rows: a line a module, with the reason that counts --- */

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
static void name_inputs(struct table *table)
{
	const struct verify_report *report = table->report;
	bool changed = true;

	table->inputs = xcalloc(report->input_count, sizeof(char *));
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
}

static const char *input_of(const struct table *table, const struct table_row *row)
{
	return table->inputs[row->input - table->report->inputs];
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

/* Of one name in two images: the image. Of two in one: the path. */
static char *label_of(const struct table *table, size_t i)
{
	const struct table_row *row = &table->rows[i];
	const struct table_row *end = table->rows + table->row_count;
	const char *path = row->member->path;
	size_t length = strlen(row->input->name);
	bool twin = false, other = false;

	for (const struct table_row *p = row; p-- > table->rows && strcmp(p->name, row->name) == 0;)
		*(p->input == row->input ? &twin : &other) = true;
	for (const struct table_row *p = row + 1; p < end && strcmp(p->name, row->name) == 0; p++)
		*(p->input == row->input ? &twin : &other) = true;
	if (!twin && !other)
		return xstrdup(row->name);
	if (row->input->kind == VERIFY_MODULE)
		return xstrdup(input_of(table, row));
	if (strncmp(path, row->input->name, length) == 0 && path[length] == ':')
		path += length + 1;
	if (table->report->input_count == 1)
		return xstrdup(path);
	return xasprintf("%s:%s", input_of(table, row), twin ? path : row->name);
}

static void make_rows(struct table *table)
{
	const struct verify_members *members = table->report->members;
	size_t own = 0;

	table->rows = xcalloc(members->count, sizeof(*table->rows));
	for (size_t i = 0; i < members->count; i++) {
		const struct proof_member *member = &members->items[i];
		struct table_row *row = &table->rows[table->row_count++];
		const char *name = member->module ? elf_module_name(member->module) : NULL;
		char from_path[256];

		if (!name && depends_module_name(member->path, from_path, sizeof(from_path)))
			name = from_path;
		row->member = member;
		row->input = members->inputs[i];
		row->own = member->module && elf_module_info(member->module, "intree");
		own += row->own;
		row->name = xstrdup(name ? name : base_name(member->path));
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_names);
	for (size_t i = 0; i < table->row_count; i++)
		table->rows[i].label = label_of(table, i);
	if (own && own < table->row_count)
		qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
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

/* A doubt that is there only because nothing tells what the kernel exports. */
static bool is_unknown_symbol(const struct table *table, const struct proof_finding *finding)
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

/*
 * The text without "name: " where a column or line says the name already. What could not be
 * opened is called by its path there.
 */
static const char *finding_text(const struct proof_finding *finding, const struct table_row *row)
{
	const char *names[] = { row->name, row->member->path, base_name(row->member->path) };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(finding->text, names[i], length) == 0 && finding->text[length] == ':')
			return finding->text + length + 1 + strspn(finding->text + length + 1, " ");
	}
	return finding->text;
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
	const struct verify_report *report = table->report;
	struct widths widths = { 0 };
	bool from = false;

	/* Several images: which one each module is from. Of single files the name says that. */
	for (size_t i = 0; i < report->input_count && report->input_count > 1; i++)
		from |= report->inputs[i].kind != VERIFY_MODULE;
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
	if (is_unknown_symbol(table, &proof->findings[0]))
		(void) fputs("what the kernel exports is not known", file);
	else
		print_reason(table, finding_text(&proof->findings[0], row));
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

static void print_rows(const struct table *table)
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

/* --- the reasons: each kind of finding once, with its first few modules and its cure --- */

/* A finding with the module that it is about; NULL: it is about the set. */
struct reason {
	const struct proof_finding *finding;
	const struct table_row *row;
	bool shown;
};

struct reasons {
	struct reason *items;
	size_t count;
};

/* In the order in which the kernel prints its letters. */
static const struct {
	const char *id;
	char letter;
	const char *text;
} taints[] = {
	{ "proprietary", 'P', "proprietary" },
	{ "staging", 'C', "of the staging tree" },
	{ "out-of-tree", 'O', "out of tree" },
	{ "unsigned", 'E', "unsigned" },
	{ "signature-key", 'E', "signed with a key that the kernel does not have" },
	{ "signature-kind", 'E', "signed in a way that the kernel does not check" },
	{ "test", 'N', "tests" },
};

static unsigned int taint_of(const struct proof_finding *finding)
{
	for (size_t i = 0; finding->weight == PROOF_NOTE && i < ARRAY_SIZE(taints); i++)
		if (strcmp(finding->id, taints[i].id) == 0)
			return 1U << i;
	return 0;
}

static unsigned int taints_of(const struct proof *proof)
{
	unsigned int all = 0;

	for (size_t i = 0; i < proof->count; i++)
		all |= taint_of(&proof->findings[i]);
	return proof->verdict == PROOF_WILL_NOT_LOAD ? 0 : all;
}

/* What is said elsewhere and once: what taints, and what hangs on symbols that nobody knows. */
static bool is_folded(const struct table *table, const struct proof_finding *finding)
{
	return !table->report->all && (taint_of(finding) || is_unknown_symbol(table, finding));
}

static void add_reasons(struct reasons *reasons, const struct table *table,
	const struct proof *proof, const struct table_row *row)
{
	for (size_t i = 0; i < proof->count; i++)
		if (!is_folded(table, &proof->findings[i]))
			reasons->items[reasons->count++] =
				(struct reason){ .finding = &proof->findings[i], .row = row };
}

static bool same_kind(const struct proof_finding *a, const struct proof_finding *b)
{
	return a->weight == b->weight && strcmp(a->id, b->id) == 0;
}

static const char *reason_text(const struct reason *reason)
{
	return reason->row ? finding_text(reason->finding, reason->row) : reason->finding->text;
}

static void print_finding(const struct table *table, const struct reason *reason)
{
	const struct table_row *row = reason->row;

	/* What is no module has no name but its path. */
	if (row)
		(void) fprintf(table->file, "  %s: %s\n",
			row->member->module ? row->label : row->member->path, reason_text(reason));
	else
		(void) fprintf(table->file, "  %s\n", reason->finding->text);
}

/* How many notes of this kind, all of one text; 0 where they differ. */
static size_t count_alike(const struct reasons *reasons, size_t first)
{
	const struct reason *kind = &reasons->items[first];
	size_t count = 0;

	for (size_t i = first; i < reasons->count; i++) {
		if (!same_kind(reasons->items[i].finding, kind->finding))
			continue;
		if (!reasons->items[i].row ||
			strcmp(reason_text(&reasons->items[i]), reason_text(kind)) != 0)
			return 0;
		count++;
	}
	return count;
}

static void print_alike(const struct table *table, struct reasons *reasons, size_t first)
{
	const struct proof_finding *kind = reasons->items[first].finding;
	size_t count = 0;

	for (size_t i = first; i < reasons->count; i++)
		if (same_kind(reasons->items[i].finding, kind)) {
			reasons->items[i].shown = true;
			count++;
		}
	(void) fprintf(table->file, "\n%s (%s)\n  %zu modules: %s\n", kind->id,
		proof_weight_text(kind->weight), count, reason_text(&reasons->items[first]));
	if (*kind->cure)
		(void) fprintf(table->file, "    do: %s\n", kind->cure);
}

/* One kind: its first few, each with its cure where that is not the one before's. */
static void print_kind(const struct table *table, struct reasons *reasons, size_t first)
{
	bool all = table->report->all;
	FILE *file = table->file;
	const struct proof_finding *kind = reasons->items[first].finding;
	size_t limit = kind->weight == PROOF_NOTE ? 1 : REASONS_SHOWN;
	const struct table_row *last = NULL;
	size_t count = 0, shown = 0;
	const char *cure = "";

	if (!all && kind->weight == PROOF_NOTE && count_alike(reasons, first) > 1) {
		print_alike(table, reasons, first);
		return;
	}
	(void) fprintf(file, "\n%s (%s)\n", kind->id, proof_weight_text(kind->weight));
	for (size_t i = first; i < reasons->count; i++) {
		struct reason *reason = &reasons->items[i];
		const struct proof_finding *finding = reason->finding;

		if (reason->shown || !same_kind(finding, kind))
			continue;
		reason->shown = true;
		count++;
		/* Three modules say more than three symbols of one. */
		if (!all && (shown >= limit || (reason->row && reason->row == last)))
			continue;
		last = reason->row;
		shown++;
		if (*cure && strcmp(cure, finding->cure) != 0)
			(void) fprintf(file, "    do: %s\n", cure);
		print_finding(table, reason);
		cure = finding->cure;
	}
	if (*cure)
		(void) fprintf(file, "    do: %s\n", cure);
	if (count > shown)
		(void) fprintf(
			file, "  … and %zu more of this kind (--all lists them)\n", count - shown);
}

/* "out of tree and unsigned: they taint the kernel (OE)" */
static void print_taint(const struct table *table, unsigned int mask, const char *verb)
{
	char letters[ARRAY_SIZE(taints) + 1] = "";
	unsigned int left = mask;

	for (size_t i = 0; i < ARRAY_SIZE(taints); i++) {
		if (!(mask & 1U << i))
			continue;
		left &= ~(1U << i);
		(void) fprintf(table->file, "%s%s", taints[i].text,
			!left               ? ""
			: left & (left - 1) ? ", "
					    : " and ");
		if (!strchr(letters, taints[i].letter))
			letters[strlen(letters)] = taints[i].letter;
	}
	(void) fprintf(table->file, ": %s the kernel (%s)\n", verb, letters);
}

/* True of every OFED and in no way wrong: a line for all that share it. */
static void print_taints(const struct table *table)
{
	unsigned int done[1U << ARRAY_SIZE(taints)] = { 0 };
	bool any = false;

	for (size_t i = 0; i < table->row_count; i++)
		done[taints_of(&table->rows[i].member->proof)]++;
	for (size_t i = 0; i < table->row_count; i++) {
		unsigned int mask = taints_of(&table->rows[i].member->proof);
		unsigned int count = done[mask];

		if (!mask || !count)
			continue;
		(void) fputs(any ? "" : "\ntaints (note)\n", table->file);
		any = true;
		done[mask] = 0;
		if (count == 1)
			(void) fprintf(table->file, "  %s is ", table->rows[i].label);
		else
			(void) fprintf(table->file, "  %u modules are ", count);
		print_taint(table, mask, count == 1 ? "it taints" : "they taint");
	}
}

static void print_reasons(const struct table *table)
{
	const struct proof *set = &table->report->set->findings;
	struct reasons reasons = { 0 };
	size_t count = set->count;

	for (size_t i = 0; i < table->row_count; i++)
		count += table->rows[i].member->proof.count;
	reasons.items = xcalloc(count, sizeof(*reasons.items));
	for (size_t i = 0; i < table->row_count; i++)
		add_reasons(&reasons, table, &table->rows[i].member->proof, &table->rows[i]);
	add_reasons(&reasons, table, set, NULL);
	for (enum proof_weight weight = PROOF_REFUSAL; weight <= PROOF_NOTE; weight++)
		for (size_t i = 0; i < reasons.count; i++)
			if (!reasons.items[i].shown && reasons.items[i].finding->weight == weight)
				print_kind(table, &reasons, i);
	if (!table->report->all)
		print_taints(table);
	free(reasons.items);
}

/* --- the whole --- */

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* The kernel's own ends in a blank, which people need not see. */
static void print_vermagic(const char *vermagic, FILE *file)
{
	size_t length = strlen(vermagic);

	while (length && vermagic[length - 1] == ' ')
		length--;
	(void) fprintf(file, "\"%.*s\"", (int) length, vermagic);
}

static void print_header(const struct verify_report *report, FILE *file)
{
	const struct verify_kernel *kernel = report->kernel;

	(void) fprintf(file, "kernel %s, vermagic ", kernel->krel ? kernel->krel : "(no release)");
	if (kernel->facts.vermagic)
		print_vermagic(kernel->facts.vermagic, file);
	else
		(void) fputs("not known", file);
	if (kernel->facts.vermagic && !proof_kernel_has_modversions(&report->kernel->facts))
		(void) fputs(", no MODVERSIONS: vermagic only", file);
	if (kernel->symvers_count)
		(void) fprintf(file, ", %zu symbols", kernel->symvers_count);
	else
		(void) fputs(", no Module.symvers", file);
	(void) fprintf(
		file, ", %zu module%s\n", report->members->count, plural(report->members->count));
}

/* Said once in place of a doubt for each symbol of each module. */
static void print_unknown_exports(const struct table *table)
{
	const struct verify_kernel *kernel = table->report->kernel;

	if (table->exports_known || kernel->facts.modules == PROOF_NO)
		return;
	(void) fputs(
		"nothing tells what this kernel exports, so no symbol can be judged", table->file);
	if (kernel->facts.running)
		(void) fputs(": neither its Module.symvers nor its modules' files are here\n",
			table->file);
	else
		(void) fprintf(table->file,
			": add --with …/Module.symvers (of its headers' package), or name its "
			"release: --kernel %s\n",
			kernel->krel ? kernel->krel : "KREL");
}

static void print_inputs(const struct verify_report *report, FILE *file)
{
	for (size_t i = 0; i < report->input_count; i++) {
		const struct verify_input *input = &report->inputs[i];
		_cleanup_free_ char *list = xstrv_join(&input->skipped, ", ");

		if (input->skipped.count)
			(void) fprintf(file, "%s: modules for other kernels are passed over: %s\n",
				input->name, list);
		if (input->other_kernel)
			(void) fprintf(file,
				"%s: nothing in it lies in a folder of %s: all its modules are "
				"judged\n",
				input->name, report->kernel->krel);
	}
	for (size_t i = 0; i < report->kernel->notes.count; i++)
		(void) fprintf(file, "note: %s\n", report->kernel->notes.items[i]);
}

/* Of a module built for another release: its vermagic, which begins with that. */
static const char *other_release(const struct table *table, const struct table_row *row)
{
	const char *krel = table->report->kernel->krel;
	const char *vermagic =
		row->member->module ? elf_module_info(row->member->module, "vermagic") : NULL;
	size_t length = vermagic ? strcspn(vermagic, " ") : 0;

	if (!krel || !length || (strlen(krel) == length && memcmp(vermagic, krel, length) == 0))
		return NULL;
	return vermagic;
}

/* Most of what follows is then one mistake, and no CRC tells it as well as this. */
static void print_other_release(const struct table *table)
{
	const char *krel = table->report->kernel->krel;
	const char *first = NULL;
	size_t count = 0, bad = 0;
	bool several = false;

	for (size_t i = 0; i < table->row_count; i++) {
		const char *release = other_release(table, &table->rows[i]);

		if (!release)
			continue;
		first = first ? first : release;
		several |= strncmp(first, release, strcspn(first, " ") + 1) != 0;
		count++;
		bad += table->rows[i].member->proof.verdict != PROOF_WILL_LOAD;
	}
	if (!bad || count * 2 <= table->row_count)
		return;
	if (count < table->row_count)
		(void) fprintf(table->file, "\n%zu of %zu modules were", count, table->row_count);
	else if (count == 1)
		(void) fputs("\nthe module was", table->file);
	else
		(void) fprintf(table->file, "\nall %zu modules were", count);
	if (several)
		(void) fputs(" built for other kernels", table->file);
	else
		(void) fprintf(table->file, " built for %.*s", (int) strcspn(first, " "), first);
	(void) fprintf(table->file,
		", not for %s: take those of this kernel, or build them: slipway build --kernel "
		"%s\n",
		krel, krel);
}

static void print_order(const struct verify_report *report, FILE *file)
{
	const struct strv *order = &report->set->order;

	if (order->count == 0) {
		(void) fputs("\nnothing loads, so there is no order\n", file);
		return;
	}
	(void) fprintf(file, "\nin this order %s load:\n",
		report->set->loading == report->members->count ? "all" : "those that will");
	for (size_t i = 0; i < report->set->relied.count; i++)
		(void) fprintf(file, "     -  %s, which is %s\n", report->set->relied.items[i],
			report->kernel->facts.running ? "loaded already"
						      : "the kernel's own, or what --with names");
	for (size_t i = 0; i < order->count; i++)
		(void) fprintf(file, "%6zu  %s\n", i + 1, order->items[i]);
}

/* What decides of the set where no module alone does; NULL: the numbers say it. */
static const struct proof_finding *decisive(const struct verify_report *report)
{
	const struct proof *set = &report->set->findings;
	enum proof_weight weight =
		report->set->verdict == PROOF_CANNOT_TELL ? PROOF_DOUBT : PROOF_REFUSAL;

	if (report->set->verdict == PROOF_WILL_LOAD)
		return NULL;
	for (size_t i = 0; i < report->members->count; i++)
		if (report->members->items[i].proof.verdict == report->set->verdict)
			return NULL;
	for (size_t i = 0; i < set->count; i++)
		if (set->findings[i].weight == weight)
			return &set->findings[i];
	return NULL;
}

static void print_sum(const struct verify_report *report, FILE *file)
{
	const struct proof_finding *finding = decisive(report);
	size_t length = finding ? strnlen(finding->text, SUM_REASON_MAX) : 0;
	size_t counts[3] = { 0 };

	for (size_t i = 0; i < report->members->count; i++)
		counts[report->members->items[i].proof.verdict]++;
	(void) fprintf(file, "\n%zu module%s: %zu will load, %zu will not, %zu cannot tell",
		report->members->count, plural(report->members->count), counts[PROOF_WILL_LOAD],
		counts[PROOF_WILL_NOT_LOAD], counts[PROOF_CANNOT_TELL]);
	while (finding && length && (finding->text[length] & 0xc0) == 0x80)
		length--;
	if (finding)
		(void) fprintf(file, "; as one set: %s: %.*s%s",
			proof_verdict_text(report->set->verdict), (int) length, finding->text,
			finding->text[length] ? "…" : "");
	(void) fputc('\n', file);
}

void verify_print(const struct verify_report *report, FILE *file)
{
	struct table table = {
		.report = report,
		.file = file,
		.exports_known = knows_exports(report->kernel->facts.symvers),
	};

	name_inputs(&table);
	make_rows(&table);
	print_header(report, file);
	print_unknown_exports(&table);
	print_inputs(report, file);
	print_other_release(&table);
	print_rows(&table);
	print_reasons(&table);
	if (report->order)
		print_order(report, file);
	print_sum(report, file);
	for (size_t i = 0; i < table.row_count; i++) {
		free(table.rows[i].name);
		free(table.rows[i].label);
	}
	free(table.rows);
	free(table.inputs);
}

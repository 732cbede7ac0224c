// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the modules of the agreement test: mutate --seed N --version MAJOR.MINOR --output DIR <PLAN
 *
 * A line of the plan is a word and a path:
 *   keep PATH     loaded and kept, for what follows: a module that others need
 *   proprietary PATH  as keep, under a licence that is none of the kernel's
 *   test PATH     loaded and removed
 *   twice PATH    a kept one once more: by its own name, and by another
 *   base PATH     what mutants are made of
 *   signed PATH   the same, but with its signature, and by what is done to signatures
 *   as-is PATH    loaded and removed, with init function and signature
 *   mutants N     of the bases so far: each mutation in turn, and then at random until there are N
 *   random N      at random only
 *   signatures N  as mutants, of the signed ones
 *   clear         all that is kept goes, and no base stays
 *
 * Writes DIR/modules/<index>.ko and DIR/cases.tsv: index, action, module, mutation, what exactly.
 * Actions are those of loader.c, and D: the kernel would follow an offset of this one without
 * looking, so only we are asked; X: the answer hangs on what is loaded, so only the kernel is
 * asked. The same seed and the same plan make the same modules.
 */
#include <err.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mutation.h"

#define BASES_MAX 512
#define TRIES     40

struct base {
	char *name;
	struct image image;
};

struct bases {
	struct base items[BASES_MAX];
	size_t count;
};

struct maker {
	const char *output;
	unsigned int version;
	Elf64_Half machine; /* of all modules */
	size_t turns;       /* at most so many of each mutation that is made in turn */
	struct dice dice;
	FILE *cases;
	size_t index;
	struct bases bases, signed_bases;
};

static const struct mutation *const soft[] = { info_mutations, symbol_mutations, version_mutations,
	arm64_mutations };
static const struct mutation *const hard[] = { header_mutations, section_mutations };
static const struct mutation *const signatures[] = { signature_mutations };

struct tables {
	const struct mutation *const *items;
	size_t count;
};

#define TABLES(t) ((struct tables){ t, sizeof(t) / sizeof((t)[0]) })

static void emit(struct maker *maker, const struct image *image, char action, const char *name,
	const char *mutation, const char *detail)
{
	char path[4096];

	(void) snprintf(path, sizeof(path), "%s/modules/%zu.ko", maker->output, maker->index);
	if (image)
		image_save(image, path);
	(void) fprintf(maker->cases, "%zu\t%c\t%s\t%s\t%s\n", maker->index++, action, name,
		mutation, detail);
}

/* ---- mutants */

/* One mutant of @base; false when the mutation has nothing to change there. */
static bool mutant(struct maker *maker, const struct base *base, const struct mutation *mutation)
{
	char detail[DETAIL_SIZE] = "";
	struct image image;
	bool done;

	image_copy(&image, &base->image);
	done = mutation->apply(&image, &maker->dice, detail);
	if (done)
		emit(maker, &image, mutation->checked_since > maker->version ? 'D' : 'T',
			base->name, mutation->name, detail);
	image_free(&image);
	return done;
}

static const struct base *any_base(struct maker *maker, const struct bases *bases)
{
	return &bases->items[dice_choose(&maker->dice, bases->count)];
}

/* The choices of a mutation on one module, evenly when there are too many. */
static bool all_turns(struct maker *maker, const struct base *base, const struct mutation *mutation)
{
	size_t made = 0, step = 1;

	for (size_t turn = 0, turns = 1; turn < turns; turn += step) {
		maker->dice.in_turn = true;
		maker->dice.turn = turn;
		maker->dice.turns = 0;
		made += mutant(maker, base, mutation);
		turns = maker->dice.turns ? maker->dice.turns : 1;
		step = maker->turns && turns > maker->turns ? turns / maker->turns : 1;
		maker->dice.in_turn = false;
	}
	return made;
}

static bool is_for(const struct mutation *mutation, const struct maker *maker)
{
	return !mutation->machine || mutation->machine == maker->machine;
}

static void each_mutation(struct maker *maker, const struct bases *bases, struct tables tables)
{
	for (size_t t = 0; t < tables.count; t++)
		for (const struct mutation *m = tables.items[t]; m->name; m++) {
			bool made = !is_for(m, maker);

			for (int try = 0; !made && try < TRIES; try++) {
				const struct base *base = any_base(maker, bases);

				made = m->each ? all_turns(maker, base, m) : mutant(maker, base, m);
			}
		}
}

static const struct mutation *any_mutation(struct maker *maker, struct tables tables)
{
	size_t count = 0, choice;

	for (size_t t = 0; t < tables.count; t++)
		for (const struct mutation *m = tables.items[t]; m->name; m++)
			count += is_for(m, maker);
	choice = dice_choose(&maker->dice, count);
	for (size_t t = 0; t < tables.count; t++)
		for (const struct mutation *m = tables.items[t]; m->name; m++)
			if (is_for(m, maker) && !choice--)
				return m;
	return NULL;
}

/* Two or three mutations of one module; those that damage the file's structure last. */
static void compound(struct maker *maker, const struct bases *bases)
{
	const struct base *base = any_base(maker, bases);
	char names[256] = "", details[3 * DETAIL_SIZE + 8] = "";
	unsigned int checked_since = 0;
	struct image image;
	int made = 0;

	image_copy(&image, &base->image);
	for (int i = 0; i < 3; i++) {
		char detail[DETAIL_SIZE] = "";
		const struct mutation *m = any_mutation(maker, i < 2 ? TABLES(soft) : TABLES(hard));

		if (!m->apply(&image, &maker->dice, detail))
			continue;
		if (m->checked_since > checked_since)
			checked_since = m->checked_since;
		(void) sprintf(names + strlen(names), "%s%.60s", made ? "+" : "", m->name);
		(void) sprintf(details + strlen(details), "%s%s", made ? "; " : "", detail);
		made++;
		/* An offset out of the file would lead the next mutation there. */
		if (m->checked_since)
			break;
	}
	if (made)
		emit(maker, &image, checked_since > maker->version ? 'D' : 'T', base->name, names,
			details);
	image_free(&image);
}

static void make_random(struct maker *maker, size_t end)
{
	static const struct mutation *const all[] = { info_mutations, symbol_mutations,
		version_mutations, arm64_mutations, header_mutations, section_mutations };

	while (maker->index < end) {
		if (dice_choose(&maker->dice, 5) == 0)
			compound(maker, &maker->bases);
		else
			(void) mutant(maker, any_base(maker, &maker->bases),
				any_mutation(maker, TABLES(all)));
	}
}

static void make_mutants(struct maker *maker, size_t count, bool each)
{
	size_t end = maker->index + count;

	if (!maker->bases.count)
		errx(1, "no module to make mutants of");
	if (each) {
		each_mutation(maker, &maker->bases, TABLES(soft));
		each_mutation(maker, &maker->bases, TABLES(hard));
	}
	make_random(maker, end);
}

static void make_signatures(struct maker *maker, size_t count)
{
	size_t end = maker->index + count;

	if (!maker->signed_bases.count)
		errx(1, "no signed module to make mutants of");
	each_mutation(maker, &maker->signed_bases, TABLES(signatures));
	while (maker->index < end)
		(void) mutant(maker, any_base(maker, &maker->signed_bases),
			any_mutation(maker, TABLES(signatures)));
}

/* ---- the plan */

static void add_base(
	struct maker *maker, struct bases *bases, const char *name, const char *path, bool neutral)
{
	struct base *base = &bases->items[bases->count];

	if (bases->count == BASES_MAX)
		errx(1, "more than %d modules to make mutants of", BASES_MAX);
	bases->count++;
	base->name = strdup(name);
	image_load(&base->image, path);
	maker->machine = image_header(&base->image)->e_machine;
	if (neutral)
		image_neutralise(&base->image);
}

static void make_twice(struct maker *maker, const char *name, const char *path)
{
	struct image image;

	image_load(&image, path);
	image_neutralise(&image);
	emit(maker, &image, 'X', name, "loaded-already", "the name is taken");
	if (image_module_name(&image)) {
		image_set_module_name(&image, "loaded_twice");
		emit(maker, &image, 'T', name, "exports-again", "under another name");
	}
	image_free(&image);
}

static void make_one(struct maker *maker, const char *word, const char *name, const char *path)
{
	bool proprietary = strcmp(word, "proprietary") == 0, as_is = strcmp(word, "as-is") == 0;
	bool keep = proprietary || strcmp(word, "keep") == 0;
	struct image image;

	image_load(&image, path);
	if (!as_is)
		image_neutralise(&image);
	if (proprietary)
		(void) mutate_licence(&image, "Proprietary");
	emit(maker, &image, keep ? 'K' : 'T', name,
		as_is         ? "as-is"
		: proprietary ? word
			      : "pristine",
		path);
	image_free(&image);
}

static void forget(struct bases *bases)
{
	while (bases->count) {
		struct base *base = &bases->items[--bases->count];

		free(base->name);
		image_free(&base->image);
	}
}

static void clear(struct maker *maker)
{
	emit(maker, NULL, 'U', "-", "-", "-");
	forget(&maker->bases);
	forget(&maker->signed_bases);
}

static void follow(struct maker *maker, const char *word, char *path)
{
	char *copy = strdup(path);
	const char *name = basename(copy);

	if (strcmp(word, "base") == 0)
		add_base(maker, &maker->bases, name, path, true);
	else if (strcmp(word, "signed") == 0)
		add_base(maker, &maker->signed_bases, name, path, false);
	else if (strcmp(word, "twice") == 0)
		make_twice(maker, name, path);
	else if (strcmp(word, "keep") == 0 || strcmp(word, "test") == 0 ||
		 strcmp(word, "as-is") == 0 || strcmp(word, "proprietary") == 0)
		make_one(maker, word, name, path);
	else if (strcmp(word, "mutants") == 0)
		make_mutants(maker, strtoul(path, NULL, 10), true);
	else if (strcmp(word, "random") == 0)
		make_mutants(maker, strtoul(path, NULL, 10), false);
	else if (strcmp(word, "signatures") == 0)
		make_signatures(maker, strtoul(path, NULL, 10));
	else if (strcmp(word, "clear") == 0)
		clear(maker);
	else
		errx(1, "a plan has no word '%s'", word);
	free(copy);
}

static unsigned int read_version(const char *text)
{
	unsigned int major = 0, minor = 0;

	if (sscanf(text, "%u.%u", &major, &minor) != 2)
		errx(2, "'%s' is no version", text);
	return VERSION(major, minor);
}

static void read_options(struct maker *maker, int argc, char **argv)
{
	*maker = (struct maker){ .turns = 16, .dice.state = 1 };
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			maker->dice.state = strtoull(argv[i + 1], NULL, 0) * 2 + 1;
		else if (strcmp(argv[i], "--turns") == 0)
			maker->turns = strtoul(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--version") == 0)
			maker->version = read_version(argv[i + 1]);
		else if (strcmp(argv[i], "--output") == 0)
			maker->output = argv[i + 1];
		else
			errx(2, "no such option: %s", argv[i]);
	}
	if (!maker->output || !maker->version || !maker->turns)
		errx(2, "usage: mutate --seed N [--turns N] --version MAJOR.MINOR --output DIR <PLAN");
}

int main(int argc, char **argv)
{
	static struct maker maker;
	char path[4096], word[32], line[4200];

	read_options(&maker, argc, argv);
	(void) snprintf(path, sizeof(path), "%s/modules", maker.output);
	(void) mkdir(maker.output, 0755);
	(void) mkdir(path, 0755);
	(void) snprintf(path, sizeof(path), "%s/cases.tsv", maker.output);
	maker.cases = fopen(path, "w");
	if (!maker.cases)
		err(1, "%s", path);
	while (fgets(line, sizeof(line), stdin)) {
		path[0] = '\0';
		if (sscanf(line, "%31s %4095[^\n]", word, path) >= 1)
			follow(&maker, word, path);
	}
	if (fclose(maker.cases) == EOF)
		err(1, "%s/cases.tsv", maker.output);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines become findings: the fields of a message, whose its symbol is, and what belongs together.
 */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <string.h>

#include "common/xalloc.h"

/* --- messages --- */

/* May a field of this name hold this character? The first letter of the name is its kind. */
static bool allows(const char *name, char c)
{
	unsigned char byte = (unsigned char) c;

	if (!c)
		return false;
	switch (*name) {
	case 'm': /* module */
		return isalnum(byte) || strchr("_-", c);
	case 's': /* symbol */
		return isalnum(byte) || strchr("_.$", c);
	case 'n': /* number */
		return isdigit(byte) || c == '-';
	case 't': /* text */
		return c != '\n';
	default: /* word */
		return !isspace(byte);
	}
}

static bool match_here(const char *pattern, const char *line, struct explain_fields *fields)
{
	for (fields->count = 0;;) {
		size_t literal = strcspn(pattern, "{");
		struct explain_field field;
		bool may_be_empty;

		if (strncasecmp(line, pattern, literal) != 0)
			return false;
		line += literal;
		pattern += literal;
		if (*pattern != '{')
			return true;
		field.name = pattern + 1;
		field.name_size = strcspn(field.name, "}");
		field.value = line;
		pattern = field.name + field.name_size + 1;
		/* A field goes to the next literal, or as far as its kind allows; only text between
		 * literals may be empty. */
		literal = strcspn(pattern, "{");
		may_be_empty = literal && *field.name == 't';
		while (allows(field.name, *line) &&
			!(literal && (line > field.value || may_be_empty) &&
				strncasecmp(line, pattern, literal) == 0))
			line++;
		field.size = (size_t) (line - field.value);
		if ((field.size == 0 && !may_be_empty) || fields->count == EXPLAIN_FIELDS - 2)
			return false;
		fields->items[fields->count++] = field;
	}
}

/* A word may start there. Not after a dot or a slash: "x.ko: Unknown…" is not of a module "ko". */
bool explain_match(const char *pattern, const char *line, struct explain_fields *ret)
{
	for (size_t i = 0; line[i]; i++)
		if ((i == 0 || strchr(" \t]>;:'\"(,{", line[i - 1])) &&
			match_here(pattern, line + i, ret))
			return true;
	return false;
}

static const struct explain_field *find_field(
	const struct explain_fields *fields, const char *name, size_t size)
{
	for (size_t i = 0; i < fields->count; i++)
		if (fields->items[i].name_size == size &&
			strncmp(fields->items[i].name, name, size) == 0)
			return &fields->items[i];
	return NULL;
}

const struct explain_field *explain_field(const struct explain_fields *fields, const char *name)
{
	return find_field(fields, name, strlen(name));
}

char *explain_fill(const char *text, const struct explain_fields *fields)
{
	char *filled = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&filled, &size);

	if (!out)
		out_of_memory();
	while (*text) {
		size_t literal = strcspn(text, "{");
		const struct explain_field *field;

		(void) fwrite(text, 1, literal, out);
		text += literal;
		if (!*text)
			break;
		literal = strcspn(text, "}");
		field = find_field(fields, text + 1, literal - 1);
		(void) fprintf(
			out, "%.*s", field ? (int) field->size : 2, field ? field->value : "it");
		text += literal + 1;
	}
	if (fclose(out) != 0)
		out_of_memory();
	return filled;
}

bool explain_loader_module(const char *line, char *name, size_t size)
{
	static const char *const patterns[] = { "could not insert module {word}: ",
		"could not insert '{word}': ", "could not insert {word}: ",
		"can't insert '{word}': ", "can't insert {word}: ", "can't load module {word} (" };
	struct explain_fields fields = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		const struct explain_field *word = explain_match(patterns[i], line, &fields)
							   ? explain_field(&fields, "word")
							   : NULL;

		if (!word || !word->value)
			continue;
		/* "/x/nvidia-uvm.ko.xz" is nvidia_uvm. */
		memset(name, 0, size);
		module_name_copy(word->value, word->size, name, size);
		while (allows("module", *name))
			name++;
		*name = '\0';
		return true;
	}
	return false;
}

/* --- whose a symbol is --- */

enum explain_input explain_guess(const char *name)
{
	static const struct {
		const char *prefix;
		enum explain_input input;
	} owners[] = {
		{ "nvidia", EXPLAIN_NVIDIA },
		{ "nvUvm", EXPLAIN_NVIDIA },
		{ "nvKms", EXPLAIN_NVIDIA },
		{ "ib_", EXPLAIN_OFED },
		{ "ibnl_", EXPLAIN_OFED },
		{ "rdma_", EXPLAIN_OFED },
		{ "rdmacg_", EXPLAIN_OFED },
		{ "iw_", EXPLAIN_OFED },
		{ "mlx", EXPLAIN_OFED },
		{ "uverbs_", EXPLAIN_OFED },
		{ "_uverbs_", EXPLAIN_OFED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(owners); i++)
		if (strncmp(owners[i].prefix, name, strlen(owners[i].prefix)) == 0)
			return owners[i].input;
	return EXPLAIN_KERNEL;
}

enum explain_fit explain_kernel_fit(const struct elf_module *module, const struct symvers *symvers)
{
	enum explain_fit fit = EXPLAIN_FIT_UNKNOWN;
	size_t count;
	const struct elf_symbol_version *versions = elf_module_versions(module, &count);

	for (size_t i = 0; i < count; i++) {
		const struct symvers_entry *entry = symvers_find(symvers, versions[i].name);

		if (!entry || strcmp(entry->module, "vmlinux") != 0 || !entry->has_crc)
			continue;
		if (entry->crc != versions[i].crc)
			return EXPLAIN_FITS_NOT;
		fit = EXPLAIN_FITS;
	}
	return fit;
}

struct explain_owner explain_find_owner(
	const struct explain_files *files, const struct elf_module *module, const char *symbol)
{
	const char *depends = module ? elf_module_info(module, "depends") : NULL;
	struct explain_owner owner = { .input = EXPLAIN_KERNEL };
	const struct symvers_entry *entry = NULL;
	char exporter[EXPLAIN_NAME_SIZE];
	enum explain_fit fit;
	bool with = false;

	if (files && files->with)
		entry = symvers_find(files->with, symbol);
	with = entry;
	if (!entry && files && files->symvers)
		entry = symvers_find(files->symvers, symbol);
	if (entry) {
		symvers_module_name(entry, exporter, sizeof(exporter));
		owner.input = explain_guess(exporter);
		if (with && owner.input == EXPLAIN_KERNEL)
			owner.input = EXPLAIN_OFED;
		if (with || owner.input == EXPLAIN_KERNEL)
			return owner;
		/*
		 * The kernel's own tree has the exporter, but an OFED replaces such modules: which
		 * of the two was wrong shows in whether the module fits the rest of that kernel.
		 */
		fit = module ? explain_kernel_fit(module, files->symvers) : EXPLAIN_FIT_UNKNOWN;
		if (fit == EXPLAIN_FITS_NOT)
			owner.input = EXPLAIN_KERNEL;
		owner.guessed = fit == EXPLAIN_FIT_UNKNOWN;
		return owner;
	}
	/*
	 * module_layout is no function but the layout of struct module, which the headers decide.
	 * And modpost wrote down whose symbols a module uses: no module's means vmlinux's.
	 */
	if (strcmp(symbol, "module_layout") == 0 || (depends && !*depends))
		return owner;
	return (struct explain_owner){ .input = explain_guess(symbol), .guessed = true };
}

/* --- findings --- */

void explain_free(struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++) {
		struct explain_finding *finding = &explanation->items[i];

		free(finding->module);
		free(finding->image);
		strv_free(&finding->symbols);
		strv_free(&finding->lines);
		free(finding->because);
		free(finding->remedy);
		strv_free(&finding->evidence);
	}
	free(explanation->items);
	explain_causes_free(&explanation->causes);
	*explanation = (struct explanation){ 0 };
}

/* Two vermagics are long and alike: which part differs is the news. */
static void compare_vermagic(struct explain_finding *finding, const struct explain_field *built,
	const struct explain_field *running)
{
	_cleanup_free_ char *left = xstrndup(built->value, built->size);
	_cleanup_free_ char *right = xstrndup(running->value, running->size);
	_cleanup_strv_ struct strv was = { 0 };
	_cleanup_strv_ struct strv is = { 0 };

	xstrv_split(&was, left, " ");
	xstrv_split(&is, right, " ");
	for (size_t i = 0; i < was.count || i < is.count; i++) {
		const char *old = i < was.count ? was.items[i] : "";
		const char *now = i < is.count ? is.items[i] : "";

		if (strcmp(old, now) == 0)
			continue;
		xstrv_pushf(&finding->evidence,
			"%s: \"%s\" when it was compiled, \"%s\" in the kernel",
			i == 0 ? "another release" : "another configuration", old, now);
		return;
	}
}

static struct explain_finding *append(
	struct explanation *explanation, const struct explain_finding *finding)
{
	explanation->items = xreallocarray(
		explanation->items, explanation->count + 1, sizeof(*explanation->items));
	explanation->items[explanation->count] = *finding;
	return &explanation->items[explanation->count++];
}

/*
 * Findings of one cause in one module are one, whichever symbols they name. Events are several
 * where they say something else: of other images, GPUs or interfaces.
 */
static struct explain_finding *find_or_add(struct explanation *explanation,
	const struct explain_cause *cause, enum explain_input input, const char *module,
	const struct explain_fields *matched)
{
	const char *owner = explain_inputs[input].remedy;
	const struct explain_field *built = explain_field(matched, "text1");
	const struct explain_field *running = explain_field(matched, "text2");
	const struct explain_field *field = explain_field(matched, "image");
	const struct explain_files *files = explanation->files;
	_cleanup_free_ char *image = field ? xstrndup(field->value, field->size) : xstrdup("");
	_cleanup_free_ char *because = explain_fill(cause->because, matched);
	_cleanup_free_ char *build = NULL;
	struct explain_fields fields = *matched;
	struct explain_finding *finding;

	for (size_t i = 0; i < explanation->count; i++) {
		finding = &explanation->items[i];
		if (strcmp(finding->cause->id, cause->id) == 0 && finding->input == input &&
			strcmp(finding->module, module) == 0 &&
			strcmp(finding->image, image) == 0 &&
			(cause->rank != EXPLAIN_EVENT || strcmp(finding->because, because) == 0))
			return finding;
	}
	fields.items[fields.count++] =
		(struct explain_field){ "owner", strlen("owner"), owner, strlen(owner) };
	if (field && cause->remedy && strstr(cause->remedy, "{build}")) {
		build = explain_build_command(image, files ? files->options : NULL);
		fields.items[fields.count++] =
			(struct explain_field){ "build", strlen("build"), build, strlen(build) };
	}
	finding = append(explanation,
		&(struct explain_finding){
			.cause = cause,
			.input = input,
			.module = xstrdup(module),
			.image = TAKE_PTR(image),
			.because = TAKE_PTR(because),
			.remedy = explain_fill(cause->remedy ? cause->remedy : "{owner}", &fields),
		});
	if (built && running)
		compare_vermagic(finding, built, running);
	for (size_t i = 0; i < cause->details.count; i++)
		xstrv_push(&finding->evidence, cause->details.items[i]);
	return finding;
}

static void add(struct explanation *explanation, const struct explain_cause *cause,
	struct explain_fields *fields, const char *line)
{
	const struct explain_files *files = explanation->files;
	const struct elf_module *given = files ? files->module : NULL;
	const char *own = given ? elf_module_name(given) : NULL;
	const struct explain_field *symbol = explain_field(fields, "symbol");
	const struct explain_field *field = explain_field(fields, "module");
	struct explain_owner owner = { .input = cause->input };
	struct explain_finding *finding;
	char module[EXPLAIN_NAME_SIZE] = "", name[EXPLAIN_NAME_SIZE] = "";

	if (field)
		module_name_copy(field->value, field->size, module, sizeof(module));
	else
		(void) explain_loader_module(line, module, sizeof(module));
	if (symbol)
		(void) snprintf(name, sizeof(name), "%.*s", (int) symbol->size, symbol->value);
	/* If the line is about another module, the given one does not count. */
	if (cause->input == EXPLAIN_SYMBOL && symbol)
		owner = explain_find_owner(
			files, own && *module && strcmp(own, module) != 0 ? NULL : given, name);
	finding = find_or_add(explanation, cause, owner.input, module, fields);
	finding->guessed |= owner.guessed;
	if (*name)
		xstrv_push_unique(&finding->symbols, name);
	xstrv_push(&finding->lines, line);
}

/* An errno's text stands in many lines of a kernel's log that no module's loading is about. */
static bool is_result_line(const char *line)
{
	const char *start = line + strspn(line, " \t");
	char name[EXPLAIN_NAME_SIZE];

	return (*start != '[' && *start != '<' && !strstr(line, " kernel: ")) ||
	       explain_loader_module(line, name, sizeof(name));
}

/* Who copies a message may leave the module in front of it behind: @half. */
static bool match_cause(
	const struct explain_cause *cause, bool half, const char *line, struct explain_fields *ret)
{
	static const char front[] = "{module}: ";

	for (size_t i = 0; i < cause->patterns.count; i++) {
		const char *pattern = cause->patterns.items[i];
		const struct explain_field *symbol;

		if (half && strncmp(pattern, front, strlen(front)) != 0)
			continue;
		if (!explain_match(pattern + (half ? strlen(front) : 0), line, ret))
			continue;
		symbol = explain_field(ret, "symbol");
		if (!half || !symbol || isalpha((unsigned char) *symbol->value) ||
			strchr("_.", *symbol->value))
			return true;
	}
	return false;
}

/* "16", and what kubectl and shells say of an exit code; -1: the line is not about one. */
static int exit_code_in(const char *line, bool *ret_alone)
{
	static const char *const words[] = { "exit code", "exitCode", "exit status" };
	const char *start = line + strspn(line, " \t-");
	char *end;
	long code;

	*ret_alone = isdigit((unsigned char) *start);
	for (size_t i = 0; i < ARRAY_SIZE(words) && !*ret_alone; i++)
		if (strncasecmp(start, words[i], strlen(words[i])) == 0) {
			start += strlen(words[i]);
			start += strspn(start, ": \t\"");
			break;
		}
	if (!isdigit((unsigned char) *start))
		return -1;
	code = strtol(start, &end, 10);
	return end[strspn(end, " ,\t\r")] || code > 255 ? -1 : (int) code;
}

/* Adds the finding of slipway verify that @line is the id of. */
static bool add_named(struct explanation *explanation, const char *line)
{
	const struct explain_causes *causes = &explanation->causes;
	struct explain_fields none = { 0 };

	for (size_t i = 0; i < causes->count; i++) {
		if (!causes->rows[i].by_name || strcmp(causes->rows[i].id, line) != 0)
			continue;
		add(explanation, &causes->rows[i], &none, line);
		return true;
	}
	return false;
}

/* A reason or an exit code, given by itself. A container's are not those of slipway. */
static bool add_reason(struct explanation *explanation, const char *line)
{
	const struct explain_causes *causes = &explanation->causes;
	struct explain_fields none = { 0 };
	bool alone;
	int code = exit_code_in(line, &alone);
	bool found = false;

	for (size_t i = 0; i < causes->count; i++) {
		const struct explain_cause *cause = &causes->rows[i];
		bool is_ours = strcmp(cause->id, "exit") == 0;

		/* A container that ended with 0 is no news. */
		if (cause->exit_code < 0 || (code == 0 && !alone) ||
			(code < 0 && !isupper((unsigned char) *cause->id)) ||
			(code >= 0 ? cause->exit_code != code || (is_ours && !alone)
				   : strcasecmp(cause->id, line) != 0))
			continue;
		add(explanation, cause, &none, line);
		found = true;
	}
	return found;
}

/* Adds the first row that matches @text: the line itself, or the full form of it. */
static bool add_match(struct explanation *explanation, const char *text, const char *line)
{
	const struct explain_causes *causes = &explanation->causes;
	struct explain_fields fields;

	for (int half = 0; half < 2; half++)
		for (size_t i = 0; i < causes->count; i++) {
			const struct explain_cause *cause = &causes->rows[i];

			if (!half && cause->rank == EXPLAIN_RESULT && !is_result_line(text))
				continue;
			if (match_cause(cause, half, text, &fields)) {
				add(explanation, cause, &fields, line);
				return true;
			}
		}
	return false;
}

/*
 * Writes "Xid 79", "xid79", "Xid: 79" and the like as the driver does. NULL: the line has none. The
 * caller frees it.
 */
static char *full_xid(const char *line)
{
	for (const char *at = line; (at = strcasestr(at, "xid")); at++) {
		const char *number = at + strlen("xid");
		size_t digits;

		number += strspn(number, " ");
		if (*number == '(')
			number += strcspn(number, ")");
		number += strspn(number, ") :=#");
		digits = strspn(number, "0123456789");
		if ((at == line || !isalnum((unsigned char) at[-1])) && digits && digits <= 3 &&
			!isalnum((unsigned char) number[digits]))
			return xasprintf("NVRM: Xid (GPU): %.*s,", (int) digits, number);
	}
	return NULL;
}

static bool add_short_xid(struct explanation *explanation, const char *line)
{
	_cleanup_free_ char *text = full_xid(line);

	return text && add_match(explanation, text, line);
}

static bool add_misspelt_reason(struct explanation *explanation, const char *line)
{
	const struct explain_cause *cause = explain_reason_meant(&explanation->causes, line);
	struct explain_finding *finding;

	if (!cause)
		return false;
	finding = append(explanation,
		&(struct explain_finding){
			.cause = cause,
			.input = EXPLAIN_NONE,
			.module = xstrdup(""),
			.image = xstrdup(""),
			.because = xasprintf(
				"%s is no known reason: did you mean %s?", line, cause->id),
			.remedy = xasprintf("slipway explain %s; all reasons: slipway explain "
					    "--list",
				cause->id),
		});
	xstrv_push(&finding->lines, line);
	return true;
}

void explain_add_line(struct explanation *explanation, const char *line)
{
	if (line[strspn(line, " \t\r")] == '\0')
		return;
	if (!explanation->causes.count)
		explain_causes_read(&explanation->causes);
	explanation->lines++;
	if (!add_reason(explanation, line) && !add_named(explanation, line) &&
		!add_match(explanation, line, line) && !add_short_xid(explanation, line) &&
		!add_misspelt_reason(explanation, line))
		explanation->unknown++;
}

/* Is @less another line of what @more explains? */
static bool belongs(const struct explain_finding *less, const struct explain_finding *more)
{
	size_t family = strcspn(less->cause->id, "-"); /* what the message is about */
	bool vaguer = less->cause->rank < more->cause->rank ||
		      (!*less->image && *more->image && less->cause->rank == more->cause->rank);

	if (!vaguer || (*less->image && strcmp(less->image, more->image) != 0) ||
		(*less->module && *more->module && strcmp(less->module, more->module) != 0))
		return false;
	if (less->cause->rank == EXPLAIN_RESULT)
		return more->cause->rank == EXPLAIN_HINT || more->cause->rank == EXPLAIN_CAUSE;
	for (size_t i = 0; i < less->symbols.count; i++)
		if (!strv_contains(&more->symbols, less->symbols.items[i]))
			return false;
	return less->symbols.count || (strncmp(less->cause->id, more->cause->id, family) == 0 &&
					      strcspn(more->cause->id, "-") == family);
}

void explain_finish(struct explanation *explanation)
{
	struct explain_finding *items = explanation->items;

	/* Few findings: sorted by insertion, those of one rank stay in the order of the lines. */
	for (size_t i = 1; i < explanation->count; i++) {
		struct explain_finding moving = items[i];
		size_t k = i;

		for (; k && items[k - 1].cause->rank < moving.cause->rank; k--)
			items[k] = items[k - 1];
		items[k] = moving;
	}
	for (size_t i = explanation->count; i-- > 0;)
		for (size_t k = 0; k < explanation->count && !items[i].joined; k++) {
			if (k == i || items[k].joined || !belongs(&items[i], &items[k]))
				continue;
			for (size_t l = 0; l < items[i].lines.count; l++)
				xstrv_push(&items[k].lines, items[i].lines.items[l]);
			items[i].joined = true;
		}
}

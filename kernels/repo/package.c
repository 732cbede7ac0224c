/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/package.h"

#include <inttypes.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/krel.h"

#define BLANKS " \t\n"

void relation_free(struct relation *relation)
{
	free(relation->name);
	free(relation->sign);
	free(relation->version);
	*relation = (struct relation){ 0 };
}

/* "name:architecture (>= 1.2)" */
static void take_relation(const char *text, struct relation *relation)
{
	size_t length = strcspn(text, "(:[<,|" BLANKS);
	const char *rest = text + length;
	size_t sign = 0;

	relation->name = xstrndup(text, length);
	if (*rest == ':')
		rest += strcspn(rest, "([<,|" BLANKS);
	rest += strspn(rest, BLANKS);
	if (*rest != '(') {
		relation->sign = xstrdup("");
		relation->version = xstrdup("");
		return;
	}
	rest++;
	rest += strspn(rest, BLANKS);
	sign = strspn(rest, "<>=");
	relation->sign = xstrndup(rest, sign);
	rest += sign;
	rest += strspn(rest, BLANKS);
	relation->version = xstrndup(rest, strcspn(rest, ")" BLANKS));
}

bool relation_next(const char **cursor, struct relation *relation)
{
	const char *text = *cursor;

	for (;;) {
		relation_free(relation);
		text += strspn(text, "," BLANKS);
		relation->alternative = *text == '|';
		if (relation->alternative)
			text += 1 + strspn(text + 1, BLANKS);
		if (!*text)
			return false;
		take_relation(text, relation);
		text += strcspn(text, ",|");
		if (*relation->name) {
			*cursor = text;
			return true;
		}
	}
}

void package_free(struct package *package)
{
	free(package->name);
	free(package->version);
	free(package->architecture);
	free(package->source);
	free(package->depends);
	free(package->provides);
	free(package->path);
	free(package->sha256);
	*package = (struct package){ 0 };
}

bool list_number(const char *text, uint64_t *ret)
{
	if (!text || !*text || strlen(text) > 18 || text[strspn(text, "0123456789")])
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

static bool is_printable_word(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c <= ' ' || (unsigned char) *c >= 0x7f)
			return false;
	return *text != '\0';
}

bool package_path_is_safe(const char *path)
{
	if (!is_printable_word(path) || strchr(path, '\\'))
		return false;
	for (const char *part = path;; part++) {
		size_t length = strcspn(part, "/");

		if (length == 0 || (length == 1 && part[0] == '.') ||
			(length == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		part += length;
		if (!*part)
			return true;
	}
}

/* Names and versions become arguments of programs and parts of file names. */
static bool is_word_for_files(const char *text)
{
	return is_printable_word(text) && !strchr(text, '/') && *text != '-' && *text != '.';
}

static bool is_line(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			return false;
	return true;
}

int package_check(const struct package *package, const char *list, struct error *error)
{
	const char *wrong = NULL;

	if (!is_word_for_files(package->name))
		wrong = "a name";
	else if (!is_word_for_files(package->version))
		wrong = "a version";
	else if (!is_word_for_files(package->architecture))
		wrong = "an architecture";
	else if (!is_line(package->source) || !is_line(package->depends) ||
		 !is_line(package->provides))
		wrong = "control characters";
	else if (!package_path_is_safe(package->path))
		wrong = "a path";
	else if (!hash_is_hex(package->sha256))
		wrong = "a SHA-256";
	else if (package->size_bytes == 0 || package->size_bytes > PACKAGE_LIMIT_BYTES)
		wrong = "a size";
	if (!wrong)
		return 0;
	return error_set(error, -EPROTO,
		"%s: the package \"%.100s\" has %s that no package can have: the list is damaged "
		"or forged",
		list, package->name, wrong);
}

void package_write(const struct package *package, FILE *file)
{
	fprintf(file, "Package: %s\nVersion: %s\nArchitecture: %s\n", package->name,
		package->version, package->architecture);
	if (strcmp(package->source, package->name) != 0)
		fprintf(file, "Source: %s\n", package->source);
	if (*package->depends)
		fprintf(file, "Depends: %s\n", package->depends);
	if (*package->provides)
		fprintf(file, "Provides: %s\n", package->provides);
	fprintf(file, "Filename: %s\nSize: %" PRIu64 "\nSHA256: %s\n\n", package->path,
		package->size_bytes, package->sha256);
}

/* Counts what malloc() takes for itself, too: a package of short strings is mostly that. */
static size_t bytes_of(const struct package *package)
{
	const char *const texts[] = { package->name, package->version, package->architecture,
		package->source, package->depends, package->provides, package->path,
		package->sha256 };
	size_t bytes = sizeof(*package);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		bytes += 2 * sizeof(size_t) + (texts[i] ? strlen(texts[i]) + 1 : 0);
	return bytes;
}

int package_list_push(
	struct package_list *list, struct package *package, const char *name, struct error *error)
{
	list->bytes += bytes_of(package);
	if (list->bytes > PACKAGE_LIST_LIMIT_BYTES) {
		(void) error_set(error, -EFBIG,
			"%s: the list is too large: %zu of its packages for kernels and compilers "
			"already need over %zu MB",
			name, list->count, PACKAGE_LIST_LIMIT_BYTES >> 20);
		return error_try(error, -EFBIG, "use another mirror: --mirror URL");
	}
	if (list->count == list->capacity) {
		list->capacity = list->capacity ? list->capacity * 2 : 64;
		list->items = xreallocarray(list->items, list->capacity, sizeof(*list->items));
	}
	list->items[list->count++] = *package;
	*package = (struct package){ 0 };
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct package *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (order == 0)
		order = version_compare(left->version, right->version, false);
	if (order == 0)
		order = strcmp(left->version, right->version);
	if (order == 0)
		order = strcmp(left->architecture, right->architecture);
	return order ? order : strcmp(left->sha256, right->sha256);
}

void package_list_sort(struct package_list *list)
{
	size_t kept = 0;

	if (list->count)
		qsort(list->items, list->count, sizeof(*list->items), compare);
	for (size_t i = 0; i < list->count; i++) {
		if (kept && compare(&list->items[kept - 1], &list->items[i]) == 0)
			package_free(&list->items[i]);
		else
			list->items[kept++] = list->items[i];
	}
	list->count = kept;
}

void package_list_free(struct package_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		package_free(&list->items[i]);
	free(list->items);
	*list = (struct package_list){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/package.h"

#include <inttypes.h>
#include <string.h>

#include "common/hash.h"
#include "kernels/version.h"

#define BLANKS " \t\n"

void relation_free(struct relation *relation)
{
	free(relation->name);
	free(relation->sign);
	free(relation->version);
	*relation = (struct relation){ 0 };
}

/* "(>= 1.2)" at @text: its two parts. */
static int take_version(const char *text, struct relation *relation)
{
	size_t length = strspn(text, "<>=");
	size_t blanks = strspn(text + length, BLANKS);
	const char *version = text + length + blanks;

	relation->sign = strndup(text, length);
	relation->version = strndup(version, strcspn(version, ")" BLANKS));
	return relation->sign && relation->version ? 0 : -ENOMEM;
}

static int take_one(const char *text, struct relation *relation)
{
	size_t length = strcspn(text, "(:[<,|" BLANKS);
	const char *rest = text + length;

	relation->name = strndup(text, length);
	if (!relation->name)
		return -ENOMEM;
	if (*rest == ':') /* an architecture: "python3:any" */
		rest += strcspn(rest, "([<,|" BLANKS);
	rest += strspn(rest, BLANKS);
	if (*rest == '(') {
		rest++;
		return take_version(rest + strspn(rest, BLANKS), relation);
	}
	relation->sign = strdup("");
	relation->version = strdup("");
	return relation->sign && relation->version ? 0 : -ENOMEM;
}

int relation_next(const char **cursor, struct relation *ret)
{
	const char *text = *cursor;

	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		const char *end;
		int r;

		text += strspn(text, "," BLANKS);
		if (*text == '|') {
			relation.alternative = true;
			text++;
			text += strspn(text, BLANKS);
		}
		if (!*text)
			return 0;
		end = text + strcspn(text, ",|");
		r = take_one(text, &relation);
		if (r < 0)
			return r;
		text = end;
		if (!*relation.name)
			continue;
		*cursor = end;
		*ret = relation;
		relation = (struct relation){ 0 };
		return 1;
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

static bool is_printable_word(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c <= ' ' || (unsigned char) *c >= 0x7f)
			return false;
	return *text != '\0';
}

bool package_path_is_safe(const char *path)
{
	const char *part = path;

	if (!is_printable_word(path) || strchr(path, '\\'))
		return false;
	for (;;) {
		size_t length = strcspn(part, "/");

		if (length == 0 || (length == 1 && part[0] == '.') ||
			(length == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (!part[length])
			return true;
		part += length + 1;
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

static int unfit(
	const struct package *package, const char *list, const char *what, struct error *error)
{
	return error_set(error, -EPROTO,
		"%s: the package \"%.100s\" has %s that no package can have: the list is damaged "
		"or hostile",
		list, package->name, what);
}

int package_check(const struct package *package, const char *list, struct error *error)
{
	if (!is_word_for_files(package->name))
		return unfit(package, list, "a name", error);
	if (!is_word_for_files(package->version))
		return unfit(package, list, "a version", error);
	if (!is_word_for_files(package->architecture))
		return unfit(package, list, "an architecture", error);
	if (!is_line(package->source) || !is_line(package->depends) || !is_line(package->provides))
		return unfit(package, list, "control characters", error);
	if (!package_path_is_safe(package->path))
		return unfit(package, list, "a path", error);
	if (!hash_is_hex(package->sha256))
		return unfit(package, list, "a SHA-256", error);
	return 0;
}

/* A value on one line; NULL without memory. */
static char *value_of(const struct stanza *stanza, const char *name)
{
	const char *value = stanza_value(stanza, name);
	char *copy = strdup(value ? value : "");

	for (char *c = copy; c && *c; c++)
		if (*c == '\n')
			*c = ' ';
	return copy;
}

/* "linux-signed-amd64 (6.1.192+2)" is the source linux-signed-amd64; where it is left out, it has
 * the package's name. */
static char *source_of(const struct stanza *stanza, const char *package)
{
	char *source = value_of(stanza, "Source");

	if (!source)
		return NULL;
	if (!*source) {
		free(source);
		return strdup(package);
	}
	source[strcspn(source, " (")] = '\0';
	return source;
}

static int missing(
	const struct stanza *stanza, const char *list, const char *field, struct error *error)
{
	const char *name = stanza_value(stanza, "Package");

	return error_set(error, -EPROTO, "%s: the stanza at byte %" PRIu64 " (%.100s) has no %s",
		list, stanza->offset, name ? name : "without a name", field);
}

static int check_fields(const struct stanza *stanza, const char *list, struct error *error)
{
	static const char *const wanted[] = { "Package", "Version", "Architecture", "Filename",
		"Size", "SHA256" };
	const char *size;

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!stanza_value(stanza, wanted[i]))
			return missing(stanza, list, wanted[i], error);
	size = stanza_value(stanza, "Size");
	if (!*size || strlen(size) > 18 || size[strspn(size, "0123456789")])
		return missing(stanza, list, "Size that is a number", error);
	return 0;
}

int package_from_stanza(
	const struct stanza *stanza, const char *list, struct package *ret, struct error *error)
{
	_cleanup_(package_free) struct package package = { 0 };
	int r = check_fields(stanza, list, error);

	if (r < 0)
		return r;
	package.name = value_of(stanza, "Package");
	package.version = value_of(stanza, "Version");
	package.architecture = value_of(stanza, "Architecture");
	package.depends = value_of(stanza, "Depends");
	package.provides = value_of(stanza, "Provides");
	package.sha256 = value_of(stanza, "SHA256");
	package.path = value_of(stanza, "Filename");
	package.source = package.name ? source_of(stanza, package.name) : NULL;
	if (!package.name || !package.version || !package.architecture || !package.depends ||
		!package.provides || !package.sha256 || !package.path || !package.source)
		return error_set_errno(error, -ENOMEM, "%s", list);
	package.size_bytes = strtoull(stanza_value(stanza, "Size"), NULL, 10);
	/* Some repositories write "./pool/…". */
	if (strncmp(package.path, "./", 2) == 0)
		memmove(package.path, package.path + 2, strlen(package.path) - 1);
	r = package_check(&package, list, error);
	if (r < 0)
		return r;
	*ret = package;
	package = (struct package){ 0 };
	return 0;
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

int package_list_push(struct package_list *list, struct package *package)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 64;
		struct package *grown = reallocarray(list->items, capacity, sizeof(*grown));

		if (!grown) {
			package_free(package);
			return -ENOMEM;
		}
		list->items = grown;
		list->capacity = capacity;
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
		order = version_compare(left->version, right->version);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* "Field: value" lists, and what apt writes in that form: Release and Packages. */
#include <inttypes.h>
#include <locale.h>
#include <string.h>
#include <strings.h>

#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"

struct stanza_reader {
	const char *list;
	stanza_handler handler;
	void *context;
	/*
	 * Names and values of the stanza that is read, each ended by a NUL, then the line. It has
	 * room for the largest stanza from the start and never moves: pages that are not written
	 * cost nothing.
	 */
	char *text;
	size_t size;
	size_t line; /* where in @text the line starts */
	struct stanza_field *fields;
	size_t count;
	size_t capacity;
	uint64_t offset; /* of the line */
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

struct stanza_reader *stanza_reader_new(const char *name, stanza_handler handler, void *context)
{
	struct stanza_reader *reader = xcalloc(1, sizeof(*reader));

	reader->list = name;
	reader->handler = handler;
	reader->context = context;
	reader->text = xreallocarray(NULL, STANZA_LIMIT, 1);
	return reader;
}

void stanza_reader_free(struct stanza_reader **reader)
{
	if (!*reader)
		return;
	free((*reader)->text);
	free((*reader)->fields);
	free(TAKE_PTR(*reader));
}

static int malformed(const struct stanza_reader *reader, const char *why, struct error *error)
{
	return error_set(error, -EPROTO,
		"%s: malformed at byte %llu: %s: the list is damaged or not a package list",
		reader->list, (unsigned long long) reader->offset, why);
}

static int too_big(
	const struct stanza_reader *reader, const char *what, size_t limit, struct error *error)
{
	return error_set(error, -EFBIG,
		"%s: a %s of more than %zu bytes at byte %llu is not "
		"allowed",
		reader->list, what, limit, (unsigned long long) reader->offset);
}

static int append(struct stanza_reader *reader, const char *data, size_t size, struct error *error)
{
	if (reader->size - reader->line + size > STANZA_LINE_LIMIT)
		return too_big(reader, "line", STANZA_LINE_LIMIT, error);
	if (reader->size + size + 2 > STANZA_LIMIT) /* a folded line's '\n' and the NUL */
		return too_big(reader, "stanza", STANZA_LIMIT, error);
	memcpy(reader->text + reader->size, data, size);
	reader->size += size;
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
	char *value;

	if (!colon || colon == line)
		return malformed(reader, "a line is not \"Field: value\"", error);
	for (const char *c = line; c < colon; c++)
		if ((unsigned char) *c <= ' ' || (unsigned char) *c >= 0x7f)
			return malformed(reader, "a field name with a blank in it", error);
	if (reader->count == reader->capacity) {
		reader->capacity = reader->capacity ? reader->capacity * 2 : 32;
		reader->fields =
			xreallocarray(reader->fields, reader->capacity, sizeof(*reader->fields));
	}
	if (reader->count == 0)
		reader->stanza_offset = reader->offset;
	*colon = '\0';
	line[length] = '\0';
	value = colon + 1;
	while (is_blank(*value))
		value++;
	reader->fields[reader->count++] = (struct stanza_field){ .name = line, .value = value };
	reader->line += length + 1;
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
	length -= blanks;
	line[-1] = '\n';
	memmove(line, line + blanks, length);
	line[length] = '\0';
	reader->line += length + 1;
	return 0;
}

static int end_stanza(struct stanza_reader *reader, struct error *error)
{
	const struct stanza stanza = {
		.fields = reader->fields, .count = reader->count, .offset = reader->stanza_offset
	};

	reader->line = 0;
	reader->count = 0;
	return stanza.count ? reader->handler(reader->context, &stanza, error) : 0;
}

static int end_line(struct stanza_reader *reader, struct error *error)
{
	size_t length = reader->size - reader->line;
	const char *line = reader->text + reader->line;
	int r;

	if (memchr(line, '\0', length))
		return malformed(reader, "a NUL byte", error);
	while (length && is_blank(line[length - 1]))
		length--;
	if (length == 0)
		r = end_stanza(reader, error);
	else if (is_blank(line[0]))
		r = end_folded(reader, length, error);
	else
		r = end_field(reader, length, error);
	reader->size = reader->line;
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
		return error_try(error,
			error_set(error, -EPROTO,
				"%s: ends in the middle of a line, at byte %llu: the list is cut "
				"short",
				reader->list, (unsigned long long) reader->fed),
			"fetch it again: --refresh");
	return end_stanza(reader, error);
}

/* ---- Packages */

/* A value on one line. */
static char *value_of(const struct stanza *stanza, const char *name)
{
	const char *value = stanza_value(stanza, name);
	char *copy = xstrdup(value ? value : "");

	for (char *c = copy; *c; c++)
		if (*c == '\n')
			*c = ' ';
	return copy;
}

static int missing(
	const struct stanza *stanza, const char *list, const char *field, struct error *error)
{
	const char *name = stanza_value(stanza, "Package");

	return error_set(error, -EPROTO, "%s: the stanza at byte %" PRIu64 " (%.100s) has no %s",
		list, stanza->offset, name ? name : "without a name", field);
}

int package_from_stanza(
	const struct stanza *stanza, const char *list, struct package *ret, struct error *error)
{
	static const char *const wanted[] = { "Package", "Version", "Architecture", "Filename",
		"Size", "SHA256" };
	_cleanup_(package_free) struct package package = { 0 };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (!stanza_value(stanza, wanted[i]))
			return missing(stanza, list, wanted[i], error);
	if (!list_number(stanza_value(stanza, "Size"), &package.size_bytes))
		return missing(stanza, list, "numeric Size", error);
	package.name = value_of(stanza, "Package");
	package.version = value_of(stanza, "Version");
	package.architecture = value_of(stanza, "Architecture");
	package.source = value_of(stanza, "Source");
	package.depends = value_of(stanza, "Depends");
	package.provides = value_of(stanza, "Provides");
	package.sha256 = value_of(stanza, "SHA256");
	package.path = value_of(stanza, "Filename");
	/* "linux-signed-amd64 (6.1.192+2)"; left out, it is the package's own name. */
	if (*package.source) {
		package.source[strcspn(package.source, " (")] = '\0';
	} else {
		free(package.source);
		package.source = xstrdup(package.name);
	}
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

/* ---- Release */

struct release_job {
	struct release *release;
	const char *name;
	bool seen;
};

void release_free(struct release *release)
{
	for (size_t i = 0; i < release->count; i++)
		free(release->files[i].path);
	free(release->files);
	free(release->suite);
	free(release->codename);
	free(release->date);
	*release = (struct release){ 0 };
}

const struct release_file *release_find(const struct release *release, const char *path)
{
	for (size_t i = 0; i < release->count; i++)
		if (strcmp(release->files[i].path, path) == 0)
			return &release->files[i];
	return NULL;
}

int release_date(const char *text, int64_t *ret_s)
{
	static const char *const zones[] = { " UTC", " GMT", " +0000", " Z" };
	const char *comma = strchr(text, ',');
	/* Months in English, whatever the user's language. */
	locale_t english = newlocale(LC_TIME_MASK, "C", (locale_t) 0);
	struct tm date = { 0 };
	const char *zone;

	if (!english)
		out_of_memory();
	zone = strptime_l(comma ? comma + 1 : text, " %d %b %Y %H:%M:%S", &date, english);
	freelocale(english);
	for (size_t i = 0; zone && i < ARRAY_SIZE(zones); i++)
		if (strcmp(zone, zones[i]) == 0) {
			*ret_s = (int64_t) timegm(&date);
			return *ret_s < 0 ? -EINVAL : 0;
		}
	return -EINVAL;
}

/* "<64 digits> <size> <path>" */
static int take_line(const struct release_job *job, char *line, struct error *error)
{
	struct release *release = job->release;
	struct release_file *file;
	char *next;
	char *hex = strtok_r(line, " \t", &next);
	char *size = strtok_r(NULL, " \t", &next);
	char *path = strtok_r(NULL, " \t", &next);
	uint64_t size_bytes;

	if (!hex)
		return 0;
	if (!size || !path || strtok_r(NULL, " \t", &next) || !hash_is_hex(hex) ||
		!list_number(size, &size_bytes))
		return error_set(error, -EPROTO,
			"%s: SHA256: \"%.80s\" is not \"hash size path\": the file is damaged",
			job->name, hex);
	if (!package_path_is_safe(path))
		return error_set(error, -EPROTO,
			"%s: names the file \"%.200s\", which is not below the suite's folder: "
			"refused",
			job->name, path);
	if (release->count == release->capacity) {
		release->capacity = release->capacity ? release->capacity * 2 : 256;
		release->files =
			xreallocarray(release->files, release->capacity, sizeof(*release->files));
	}
	file = &release->files[release->count++];
	*file = (struct release_file){ .size_bytes = size_bytes, .path = xstrdup(path) };
	memcpy(file->sha256, hex, HASH_HEX_SIZE);
	return 0;
}

static bool is_yes(const struct stanza *stanza, const char *field)
{
	const char *value = stanza_value(stanza, field);

	return value && strcasecmp(value, "yes") == 0;
}

static int take_release(void *context, const struct stanza *stanza, struct error *error)
{
	struct release_job *job = context;
	struct release *release = job->release;
	const char *files = stanza_value(stanza, "SHA256");
	const char *until = stanza_value(stanza, "Valid-Until");
	_cleanup_free_ char *copy = NULL;
	char *next = NULL;

	if (job->seen)
		return error_set(error, -EPROTO, "%s: there is more after its end, at byte %llu",
			job->name, (unsigned long long) stanza->offset);
	job->seen = true;
	if (!files && (stanza_value(stanza, "MD5Sum") || stanza_value(stanza, "SHA1")))
		return error_set(error, -EKEYREJECTED,
			"%s: its lists have only MD5 or SHA-1 hashes, which can be forged: use a "
			"newer mirror of this suite, or give the packages with --kernel-from",
			job->name);
	if (!files)
		return error_set(error, -EPROTO, "%s: not a Release file: it has no SHA256 field",
			job->name);
	release->suite = value_of(stanza, "Suite");
	release->codename = value_of(stanza, "Codename");
	release->date = value_of(stanza, "Date");
	if (until && release_date(until, &release->valid_until_s) < 0)
		return error_set(error, -EPROTO, "%s: Valid-Until: \"%.80s\" is not a date",
			job->name, until);
	release->by_hash = is_yes(stanza, "Acquire-By-Hash");
	release->not_automatic = is_yes(stanza, "NotAutomatic");
	copy = xstrdup(files);
	for (char *line = strtok_r(copy, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		int r = take_line(job, line, error);

		if (r < 0)
			return r;
	}
	return 0;
}

int release_parse(
	const char *text, size_t size, const char *name, struct release *ret, struct error *error)
{
	_cleanup_(release_free) struct release release = { 0 };
	struct release_job job = { .release = &release, .name = name };
	_cleanup_(stanza_reader_free) struct stanza_reader *reader =
		stanza_reader_new(name, take_release, &job);
	int r = stanza_reader_feed(reader, text, size, error);

	/* The last line's end is not part of what a clear signature covers. */
	if (r == 0 && size && text[size - 1] != '\n')
		r = stanza_reader_feed(reader, "\n", 1, error);
	if (r == 0)
		r = stanza_reader_finish(reader, error);
	if (r < 0)
		return r;
	if (!job.seen)
		return error_set(error, -EPROTO, "%s: is empty", name);
	*ret = release;
	release = (struct release){ 0 };
	return 0;
}

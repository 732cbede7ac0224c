/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/release.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "kernels/repo/package.h"
#include "kernels/repo/stanza.h"

struct job {
	struct release *release;
	const char *name;
	size_t capacity;
	bool seen;
};

void release_free(struct release *release)
{
	for (size_t i = 0; i < release->count; i++)
		free(release->files[i].path);
	free(release->files);
	free(release->origin);
	free(release->label);
	free(release->suite);
	free(release->codename);
	free(release->date);
	free(release->valid_until);
	*release = (struct release){ 0 };
}

static int compare(const void *a, const void *b)
{
	const struct release_file *left = a, *right = b;

	return strcmp(left->path, right->path);
}

const struct release_file *release_find(const struct release *release, const char *path)
{
	size_t low = 0, high = release->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(path, release->files[middle].path);

		if (order == 0)
			return &release->files[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* Months by name, not by strptime(): that would read them in the user's language. */
static int month_of(const char *name)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int i = 0; i < 12; i++)
		if (strncasecmp(name, months + (size_t) 3 * (size_t) i, 3) == 0)
			return i;
	return -1;
}

int release_date(const char *text, int64_t *ret_s)
{
	struct tm date = { 0 };
	char month[4], zone[8];
	int end = 0;
	const char *comma = strchr(text, ',');

	if (sscanf(comma ? comma + 1 : text, " %2d %3s %4d %2d:%2d:%2d %7s%n", &date.tm_mday, month,
		    &date.tm_year, &date.tm_hour, &date.tm_min, &date.tm_sec, zone, &end) != 7 ||
		(comma ? comma + 1 : text)[end])
		return -EINVAL;
	if (strcmp(zone, "UTC") != 0 && strcmp(zone, "GMT") != 0 && strcmp(zone, "+0000") != 0 &&
		strcmp(zone, "Z") != 0)
		return -EINVAL;
	date.tm_mon = month_of(month);
	if (date.tm_mon < 0 || date.tm_mday < 1 || date.tm_mday > 31 || date.tm_year < 1970 ||
		date.tm_hour > 23 || date.tm_min > 59 || date.tm_sec > 60 || date.tm_hour < 0 ||
		date.tm_min < 0 || date.tm_sec < 0)
		return -EINVAL;
	date.tm_year -= 1900;
	*ret_s = (int64_t) timegm(&date);
	return 0;
}

static int take_file(
	struct job *job, const char *hex, uint64_t size, const char *path, struct error *error)
{
	struct release *release = job->release;
	struct release_file *file;

	if (release->count == job->capacity) {
		size_t capacity = job->capacity ? job->capacity * 2 : 256;
		struct release_file *grown = reallocarray(release->files, capacity, sizeof(*grown));

		if (!grown)
			return error_set_errno(error, -ENOMEM, "%s", job->name);
		release->files = grown;
		job->capacity = capacity;
	}
	file = &release->files[release->count];
	*file = (struct release_file){ .size_bytes = size, .path = strdup(path) };
	if (!file->path)
		return error_set_errno(error, -ENOMEM, "%s", job->name);
	memcpy(file->sha256, hex, HASH_HEX_SIZE);
	release->count++;
	return 0;
}

/* "<64 digits> <size> <path>" */
static int take_line(struct job *job, char *line, struct error *error)
{
	char *next;
	char *hex = strtok_r(line, " \t", &next);
	char *size = strtok_r(NULL, " \t", &next);
	char *path = strtok_r(NULL, " \t", &next);

	if (!hex)
		return 0;
	if (!size || !path || strtok_r(NULL, " \t", &next) || !hash_is_hex(hex) ||
		strlen(size) > 18 || size[strspn(size, "0123456789")])
		return error_set(error, -EPROTO,
			"%s: SHA256: \"%.80s\" is no \"hash size path\": the file is damaged",
			job->name, hex);
	if (!package_path_is_safe(path))
		return error_set(error, -EPROTO,
			"%s: names the file \"%.200s\", which is not below the suite's folder: "
			"refused",
			job->name, path);
	return take_file(job, hex, strtoull(size, NULL, 10), path, error);
}

static int take_files(struct job *job, const char *value, struct error *error)
{
	_cleanup_free_ char *copy = strdup(value);
	char *next = NULL;
	int r = 0;

	if (!copy)
		return error_set_errno(error, -ENOMEM, "%s", job->name);
	for (char *line = strtok_r(copy, "\n", &next); line && r == 0;
		line = strtok_r(NULL, "\n", &next))
		r = take_line(job, line, error);
	return r;
}

static int take_texts(struct release *release, const struct stanza *stanza)
{
	const struct {
		const char *field;
		char **slot;
	} texts[] = {
		{ "Origin", &release->origin },
		{ "Label", &release->label },
		{ "Suite", &release->suite },
		{ "Codename", &release->codename },
		{ "Date", &release->date },
		{ "Valid-Until", &release->valid_until },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *value = stanza_value(stanza, texts[i].field);

		*texts[i].slot = strdup(value && !strchr(value, '\n') ? value : "");
		if (!*texts[i].slot)
			return -ENOMEM;
	}
	return 0;
}

static bool is_yes(const struct stanza *stanza, const char *field)
{
	const char *value = stanza_value(stanza, field);

	return value && strcasecmp(value, "yes") == 0;
}

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct job *job = context;
	struct release *release = job->release;
	const char *files = stanza_value(stanza, "SHA256");

	if (job->seen)
		return error_set(error, -EPROTO, "%s: goes on after its end, at byte %llu",
			job->name, (unsigned long long) stanza->offset);
	job->seen = true;
	if (!files && (stanza_value(stanza, "MD5Sum") || stanza_value(stanza, "SHA1")))
		return error_set(error, -EKEYREJECTED,
			"%s: names its lists by MD5 or SHA-1 only, which can be forged: refused: use "
			"a newer mirror of this suite, or pass the packages with --kernel-from",
			job->name);
	if (!files)
		return error_set(error, -EPROTO, "%s: is no Release file: it has no SHA256 field",
			job->name);
	if (take_texts(release, stanza) < 0)
		return error_set_errno(error, -ENOMEM, "%s", job->name);
	if (*release->valid_until &&
		release_date(release->valid_until, &release->valid_until_s) < 0)
		return error_set(error, -EPROTO, "%s: Valid-Until: \"%.80s\" is no date", job->name,
			release->valid_until);
	release->by_hash = is_yes(stanza, "Acquire-By-Hash");
	release->not_automatic = is_yes(stanza, "NotAutomatic");
	return take_files(job, files, error);
}

int release_parse(
	const char *text, size_t size, const char *name, struct release *ret, struct error *error)
{
	_cleanup_(release_free) struct release release = { 0 };
	struct job job = { .release = &release, .name = name };
	_cleanup_(stanza_reader_free) struct stanza_reader *reader =
		stanza_reader_new(name, on_stanza, &job);
	int r;

	if (!reader)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = stanza_reader_feed(reader, text, size, error);
	/* The last line's end is not part of what a clear signature covers. */
	if (r == 0 && size && text[size - 1] != '\n')
		r = stanza_reader_feed(reader, "\n", 1, error);
	if (r == 0)
		r = stanza_reader_finish(reader, error);
	if (r < 0)
		return r;
	if (!job.seen)
		return error_set(error, -EPROTO, "%s: is empty", name);
	if (release.count)
		qsort(release.files, release.count, sizeof(*release.files), compare);
	*ret = release;
	release = (struct release){ 0 };
	return 0;
}

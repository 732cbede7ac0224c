/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/fs.h"
#include "kernels/repo/index_job_internal.h"
#include "kernels/repo/package.h"
#include "kernels/repo/release_internal.h"
#include "kernels/repo/signature.h"
#include "kernels/repo/stanza_internal.h"
#include "kernels/repo/stream_internal.h"

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

static int take_release_file(void *context, const struct stanza *stanza, struct error *error)
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
		stanza_reader_new(name, take_release_file, &job);
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

/* While a stanza grows its text may move, hence positions instead of pointers. */
struct place {
	size_t name;
	size_t value;
};

struct stanza_reader {
	char *list;
	stanza_handler handler;
	void *context;
	char *text; /* names and values of the stanza at hand, each ended by a NUL, and the line */
	size_t size;
	size_t capacity;
	size_t line; /* where in @text the line at hand starts */
	struct place *places;
	struct stanza_field *fields;
	size_t count;
	size_t places_capacity;
	uint64_t offset; /* of the line at hand */
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
	_cleanup_(stanza_reader_free) struct stanza_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->handler = handler;
	reader->context = context;
	reader->list = strdup(name);
	return reader->list ? TAKE_PTR(reader) : NULL;
}

void stanza_reader_free(struct stanza_reader **reader)
{
	if (!*reader)
		return;
	free((*reader)->list);
	free((*reader)->text);
	free((*reader)->places);
	free((*reader)->fields);
	free(*reader);
	*reader = NULL;
}

static int malformed(const struct stanza_reader *reader, const char *why, struct error *error)
{
	return error_set(error, -EPROTO,
		"%s: malformed at byte %llu: %s: the list is damaged or is no such list",
		reader->list, (unsigned long long) reader->offset, why);
}

static int too_big(
	const struct stanza_reader *reader, const char *what, size_t limit, struct error *error)
{
	return error_set(error, -EFBIG, "%s: a %s of more than %zu bytes at byte %llu: refused",
		reader->list, what, limit, (unsigned long long) reader->offset);
}

static int append(struct stanza_reader *reader, const char *data, size_t size, struct error *error)
{
	size_t needed = reader->size + size + 2; /* a folded line's '\n' and the NUL */

	if (reader->size - reader->line + size > STANZA_LINE_LIMIT)
		return too_big(reader, "line", STANZA_LINE_LIMIT, error);
	if (needed > STANZA_LIMIT)
		return too_big(reader, "stanza", STANZA_LIMIT, error);
	if (needed > reader->capacity) {
		size_t capacity = needed < 4096 ? 4096 : needed * 2;
		char *grown = realloc(reader->text, capacity);

		if (!grown)
			return error_set_errno(error, -ENOMEM, "%s", reader->list);
		reader->text = grown;
		reader->capacity = capacity;
	}
	memcpy(reader->text + reader->size, data, size);
	reader->size += size;
	return 0;
}

static int grow_places(struct stanza_reader *reader)
{
	size_t capacity = reader->places_capacity ? reader->places_capacity * 2 : 32;
	struct place *places = reallocarray(reader->places, capacity, sizeof(*places));
	struct stanza_field *fields;

	if (!places)
		return -ENOMEM;
	reader->places = places;
	fields = reallocarray(reader->fields, capacity, sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	reader->fields = fields;
	reader->places_capacity = capacity;
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
	size_t value;

	if (!colon || colon == line)
		return malformed(reader, "a line that is no \"Field: value\"", error);
	for (const char *c = line; c < colon; c++)
		if ((unsigned char) *c <= ' ' || (unsigned char) *c >= 0x7f)
			return malformed(reader, "a field name with a blank in it", error);
	if (reader->count == reader->places_capacity && grow_places(reader) < 0)
		return error_set_errno(error, -ENOMEM, "%s", reader->list);
	if (reader->count == 0)
		reader->stanza_offset = reader->offset;
	value = (size_t) (colon - line) + 1;
	while (value < length && is_blank(line[value]))
		value++;
	*colon = '\0';
	line[length] = '\0';
	reader->places[reader->count++] =
		(struct place){ .name = reader->line, .value = reader->line + value };
	reader->size = reader->line + length + 1;
	reader->line = reader->size;
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
	line[-1] = '\n';
	memmove(line, line + blanks, length - blanks);
	line[length - blanks] = '\0';
	reader->size = reader->line + length - blanks + 1;
	reader->line = reader->size;
	return 0;
}

static int end_stanza(struct stanza_reader *reader, struct error *error)
{
	struct stanza stanza = {
		.fields = reader->fields, .count = reader->count, .offset = reader->stanza_offset
	};

	for (size_t i = 0; i < reader->count; i++)
		reader->fields[i] = (struct stanza_field){
			.name = reader->text + reader->places[i].name,
			.value = reader->text + reader->places[i].value,
		};
	reader->size = 0;
	reader->line = 0;
	reader->count = 0;
	return stanza.count ? reader->handler(reader->context, &stanza, error) : 0;
}

static int end_line(struct stanza_reader *reader, struct error *error)
{
	size_t length = reader->size - reader->line;
	const char *line = reader->text + reader->line;
	int r;

	if (length && memchr(line, '\0', length))
		return malformed(reader, "a NUL byte", error);
	while (length && is_blank(line[length - 1]))
		length--;
	if (length == 0) {
		reader->size = reader->line;
		r = end_stanza(reader, error);
	} else if (is_blank(line[0])) {
		r = end_folded(reader, length, error);
	} else {
		r = end_field(reader, length, error);
	}
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
		return error_set(error, -EPROTO,
			"%s: ends in the middle of a line, at byte %llu: the list is cut: fetch it "
			"again with --refresh",
			reader->list, (unsigned long long) reader->fed);
	return end_stanza(reader, error);
}

/*
 * The lists of an apt suite: InRelease, or Release and Release.gpg, then Packages of each
 * component. https://wiki.debian.org/DebianRepository/Format
 */

#define RELEASE_LIMIT_BYTES ((uint64_t) 32 << 20)
#define LIST_LIMIT_BYTES    ((uint64_t) 1 << 30)

/* Smallest first: what apt's own lists come in. "" is the list as it is. */
static const char *const suffixes[] = { ".xz", ".zst", ".bz2", ".gz", "" };

struct component {
	char *list;     /* "main/binary-amd64/Packages" */
	size_t attempt; /* counts through the suffixes, twice where there is by-hash */
	const struct release_file *file; /* of the attempt at hand */
	size_t number;                   /* of its file in this round */
	bool done;
};

enum stage { STAGE_IN_RELEASE, STAGE_RELEASE, STAGE_LISTS };

struct apt_state {
	enum stage stage;
	struct release release;
	struct component *components;
	size_t count;
};

static void apt_free(struct index_job *job)
{
	struct apt_state *state = job->state;

	if (!state)
		return;
	for (size_t i = 0; i < state->count; i++)
		free(state->components[i].list);
	free(state->components);
	release_free(&state->release);
	free(state);
	job->state = NULL;
}

static const char *apt_arch(const char *arch)
{
	static const char *const names[][2] = { { "x86_64", "amd64" }, { "aarch64", "arm64" },
		{ "ppc64le", "ppc64el" }, { "armv7l", "armhf" }, { "i686", "i386" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(arch, names[i][0]) == 0)
			return names[i][1];
	return arch;
}

static int want_of_suite(
	struct index_job *job, const char *name, bool conditional, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	struct wanted_file wanted = {
		.name = name, .limit_bytes = RELEASE_LIMIT_BYTES, .conditional = conditional
	};

	if (asprintf(&path, "dists/%s/%s", job->request->repository->suite, name) < 0)
		return error_set_errno(error, -ENOMEM, "%s", name);
	wanted.path = path;
	return index_job_want(job, &wanted, error);
}

static int apt_start(struct index_job *job, struct error *error)
{
	job->state = calloc(1, sizeof(struct apt_state));
	if (!job->state)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	return want_of_suite(job, "InRelease", true, error);
}

/* "bookworm" is what Debian's file calls Codename, "jammy-updates" what Ubuntu's calls Suite. */
static int check_suite(const struct index_job *job, const struct release *release, const char *name,
	struct error *error)
{
	const char *suite = job->request->repository->suite;

	if (strcmp(release->suite, suite) == 0 || strcmp(release->codename, suite) == 0)
		return 0;
	return error_set(error, -EKEYREJECTED,
		"%s: is the signed file of the suite \"%.60s\" (codename \"%.60s\"), not of %s: the "
		"mirror serves one suite for another: use another with --mirror",
		name, release->suite, release->codename, suite);
}

static int read_release(
	struct index_job *job, const char *file, const char *url, struct error *error)
{
	struct apt_state *state = job->state;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(job->work_fd, file, RELEASE_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", url);
	r = release_parse(text, size, url, &state->release, error);
	if (r == 0)
		r = check_suite(job, &state->release, url, error);
	if (r == 0)
		r = index_check_expiry(
			job->request, job->options, state->release.valid_until_s, error);
	if (r < 0)
		return r;
	job->made.valid_until_s = state->release.valid_until_s;
	job->made.not_automatic = state->release.not_automatic;
	job->made.date = strdup(state->release.date);
	return job->made.date ? 0 : error_set_errno(error, -ENOMEM, "%s", url);
}

static const struct release_file *file_of(
	const struct release *release, const char *list, const char *suffix)
{
	char path[512];

	if (snprintf(path, sizeof(path), "%s%s", list, suffix) >= (int) sizeof(path))
		return NULL;
	return release_find(release, path);
}

/* A list that is empty, as those of most components of a security suite, need not be fetched. */
static bool is_empty_list(const struct release *release, const char *list)
{
	const struct release_file *plain = file_of(release, list, "");

	return plain && plain->size_bytes == 0;
}

static int add_components(struct index_job *job, struct error *error)
{
	const struct repository *repository = job->request->repository;
	struct apt_state *state = job->state;
	_cleanup_strv_ struct strv names = { 0 };
	bool listed = false;

	if (strv_split(&names, repository->components, " \t\n") < 0)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	state->components = calloc(names.count ? names.count : 1, sizeof(*state->components));
	if (!state->components)
		return error_set_errno(error, -ENOMEM, "%s", job->request->url);
	for (size_t i = 0; i < names.count; i++) {
		struct component component = { 0 };

		if (asprintf(&component.list, "%s/binary-%s/Packages", names.items[i],
			    apt_arch(job->request->arch)) < 0)
			return error_set_errno(error, -ENOMEM, "%s", job->request->url);
		for (size_t j = 0; j < ARRAY_SIZE(suffixes) && !component.file; j++)
			component.file = file_of(&state->release, component.list, suffixes[j]);
		listed = listed || component.file;
		component.done = !component.file || is_empty_list(&state->release, component.list);
		state->components[state->count++] = component;
	}
	if (listed)
		return 0;
	return error_set(error, -EADDRNOTAVAIL,
		"%s: the suite %s has no packages for %s in any of the components %s: see --arch "
		"and the catalogue's file of this distribution",
		job->request->url, repository->suite, apt_arch(job->request->arch),
		repository->components);
}

/* The component's next place to try: its file by hash, then by name, of each packing. */
static bool next_attempt(
	const struct release *release, struct component *component, bool *ret_by_hash)
{
	for (; component->attempt < 2 * ARRAY_SIZE(suffixes); component->attempt++) {
		const char *suffix = suffixes[component->attempt / 2];

		*ret_by_hash = component->attempt % 2 == 0;
		component->file = file_of(release, component->list, suffix);
		if (!component->file || (*ret_by_hash && !release->by_hash))
			continue;
		component->attempt++;
		return true;
	}
	return false;
}

static int want_list(
	struct index_job *job, struct component *component, bool by_hash, struct error *error)
{
	const char *suite = job->request->repository->suite;
	const struct release_file *file = component->file;
	_cleanup_free_ char *path = NULL;
	char name[32];
	struct wanted_file wanted = { .name = name,
		.sha256 = file->sha256,
		.size_bytes = file->size_bytes,
		.limit_bytes = LIST_LIMIT_BYTES };
	int r;

	(void) snprintf(name, sizeof(name), "list-%zu", job->file_count);
	if (by_hash)
		r = asprintf(&path, "dists/%s/%.*s/by-hash/SHA256/%s", suite,
			(int) (strrchr(file->path, '/') - file->path), file->path, file->sha256);
	else
		r = asprintf(&path, "dists/%s/%s", suite, file->path);
	if (r < 0)
		return error_set_errno(error, -ENOMEM, "%s", file->path);
	component->number = job->file_count;
	wanted.path = path;
	return index_job_want(job, &wanted, error);
}

/* Moves on to the lists that are still to come; without any the job is done. */
static int want_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	int r = 0;

	for (size_t i = 0; i < state->count && r == 0; i++) {
		struct component *component = &state->components[i];
		bool by_hash;

		if (component->done)
			continue;
		if (!next_attempt(&state->release, component, &by_hash))
			return error_set(error, -EADDRNOTAVAIL,
				"%s/dists/%s/%s: the mirror has it in none of the forms that its "
				"Release file names: it is incomplete: use another with --mirror",
				job->request->url, job->request->repository->suite,
				component->list);
		r = want_list(job, component, by_hash, error);
	}
	job->done = r == 0 && job->file_count == 0;
	return r;
}

static int check_signature(struct index_job *job, const char *url, const char *path,
	const char *detached, struct error *error)
{
	struct signature_request request = {
		.name = url,
		.folder_fd = job->work_fd,
		.path = path,
		.detached = detached,
		.output = detached ? NULL : "Release.text",
		.keyrings = &job->request->repository->keyrings,
		.keyring = job->options->keyring,
		.allow_unsigned = job->options->allow_unsigned,
	};
	_cleanup_(signature_free) struct signature signature = { 0 };
	int r = signature_check(&request, &signature, error);

	if (r == 0)
		job->made.signer = TAKE_PTR(signature.signer);
	return r;
}

/* The head is here and, unless it is the known one, says what to fetch. */
static int take_head(struct index_job *job, const char *path, const char *detached,
	const char *release, struct error *error)
{
	struct apt_state *state = job->state;
	_cleanup_free_ char *url = strdup(job->files[0].url);
	int r = url ? index_job_take_head(job, &job->files[0], path, error) : -ENOMEM;

	if (r < 0)
		return url ? r : error_set_errno(error, r, "%s", path);
	if (index_job_is_known(job)) {
		job->unchanged = true;
		job->done = true;
		return 0;
	}
	r = check_signature(job, url, path, detached, error);
	if (r == -EKEYREJECTED && detached) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	if (r == 0)
		r = read_release(job, release, url, error);
	if (r == 0)
		r = add_components(job, error);
	if (r < 0)
		return r;
	index_job_forget_files(job);
	state->stage = STAGE_LISTS;
	return want_lists(job, error);
}

static int take_in_release(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	const struct download_file *file = &job->files[0];
	int r;

	if (file->not_modified) {
		job->unchanged = true;
		job->done = true;
		return 0;
	}
	if (file->result == 0)
		return take_head(job, "InRelease", NULL, "Release.text", error);
	if (file->result != -EADDRNOTAVAIL) {
		*error = file->error;
		return file->result;
	}
	index_job_forget_files(job);
	state->stage = STAGE_RELEASE;
	r = want_of_suite(job, "Release", false, error);
	return r == 0 ? want_of_suite(job, "Release.gpg", false, error) : r;
}

static int take_release(struct index_job *job, struct error *error)
{
	const struct download_file *release = &job->files[0], *signature = &job->files[1];

	if (release->result < 0) {
		job->absent = release->result == -EADDRNOTAVAIL;
		*error = release->error;
		return release->result;
	}
	if (signature->result == 0)
		return take_head(job, "Release", "Release.gpg", "Release", error);
	if (signature->result != -EADDRNOTAVAIL) {
		*error = signature->error;
		return signature->result;
	}
	/* Without a signature's file it is what a clear-signed file without a signature is. */
	return take_head(job, "Release", NULL, "Release.text", error);
}

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct index_job *job = context;
	const char *name = stanza_value(stanza, "Package");
	struct package package = { 0 };
	int r;

	job->made.listed++;
	if (name && !index_keeps(job->request->keep, name))
		return 0;
	r = package_from_stanza(stanza, job->request->url, &package, error);
	if (r == 0 && package_list_push(&job->made.packages, &package) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", job->request->url);
	return r;
}

static int on_block(void *context, const char *data, size_t size, struct error *error)
{
	return stanza_reader_feed(context, data, size, error);
}

static int read_list(struct index_job *job, const struct component *component, struct error *error)
{
	const struct apt_state *state = job->state;
	const struct download_file *file = &job->files[component->number];
	const struct release_file *plain = file_of(&state->release, component->list, "");
	_cleanup_(stanza_reader_free) struct stanza_reader *reader =
		stanza_reader_new(file->url, on_stanza, job);
	_cleanup_close_ int fd = openat(job->work_fd, file->path, O_RDONLY | O_CLOEXEC);
	struct stream stream = {
		.fd = fd,
		.name = file->url,
		.limit_bytes = plain ? plain->size_bytes : 0,
		.unpacked = { .digest = STREAM_SHA256, .hex = plain ? plain->sha256 : NULL },
		.on_block = on_block,
		.context = reader,
	};
	int r;

	if (fd < 0 || !reader)
		return error_set_errno(error, fd < 0 ? -errno : -ENOMEM, "%s", file->url);
	r = stream_run(&stream, error);
	if (r == 0)
		r = stanza_reader_finish(reader, error);
	(void) unlinkat(job->work_fd, file->path, 0);
	return r;
}

static int take_list(struct index_job *job, struct component *component, struct error *error)
{
	const struct download_file *file = &job->files[component->number];
	int r;

	if (file->result == -EADDRNOTAVAIL)
		return 0; /* the next place is tried */
	if (file->result < 0) {
		*error = file->error;
		return file->result;
	}
	r = read_list(job, component, error);
	component->done = r == 0;
	return r;
}

static int take_lists(struct index_job *job, struct error *error)
{
	struct apt_state *state = job->state;
	int r = 0;

	for (size_t i = 0; i < state->count && r == 0; i++)
		if (!state->components[i].done)
			r = take_list(job, &state->components[i], error);
	if (r == 0) {
		index_job_forget_files(job);
		r = want_lists(job, error);
	}
	/* A mirror in the middle of an update has lists of one time and an InRelease of another. */
	if (r == -EBADMSG || r == -EADDRNOTAVAIL) {
		struct error why = *error;

		return index_job_restart(job, r, &why, error);
	}
	return r;
}

static int apt_take(struct index_job *job, struct error *error)
{
	const struct apt_state *state = job->state;

	switch (state->stage) {
	case STAGE_IN_RELEASE:
		return take_in_release(job, error);
	case STAGE_RELEASE:
		return take_release(job, error);
	case STAGE_LISTS:
		return take_lists(job, error);
	}
	return -EINVAL;
}

const struct index_kind index_kind_apt = {
	.start = apt_start,
	.take = apt_take,
	.free = apt_free,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel release tells: whose it is, where it may be, and the names that follow from it. */
#include "kernels/catalogue.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "kernels/ini_file.h"

/* The patterns are the catalogue's; a krel is only ever the text that they are held against. */
static bool matches_any(const struct strv *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], text, 0) == 0)
			return true;
	return false;
}

bool repository_concerns(const struct repository *repository, const char *krel)
{
	return repository->krels.count == 0 || matches_any(&repository->krels, krel);
}

static int add_if_makes(const char *folder, const char *os, const char *krel, struct strv *makers,
	struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	int r = catalogue_open(folder, os, &catalogue, error);

	if (r < 0 || !matches_any(&catalogue.krels, krel))
		return r;
	r = strv_push(makers, os);
	return r < 0 ? error_set_errno(error, r, "%s", os) : 0;
}

static int nobody_makes(const struct strv *names, const char *krel, struct error *error)
{
	_cleanup_free_ char *known = strv_join(names, ", ");

	return error_set(error, -ENODATA,
		"kernel %s: no distribution in the catalogue names its kernels so: say --os (known "
		"are: %s); for a kernel of your own, build and lint take --kernel-from",
		krel, known ? known : "");
}

static int several_make(const struct strv *makers, const char *krel, struct error *error)
{
	_cleanup_free_ char *joined = strv_join(makers, ", ");

	return error_set(error, -ENOTUNIQ,
		"kernel %s: %s name their kernels so: say which with --os", krel,
		joined ? joined : "several distributions");
}

int catalogue_guess(const char *folder, const char *krel, char **ret_os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv makers = { 0 };
	int r = catalogue_names(folder, &names, error);

	for (size_t i = 0; i < names.count && r == 0; i++)
		r = add_if_makes(folder, names.items[i], krel, &makers, error);
	if (r < 0)
		return r;
	if (makers.count == 0)
		return nobody_makes(&names, krel, error);
	if (makers.count > 1)
		return several_make(&makers, krel, error);
	*ret_os = TAKE_PTR(makers.items[0]);
	makers.count = 0;
	return 0;
}

/* Where the longest of the flavours begins at the end of a krel, the sign before it included. */
static const char *flavour_of(const struct catalogue *catalogue, const char *krel)
{
	const char *end = krel + strlen(krel);
	const char *found = end;

	for (size_t i = 0; i < catalogue->kernel.flavours.count; i++) {
		size_t length = strlen(catalogue->kernel.flavours.items[i]);
		const char *sign = end - length - 1;

		if (length + 1 >= (size_t) (end - krel) || sign >= found)
			continue;
		if ((*sign == '-' || *sign == '+') &&
			strcmp(sign + 1, catalogue->kernel.flavours.items[i]) == 0)
			found = sign;
	}
	return found;
}

/* The parts between dashes, without those that the packages' version lacks. */
static int join_parts(const struct catalogue *catalogue, const char *text, char **ret_version)
{
	_cleanup_strv_ struct strv parts = { 0 };

	if (strv_split(&parts, text, "-") < 0)
		return -ENOMEM;
	for (size_t i = parts.count; i-- > 1;)
		if (matches_any(&catalogue->kernel.drop, parts.items[i]))
			strv_remove(&parts, i);
	*ret_version = strv_join(&parts, "-");
	return *ret_version ? 0 : -ENOMEM;
}

int catalogue_split_krel(
	const struct catalogue *catalogue, const char *krel, char **ret_version, char **ret_flavour)
{
	const char *sign = flavour_of(catalogue, krel);
	_cleanup_free_ char *version = strndup(krel, (size_t) (sign - krel));
	_cleanup_free_ char *flavour = strdup(*sign ? sign + 1 : "");
	_cleanup_free_ char *kept = NULL;

	if (!version || !flavour)
		return -ENOMEM;
	if (catalogue->kernel.drop.count > 0) {
		int r = join_parts(catalogue, version, &kept);

		if (r < 0)
			return r;
	}
	*ret_version = kept ? TAKE_PTR(kept) : TAKE_PTR(version);
	*ret_flavour = TAKE_PTR(flavour);
	return 0;
}

/* The two numbers that a series of kernels is called by: "6.12" of 6.12.117+deb13-amd64. */
static int series_length(const char *krel)
{
	size_t length = strspn(krel, "0123456789");

	if (krel[length] == '.')
		length += 1 + strspn(krel + length + 1, "0123456789");
	return (int) length;
}

/* Writes what the {word} at @word stands for; returns the bytes of the word, or -EINVAL. */
static int put_word(
	FILE *text, const char *word, const char *krel, const char *version, const char *flavour)
{
	static const char *const words[] = { "{krel}", "{version}", "{flavour}", "{-flavour}" };
	const char *const values[] = { krel, version, flavour, flavour };
	static const char series[] = "{series}";

	if (strncmp(word, series, strlen(series)) == 0) {
		(void) fprintf(text, "%.*s", series_length(krel), krel);
		return (int) strlen(series);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i]);

		if (strncmp(word, words[i], length) != 0)
			continue;
		if (i == 3 && *flavour)
			(void) fputc('-', text);
		(void) fputs(values[i], text);
		return (int) length;
	}
	return -EINVAL;
}

static int put_template(FILE *text, const char *template, const char *krel, const char *version,
	const char *flavour)
{
	for (const char *c = template; *c;) {
		int length = 1;

		if (*c == '{')
			length = put_word(text, c, krel, version, flavour);
		else
			(void) fputc(*c, text);
		if (length < 0)
			return length;
		c += length;
	}
	return 0;
}

int catalogue_expand(
	const struct catalogue *catalogue, const char *template, const char *krel, char **ret_text)
{
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;
	_cleanup_free_ char *buffer = NULL;
	_cleanup_fclose_ FILE *text = NULL;
	size_t size = 0;
	int r = catalogue_split_krel(catalogue, krel, &version, &flavour);

	if (r < 0)
		return r;
	text = open_memstream(&buffer, &size);
	if (!text)
		return -ENOMEM;
	r = put_template(text, template, krel, version, flavour);
	if (r < 0)
		return r;
	if (fclose(TAKE_PTR(text)) != 0)
		return -ENOMEM;
	*ret_text = TAKE_PTR(buffer);
	return 0;
}

enum value_kind { VALUE_TEXT, VALUE_WORDS, VALUE_FLAG, VALUE_WORD_OF };

/* A key of a section, and where its value goes. */
struct key {
	const char *section;
	const char *name;
	enum value_kind kind;
	bool required;
	size_t offset;
	const char *const *words; /* VALUE_WORD_OF: an enum's values in order */
};

static const char *const kinds[] = { "apt", "rpm-md", NULL };
static const char *const trusts[] = { "index", "packages", NULL };
static const char *const matches[] = { "name", "provides", "version", NULL };

#define REPOSITORY_PREFIX "repository "
#define INHERIT_DEPTH     4

#define OF_OS(member)         offsetof(struct catalogue, member)
#define OF_REPOSITORY(member) offsetof(struct repository, member)

static const struct key keys[] = {
	{ "os", "name", VALUE_TEXT, true, OF_OS(name), NULL },
	{ "os", "id", VALUE_TEXT, true, OF_OS(id), NULL },
	{ "os", "version_id", VALUE_TEXT, false, OF_OS(version_id), NULL },
	{ "os", "codename", VALUE_TEXT, false, OF_OS(codename), NULL },
	{ "os", "minor_after", VALUE_TEXT, false, OF_OS(minor_after), NULL },
	{ "os", "krel", VALUE_WORDS, true, OF_OS(krels), NULL },
	{ "kernel", "match", VALUE_WORD_OF, true, OF_OS(kernel.match), matches },
	{ "kernel", "headers", VALUE_WORDS, true, OF_OS(kernel.headers), NULL },
	{ "kernel", "modules", VALUE_WORDS, true, OF_OS(kernel.modules), NULL },
	{ "kernel", "modules_optional", VALUE_WORDS, false, OF_OS(kernel.modules_optional), NULL },
	{ "kernel", "follow", VALUE_WORDS, false, OF_OS(kernel.follow), NULL },
	{ "kernel", "flavours", VALUE_WORDS, false, OF_OS(kernel.flavours), NULL },
	{ "kernel", "drop", VALUE_WORDS, false, OF_OS(kernel.drop), NULL },
	{ "kernel", "build_counter", VALUE_FLAG, false, OF_OS(kernel.build_counter), NULL },
	{ "kernel", "keep", VALUE_WORDS, true, OF_OS(kernel.keep), NULL },
	{ "kernel", "compiler", VALUE_TEXT, false, OF_OS(kernel.compiler), NULL },
	{ "kernel", "compiler_prefix", VALUE_TEXT, false, OF_OS(kernel.compiler_prefix), NULL },
	{ "kernel", "series", VALUE_TEXT, false, OF_OS(kernel.series), NULL },
	{ "kernel", "flavour", VALUE_TEXT, false, OF_OS(kernel.flavour), NULL },
	{ "image", "containers", VALUE_TEXT, false, OF_OS(image.containers), NULL },
	{ "image", "codename", VALUE_TEXT, false, OF_OS(image.codename), NULL },
	{ "image", "repositories", VALUE_WORDS, false, OF_OS(image.repositories), NULL },
	{ "image", "nvidia_package", VALUE_TEXT, false, OF_OS(image.nvidia_package), NULL },
	{ "image", "linux_source_package", VALUE_TEXT, false, OF_OS(image.linux_source_package),
		NULL },
	{ "repository", "kind", VALUE_WORD_OF, true, OF_REPOSITORY(kind), kinds },
	{ "repository", "trust", VALUE_WORD_OF, false, OF_REPOSITORY(trust), trusts },
	{ "repository", "mirror", VALUE_TEXT, true, OF_REPOSITORY(mirror), NULL },
	{ "repository", "path", VALUE_TEXT, false, OF_REPOSITORY(path), NULL },
	{ "repository", "origin", VALUE_TEXT, false, OF_REPOSITORY(origin), NULL },
	{ "repository", "label", VALUE_TEXT, false, OF_REPOSITORY(label), NULL },
	{ "repository", "suite", VALUE_TEXT, false, OF_REPOSITORY(suite), NULL },
	{ "repository", "components", VALUE_TEXT, false, OF_REPOSITORY(components), NULL },
	{ "repository", "keyring", VALUE_WORDS, false, OF_REPOSITORY(keyrings), NULL },
	{ "repository", "client_certificate", VALUE_TEXT, false, OF_REPOSITORY(client_certificate),
		NULL },
	{ "repository", "certificate_authority", VALUE_TEXT, false,
		OF_REPOSITORY(certificate_authority), NULL },
	{ "repository", "krel", VALUE_WORDS, false, OF_REPOSITORY(krels), NULL },
	{ "repository", "archive", VALUE_FLAG, false, OF_REPOSITORY(archive), NULL },
	{ "repository", "optional", VALUE_FLAG, false, OF_REPOSITORY(optional), NULL },
};

static void *slot_of(
	const struct key *key, struct catalogue *catalogue, struct repository *repository)
{
	char *base =
		strcmp(key->section, "repository") == 0 ? (char *) repository : (char *) catalogue;

	return base + key->offset;
}

/* One key of a file, with what it goes on with in further lines. */
struct entry {
	char *section;
	const struct key *key;
	char *value;
};

/* The sections and keys of a file, or of a file and what it inherits. */
struct entries {
	struct entry *items;
	size_t count;
	char *inherit; /* the file that has what this one does not say, or NULL */
};

static void entries_free(struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++) {
		free(entries->items[i].section);
		free(entries->items[i].value);
	}
	free(entries->items);
	free(entries->inherit);
}

static struct entry *entry_find(
	const struct entries *entries, const char *section, const struct key *key)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->items[i].key == key && strcmp(entries->items[i].section, section) == 0)
			return &entries->items[i];
	return NULL;
}

static int entry_add(
	struct entries *entries, const char *section, const struct key *key, const char *value)
{
	struct entry *grown = reallocarray(entries->items, entries->count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	entries->items = grown;
	grown = &grown[entries->count];
	*grown = (struct entry){ .section = strdup(section), .key = key, .value = strdup(value) };
	entries->count++;
	return grown->section && grown->value ? 0 : -ENOMEM;
}

static bool is_repository(const char *section)
{
	return strncmp(section, REPOSITORY_PREFIX, sizeof(REPOSITORY_PREFIX) - 1) == 0;
}

static const struct key *key_find(const char *section, const char *name)
{
	const char *kind = is_repository(section) ? "repository" : section;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].section, kind) == 0 && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static int word_index(const struct key *key, const char *value)
{
	for (int i = 0; key->words[i]; i++)
		if (strcmp(key->words[i], value) == 0)
			return i;
	return -EINVAL;
}

/* ini_file_key */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct entries *entries = user;
	const struct key *key = key_find(section, name);
	struct entry *there;
	char *joined;

	if (strcmp(section, "os") == 0 && strcmp(name, "inherit") == 0) {
		if (entries->inherit)
			return -EINVAL;
		entries->inherit = strdup(value);
		return entries->inherit ? 0 : -ENOMEM;
	}
	if (!key || (key->kind == VALUE_WORD_OF && word_index(key, value) < 0) ||
		(key->kind == VALUE_FLAG && strcmp(value, "yes") != 0 && strcmp(value, "no") != 0))
		return -EINVAL;
	there = entry_find(entries, section, key);
	if (!there)
		return entry_add(entries, section, key, value);
	if (key->kind != VALUE_WORDS)
		return -EINVAL;
	if (asprintf(&joined, "%s %s", there->value, value) < 0)
		return -ENOMEM;
	free(there->value);
	there->value = joined;
	return 0;
}

/* What @from says takes the place of what @to has of the same section and key. */
static int entries_merge(struct entries *to, const struct entries *from)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct entry *entry = &from->items[i];
		struct entry *there = entry_find(to, entry->section, entry->key);
		char *value;
		int r;

		if (!there) {
			r = entry_add(to, entry->section, entry->key, entry->value);
			if (r < 0)
				return r;
			continue;
		}
		value = strdup(entry->value);
		if (!value)
			return -ENOMEM;
		free(there->value);
		there->value = value;
	}
	return 0;
}

/* Reads a file after what it inherits. @files gets their names, the last is @os. */
static int read_file(const char *folder, const char *os, struct entries *entries,
	struct strv *files, struct error *error)
{
	_cleanup_(entries_free) struct entries own = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%s.ini", folder, os) < 0)
		return error_set_errno(error, -ENOMEM, "%s", os);
	if (!fs_exists(AT_FDCWD, path))
		return -ENOENT;
	r = ini_file_read(path, on_key, &own, error);
	if (r < 0)
		return r;
	if (own.inherit) {
		if (strchr(own.inherit, '/') || files->count == INHERIT_DEPTH)
			return error_set(error, -EINVAL, "%s: inherit = %s: %s", path, own.inherit,
				files->count == INHERIT_DEPTH ? "too deep, or a circle"
							      : "not a name");
		r = strv_push(files, own.inherit);
		if (r == 0)
			r = read_file(folder, own.inherit, entries, files, error);
		if (r == -ENOENT)
			return error_set(error, -EINVAL, "%s: inherit = %s: there is no such file",
				path, own.inherit);
		if (r < 0)
			return r;
	}
	r = entries_merge(entries, &own);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* {os} and three keys of [os] stand for themselves in any value. A new string, or NULL. */
static char *substitute(const struct entries *entries, const char *os, const char *value)
{
	static const char *const names[] = { "id", "version_id", "codename" };
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	while (*value) {
		const char *replacement = NULL;
		size_t length = *value == '{' ? strcspn(value, "}") : 0;

		if (length > 1 && value[length] == '}') {
			if (length == 3 && strncmp(value + 1, "os", 2) == 0)
				replacement = os;
			for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
				const struct entry *entry =
					entry_find(entries, "os", key_find("os", names[i]));

				if (entry && strlen(names[i]) == length - 1 &&
					strncmp(value + 1, names[i], length - 1) == 0)
					replacement = entry->value;
			}
		}
		if (replacement) {
			(void) fputs(replacement, stream);
			value += length + 1;
		} else {
			(void) fputc(*value++, stream);
		}
	}
	return fclose(stream) == 0 ? TAKE_PTR(text) : NULL;
}

static int take(const struct key *key, const char *value, void *slot)
{
	switch (key->kind) {
	case VALUE_TEXT:
		*(char **) slot = strdup(value);
		return *(char **) slot ? 0 : -ENOMEM;
	case VALUE_WORDS:
		return strv_split(slot, value, " \t\n");
	case VALUE_FLAG:
		*(bool *) slot = strcmp(value, "yes") == 0;
		return 0;
	case VALUE_WORD_OF:
		*(int *) slot = word_index(key, value);
		return 0;
	}
	return -EINVAL;
}

/* Fills the keys of one section; of a repository those of [repository] where it has none. */
static int fill_section(const struct entries *entries, const char *section, const char *defaults,
	const char *os, void *base)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct entry *entry = entry_find(entries, section, &keys[i]);
		_cleanup_free_ char *value = NULL;
		int r;

		if (!entry && defaults)
			entry = entry_find(entries, defaults, &keys[i]);
		if (!entry)
			continue;
		value = substitute(entries, os, entry->value);
		if (!value)
			return -ENOMEM;
		r = take(&keys[i], value, (char *) base + keys[i].offset);
		if (r < 0)
			return r;
	}
	return 0;
}

static int fill_repository(struct catalogue *catalogue, const struct entries *entries,
	const char *section, const char *os)
{
	const char *name = section + sizeof(REPOSITORY_PREFIX) - 1;
	struct repository *grown;

	for (size_t i = 0; i < catalogue->repository_count; i++)
		if (strcmp(catalogue->repositories[i].name, name) == 0)
			return 0;
	grown = reallocarray(
		catalogue->repositories, catalogue->repository_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	catalogue->repositories = grown;
	grown = &grown[catalogue->repository_count++];
	*grown = (struct repository){ .name = strdup(name) };
	return grown->name ? fill_section(entries, section, "repository", os, grown) : -ENOMEM;
}

static int fill(struct catalogue *catalogue, const struct entries *entries, const char *os)
{
	static const char *const sections[] = { "os", "kernel", "image" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		r = fill_section(entries, sections[i], NULL, os, catalogue);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < entries->count; i++) {
		const char *section = entries->items[i].section;

		r = is_repository(section) ? fill_repository(catalogue, entries, section, os) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_empty(const struct key *key, void *slot)
{
	if (key->kind == VALUE_TEXT)
		return !*(char **) slot || !**(char **) slot;
	return key->kind == VALUE_WORDS && ((struct strv *) slot)->count == 0;
}

static int complete_section(struct catalogue *catalogue, struct repository *repository,
	const char *path, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		bool of_repository = strcmp(keys[i].section, "repository") == 0;
		void *slot;

		if (of_repository != (repository != NULL))
			continue;
		slot = slot_of(&keys[i], catalogue, repository);
		if (!is_empty(&keys[i], slot))
			continue;
		if (keys[i].required)
			return error_set(error, -EINVAL, "%s: [%s%s%s] has no %s", path,
				keys[i].section, repository ? " " : "",
				repository ? repository->name : "", keys[i].name);
		if (keys[i].kind == VALUE_TEXT && !*(char **) slot && take(&keys[i], "", slot) < 0)
			return error_set_errno(error, -ENOMEM, "%s", path);
	}
	return 0;
}

static int complete(struct catalogue *catalogue, const char *path, struct error *error)
{
	int r = complete_section(catalogue, NULL, path, error);

	if (r == 0 && catalogue->repository_count == 0)
		return error_set(error, -EINVAL, "%s: no [repository NAME] section", path);
	for (size_t i = 0; i < catalogue->repository_count && r == 0; i++)
		r = complete_section(catalogue, &catalogue->repositories[i], path, error);
	return r;
}

int catalogue_names(const char *folder, struct strv *names, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(AT_FDCWD, folder, &files);

	if (r < 0)
		return error_set_errno(error, r, "%s: catalogue of distributions", folder);
	for (size_t i = 0; i < files.count && r == 0; i++) {
		char *suffix = strrchr(files.items[i], '.');

		if (!suffix || strcmp(suffix, ".ini") != 0)
			continue;
		*suffix = '\0';
		r = strv_push(names, files.items[i]);
	}
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

static int unknown_os(const char *folder, const char *os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *known = NULL;
	const char *near;
	int r = catalogue_names(folder, &names, error);

	if (r < 0)
		return r;
	known = strv_join(&names, ", ");
	near = nearest_word(&names, os);
	return error_set(error, -ENODATA, "--os %s: not known%s%s%s; known are: %s", os,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
		known ? known : "(out of memory)");
}

static int open_file(
	const char *folder, const char *os, struct catalogue *catalogue, struct error *error)
{
	_cleanup_(entries_free) struct entries entries = { 0 };
	char path[PATH_MAX];
	int r;

	r = strv_push(&catalogue->files, os);
	if (r < 0)
		return error_set_errno(error, r, "%s", os);
	r = read_file(folder, os, &entries, &catalogue->files, error);
	if (r < 0)
		return r;
	catalogue->os = strdup(os);
	r = catalogue->os ? fill(catalogue, &entries, os) : -ENOMEM;
	if (r < 0)
		return error_set_errno(error, r, "%s", os);
	(void) snprintf(path, sizeof(path), "%s/%s.ini", folder, os);
	return complete(catalogue, path, error);
}

/* "bookworm" of "Debian 12 (bookworm)": VERSION_CODENAME in os-release, which people know too. */
static bool has_codename(const struct catalogue *catalogue, const char *codename)
{
	const char *start = catalogue->name ? strrchr(catalogue->name, '(') : NULL;
	size_t length = strlen(codename);

	return start && strncasecmp(start + 1, codename, length) == 0 &&
	       strcmp(start + 1 + length, ")") == 0;
}

static int open_codename(
	const char *folder, const char *codename, struct catalogue *ret, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = catalogue_names(folder, &names, error);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };

		r = open_file(folder, names.items[i], &catalogue, error);
		if (r < 0 || !has_codename(&catalogue, codename))
			continue;
		*ret = catalogue;
		catalogue = (struct catalogue){ 0 };
		return 0;
	}
	return r < 0 ? r : unknown_os(folder, codename, error);
}

int catalogue_open(const char *folder, const char *os, struct catalogue *ret, struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	int r;

	if (strchr(os, '/') || *os == '.' || !*os)
		return unknown_os(folder, os, error);
	r = open_file(folder, os, &catalogue, error);
	if (r == -ENOENT)
		return open_codename(folder, os, ret, error);
	if (r < 0)
		return r;
	*ret = catalogue;
	catalogue = (struct catalogue){ 0 };
	return 0;
}

static void free_slot(const struct key *key, void *slot)
{
	if (key->kind == VALUE_TEXT)
		free(*(char **) slot);
	else if (key->kind == VALUE_WORDS)
		strv_free(slot);
}

void catalogue_free(struct catalogue *catalogue)
{
	free(catalogue->os);
	strv_free(&catalogue->files);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].section, "repository") != 0) {
			free_slot(&keys[i], slot_of(&keys[i], catalogue, NULL));
			continue;
		}
		for (size_t j = 0; j < catalogue->repository_count; j++)
			free_slot(&keys[i],
				slot_of(&keys[i], catalogue, &catalogue->repositories[j]));
	}
	for (size_t j = 0; j < catalogue->repository_count; j++)
		free(catalogue->repositories[j].name);
	free(catalogue->repositories);
	*catalogue = (struct catalogue){ 0 };
}

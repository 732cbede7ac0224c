/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/catalogue.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/nearest.h"
#include "common/xalloc.h"
#include "kernels/ini_file.h"
#include "kernels/krel.h"

/* ---- releases against the catalogue's patterns: a krel itself is never a pattern */

static bool matches_any(const struct strv *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], text, FNM_EXTMATCH) == 0)
			return true;
	return false;
}

bool repository_concerns(const struct repository *repository, const char *krel)
{
	return !repository->root_only &&
	       (repository->krels.count == 0 || matches_any(&repository->krels, krel));
}

bool repository_in_root(const struct catalogue *catalogue, const struct repository *repository)
{
	const struct strv *chosen = &catalogue->root.repositories;

	return chosen->count ? strv_contains(chosen, repository->name)
			     : !repository->archive && repository->krels.count == 0;
}

bool catalogue_makes(const struct catalogue *catalogue, const char *krel)
{
	return matches_any(&catalogue->krels, krel);
}

#define OTHERS_FILE "others.inc"

struct others {
	const char *krel; /* NULL: any */
	struct strv *names;
};

/* ini_file_key: "debian11 = PATTERN…", of one or more lines */
static int on_other(void *user, const char *section, const char *name, const char *value)
{
	const struct others *others = user;
	_cleanup_strv_ struct strv patterns = { 0 };

	if (strcmp(section, "others") != 0)
		return -EINVAL;
	xstrv_split(&patterns, value, " \t\n");
	if (!others->krel || matches_any(&patterns, others->krel))
		xstrv_push_unique(others->names, name);
	return 0;
}

int catalogue_others(const char *folder, const char *krel, struct strv *names, struct error *error)
{
	struct others others = { .krel = krel, .names = names };
	_cleanup_free_ char *path = xasprintf("%s/" OTHERS_FILE, folder);

	return fs_exists(AT_FDCWD, path) ? ini_file_read(path, on_other, &others, error) : 0;
}

int catalogue_makers(const char *folder, const char *krel, struct strv *makers, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = catalogue_names(folder, &names, error);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };

		r = catalogue_open(folder, names.items[i], &catalogue, error);
		if (r == 0 && catalogue_makes(&catalogue, krel))
			xstrv_push(makers, names.items[i]);
	}
	return r;
}

/* The two numbers that a series of kernels is called by: "6.12" of 6.12.117+deb13-amd64. */
static size_t series_length(const char *krel)
{
	size_t length = strspn(krel, "0123456789");

	if (krel[length] == '.')
		length += 1 + strspn(krel + length + 1, "0123456789");
	return length;
}

/*
 * A release that ends before its flavour or its machine, with this distribution's own; NULL where
 * no kernel of it is called so.
 */
static char *with_ending(const struct catalogue *os, const char *krel)
{
	_cleanup_free_ char *flavour = catalogue_flavour(os, arch_here()->uname);
	_cleanup_free_ char *whole = *flavour ? xasprintf("%s-%s", krel, flavour)
					      : xasprintf("%s.%s", krel, arch_here()->uname);

	return catalogue_makes(os, whole) ? TAKE_PTR(whole) : NULL;
}

/*
 * Releases that may be meant by one that nobody makes: with a slip in the machine's name, or cut
 * short. Of the latter those whose series is a distribution's own come alone.
 */
static int find_meant(const char *folder, const struct strv *names, const char *krel,
	struct strv *meant, struct error *error)
{
	_cleanup_free_ char *slip = krel_with_arch(krel);
	_cleanup_strv_ struct strv own = { 0 };
	_cleanup_strv_ struct strv others = { 0 };

	for (size_t i = 0; i < names->count; i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_free_ char *whole = NULL;
		int r = catalogue_open(folder, names->items[i], &os, error);
		const char *series = os.kernel.series;

		if (r < 0)
			return r;
		if (slip && catalogue_makes(&os, slip))
			xstrv_push_unique(meant, slip);
		whole = slip || krel_arch(krel) ? NULL : with_ending(&os, krel);
		if (!whole)
			continue;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a catalogue has no NULL */
		if (*series && strlen(series) == series_length(krel) &&
			strncmp(series, krel, strlen(series)) == 0)
			xstrv_push_unique(&own, whole);
		else
			xstrv_push_unique(&others, whole);
	}
	for (size_t i = 0; i < own.count; i++)
		xstrv_push(meant, own.items[i]);
	for (size_t i = 0; i < others.count && own.count == 0; i++)
		xstrv_push(meant, others.items[i]);
	return 0;
}

/* No distribution names its kernels so: a slip of the pen, a name to choose, or the user's own. */
static int unknown_krel(const char *folder, const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv known = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv families = { 0 };
	_cleanup_free_ char *joined = NULL;
	_cleanup_free_ char *near = NULL;
	int r = catalogue_names(folder, &names, error);

	if (r == 0)
		r = find_meant(folder, &names, krel, &known, error);
	if (r < 0)
		return r;
	near = xstrv_join(&known, " or ");
	/* "debian" for debian12 and debian13: --os debian lists them. */
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *family = xstrndup(name, strcspn(name, "0123456789"));

		xstrv_push_unique(&families, family);
	}
	joined = xstrv_join(&families, ", ");
	if (known.count)
		r = error_set(
			error, -ENODATA, "kernel %s: not known; did you mean %s?", krel, near);
	else
		r = error_set(error, -ENODATA,
			"kernel %s: unknown: no distribution in the catalogue names its kernels so",
			krel);
	(void) error_try(error, r, "give what uname -r prints on the node");
	(void) error_try(error, r,
		"for a kernel of your own, give its packages or folders (build and lint: "
		"--kernel-from, verify: --kernel)");
	return error_try(error, r,
		"name its distribution and release with --os, such as debian12; known are %s",
		joined);
}

int catalogue_guess(const char *folder, const char *krel, char **ret_os, struct error *error)
{
	_cleanup_strv_ struct strv makers = { 0 };
	_cleanup_strv_ struct strv others = { 0 };
	_cleanup_free_ char *joined = NULL;
	_cleanup_free_ char *lacking = NULL;
	int r = catalogue_makers(folder, krel, &makers, error);

	if (r == 0)
		r = catalogue_others(folder, krel, &others, error);
	if (r < 0)
		return r;
	joined = xstrv_join(&makers, ", ");
	lacking = xstrv_join(&others, ", ");
	if (makers.count == 1 && others.count == 0) {
		*ret_os = TAKE_PTR(joined);
		return 0;
	}
	if (makers.count == 0 && others.count == 0)
		return unknown_krel(folder, krel, error);
	if (makers.count)
		r = error_set(error, -ENOTUNIQ, "kernel %s: this name is used by %s%s%s%s", krel,
			joined, others.count ? "; and by " : "", lacking,
			others.count ? ", which Slipway does not support" : "");
	else
		r = error_set(error, -ENODATA,
			"kernel %s: this name is used by %s, which Slipway does not support", krel,
			lacking);
	if (makers.count == 1)
		(void) error_try(error, r, "if it is from %s, name that with --os", joined);
	if (makers.count > 1)
		(void) error_try(error, r, "name the distribution with --os: %s", joined);
	if (others.count)
		(void) error_try(error, r,
			"for an unsupported one, give the packages or folders (build and lint: "
			"--kernel-from, verify: --kernel), and the most similar distribution with "
			"--os");
	return r;
}

/* Returns the start of the longest flavour that ends @krel, including the sign before it. */
static const char *flavour_of(const struct catalogue *catalogue, const char *krel)
{
	const char *end = krel + strlen(krel);
	const char *found = end;

	for (size_t i = 0; i < catalogue->kernel.flavours.count; i++) {
		size_t length = strlen(catalogue->kernel.flavours.items[i]);
		const char *sign = end - length - 1;

		if (length + 1 >= (size_t) (end - krel) || sign >= found)
			continue;
		if (strchr("-+.", *sign) &&
			strcmp(sign + 1, catalogue->kernel.flavours.items[i]) == 0)
			found = sign;
	}
	return found;
}

void catalogue_split_krel(
	const struct catalogue *catalogue, const char *krel, char **ret_version, char **ret_flavour)
{
	const char *sign = flavour_of(catalogue, krel);
	_cleanup_free_ char *version = xstrndup(krel, (size_t) (sign - krel));
	_cleanup_strv_ struct strv parts = { 0 };

	*ret_flavour = xstrdup(*sign ? sign + 1 : "");
	if (catalogue->kernel.drop.count == 0) {
		*ret_version = TAKE_PTR(version);
		return;
	}
	/* The parts between dashes, without those that the packages' version lacks. */
	xstrv_split(&parts, version, "-");
	for (size_t i = parts.count; i-- > 1;)
		if (matches_any(&catalogue->kernel.drop, parts.items[i]))
			strv_remove(&parts, i);
	*ret_version = xstrv_join(&parts, "-");
}

/* ---- templates */

static const char *const templates[] = { "{krel}", "{version}", "{flavour}", "{-flavour}",
	"{series}", NULL };
static const char *const gcc_words[] = { "{gcc}", NULL };
static const char *const cross_words[] = { "{gcc}", "{cross}", NULL };
static const char *const clang_words[] = { "{clang}", NULL };
static const char *const release_words[] = { "{release}", "{snapshot}", NULL };
static const char *const flavour_words[] = { "{debian_arch}", NULL };
static const char *const no_words[] = { NULL };

/* Returns the index of the word that the text begins with; @count: none. */
static size_t word_at(const char *text, const char *const *words, size_t count)
{
	size_t i = 0;

	while (i < count && strncmp(text, words[i], strlen(words[i])) != 0)
		i++;
	return i;
}

char *replace_words(
	const char *text, const char *const *words, const char *const *values, size_t count)
{
	char *result = xstrdup("");

	while (*text) {
		size_t i = word_at(text, words, count);
		bool is_word = i < count && values[i];
		size_t length = is_word ? strlen(words[i]) : 1 + strcspn(text + 1, "{");
		char *longer = is_word ? xasprintf("%s%s", result, values[i])
				       : xasprintf("%s%.*s", result, (int) length, text);

		free(result);
		result = longer;
		text += length;
	}
	return result;
}

char *catalogue_expand(const struct catalogue *catalogue, const char *template, const char *krel)
{
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;
	_cleanup_free_ char *dashed = NULL;
	_cleanup_free_ char *series = xstrndup(krel, series_length(krel));

	catalogue_split_krel(catalogue, krel, &version, &flavour);
	dashed = xasprintf("%s%s", *flavour ? "-" : "", flavour);
	return replace_words(template, templates,
		(const char *const[]){ krel, version, flavour, dashed, series },
		ARRAY_SIZE(templates) - 1);
}

char *catalogue_flavour(const struct catalogue *catalogue, const char *arch)
{
	return replace_words(catalogue->kernel.flavour, flavour_words,
		(const char *const[]){ arch_debian(arch) }, 1);
}

/* ---- the node's version */

char *catalogue_release(const struct catalogue *catalogue, const char *krel)
{
	const char *after = catalogue->minor_after;
	const char *minor = krel && *after ? strstr(krel, after) : NULL;
	const char *major = after + strcspn(after, "0123456789");
	size_t length;

	if (!minor)
		return NULL;
	minor += strlen(after);
	length = strspn(minor, "0123456789");
	return length ? xasprintf("%.*s.%.*s", (int) strspn(major, "0123456789"), major,
				(int) length, minor)
		      : NULL;
}

bool catalogue_has_snapshots(const struct catalogue *catalogue)
{
	return strstr(catalogue->tags.version, release_words[1]) != NULL;
}

char *catalogue_node_version(const struct catalogue *catalogue, const char *krel)
{
	const char *template = catalogue->tags.version;
	_cleanup_free_ char *release = catalogue_release(catalogue, krel);

	if (!*template)
		return xstrdup(catalogue->version_id);
	if (catalogue_has_snapshots(catalogue) || (strstr(template, release_words[0]) && !release))
		return NULL;
	return replace_words(template, release_words, (const char *const[]){ release }, 1);
}

char *catalogue_other_release(
	const struct catalogue *catalogue, const char *krel, const char *version_id)
{
	_cleanup_free_ char *version = catalogue_node_version(catalogue, krel);
	_cleanup_free_ char *release = catalogue_release(catalogue, krel);

	return version && release && strcmp(version, release) == 0 &&
			       strcmp(version, version_id) != 0
		       ? TAKE_PTR(release)
		       : NULL;
}

/* ---- the keys */

enum value_kind { VALUE_TEXT, VALUE_WORDS, VALUE_FLAG, VALUE_WORD_OF };

/* A key of a section, and where its value goes. */
struct key {
	const char *section;
	const char *name;
	enum value_kind kind;
	bool required;
	size_t offset;
	/* VALUE_WORD_OF: an enum's values in order. Others: which {words} may stay; NULL: any. */
	const char *const *words;
};

static const char *const kinds[] = { "apt", "rpm-md", NULL };
static const char *const trusts[] = { "index", "packages", NULL };
static const char *const matches[] = { "name", "provides", "version", NULL };

#define REPOSITORY_PREFIX "repository "
#define INHERIT_DEPTH     4
#define DEFAULT_RUNTIME   "debian12"

#define OF_OS(member)         offsetof(struct catalogue, member)
#define OF_REPOSITORY(member) offsetof(struct repository, member)

static const struct key keys[] = {
	{ "os", "name", VALUE_TEXT, true, OF_OS(name), NULL },
	{ "os", "id", VALUE_TEXT, true, OF_OS(id), NULL },
	{ "os", "version_id", VALUE_TEXT, false, OF_OS(version_id), NULL },
	{ "os", "glibc", VALUE_TEXT, false, OF_OS(glibc), no_words },
	{ "os", "codename", VALUE_TEXT, false, OF_OS(codename), NULL },
	{ "os", "minor_after", VALUE_TEXT, false, OF_OS(minor_after), NULL },
	{ "os", "krel", VALUE_WORDS, false, OF_OS(krels), NULL },
	{ "kernel", "match", VALUE_WORD_OF, false, OF_OS(kernel.match), matches },
	{ "kernel", "headers", VALUE_WORDS, true, OF_OS(kernel.headers), templates },
	{ "kernel", "modules", VALUE_WORDS, true, OF_OS(kernel.modules), templates },
	{ "kernel", "modules_optional", VALUE_WORDS, false, OF_OS(kernel.modules_optional),
		templates },
	{ "kernel", "follow", VALUE_WORDS, false, OF_OS(kernel.follow), NULL },
	{ "kernel", "tools", VALUE_WORDS, false, OF_OS(kernel.tools), NULL },
	{ "kernel", "flavours", VALUE_WORDS, false, OF_OS(kernel.flavours), NULL },
	{ "kernel", "drop", VALUE_WORDS, false, OF_OS(kernel.drop), NULL },
	{ "kernel", "build_counter", VALUE_FLAG, false, OF_OS(kernel.build_counter), NULL },
	{ "kernel", "keep", VALUE_WORDS, true, OF_OS(kernel.keep), NULL },
	{ "kernel", "compiler", VALUE_TEXT, false, OF_OS(kernel.compiler), NULL },
	{ "kernel", "compiler_prefix", VALUE_TEXT, false, OF_OS(kernel.compiler_prefix), NULL },
	{ "kernel", "series", VALUE_TEXT, false, OF_OS(kernel.series), NULL },
	{ "kernel", "flavour", VALUE_TEXT, false, OF_OS(kernel.flavour), flavour_words },
	{ "root", "family", VALUE_TEXT, false, OF_OS(root.family), no_words },
	{ "root", "suite", VALUE_TEXT, false, OF_OS(root.suite), no_words },
	{ "root", "repositories", VALUE_WORDS, false, OF_OS(root.repositories), no_words },
	{ "root", "packages", VALUE_WORDS, false, OF_OS(root.packages), no_words },
	{ "root", "init_packages", VALUE_WORDS, false, OF_OS(root.init_packages), no_words },
	{ "root", "cross_packages", VALUE_WORDS, false, OF_OS(root.cross_packages), cross_words },
	{ "root", "compiler_packages", VALUE_WORDS, false, OF_OS(root.compiler_packages),
		gcc_words },
	{ "root", "clang_packages", VALUE_WORDS, false, OF_OS(root.clang_packages), clang_words },
	{ "root", "releasever", VALUE_TEXT, false, OF_OS(root.releasever), no_words },
	{ "root", "platform", VALUE_TEXT, false, OF_OS(root.platform), no_words },
	{ "root", "like", VALUE_TEXT, false, OF_OS(root.like), no_words },
	{ "root", "runtime", VALUE_TEXT, false, OF_OS(root.runtime), no_words },
	{ "image", "nvidia_package", VALUE_TEXT, false, OF_OS(image.nvidia_package), templates },
	{ "image", "nvidia_proprietary_package", VALUE_TEXT, false,
		OF_OS(image.nvidia_proprietary_package), templates },
	{ "image", "linux_source_package", VALUE_TEXT, false, OF_OS(image.linux_source_package),
		templates },
	{ "tags", "version", VALUE_TEXT, false, OF_OS(tags.version), release_words },
	{ "repository", "kind", VALUE_WORD_OF, false, OF_REPOSITORY(kind), kinds },
	{ "repository", "trust", VALUE_WORD_OF, false, OF_REPOSITORY(trust), trusts },
	{ "repository", "mirror", VALUE_TEXT, true, OF_REPOSITORY(mirror), NULL },
	{ "repository", "path", VALUE_TEXT, false, OF_REPOSITORY(path), NULL },
	{ "repository", "origin", VALUE_TEXT, false, OF_REPOSITORY(origin), NULL },
	{ "repository", "label", VALUE_TEXT, false, OF_REPOSITORY(label), NULL },
	{ "repository", "suite", VALUE_TEXT, false, OF_REPOSITORY(suite), NULL },
	{ "repository", "components", VALUE_TEXT, false, OF_REPOSITORY(components), NULL },
	{ "repository", "key", VALUE_TEXT, false, OF_REPOSITORY(key), no_words },
	{ "repository", "keyring", VALUE_WORDS, false, OF_REPOSITORY(keyrings), NULL },
	{ "repository", "client_certificate", VALUE_TEXT, false, OF_REPOSITORY(client_certificate),
		NULL },
	{ "repository", "certificate_authority", VALUE_TEXT, false,
		OF_REPOSITORY(certificate_authority), NULL },
	{ "repository", "krel", VALUE_WORDS, false, OF_REPOSITORY(krels), NULL },
	{ "repository", "archive", VALUE_FLAG, false, OF_REPOSITORY(archive), NULL },
	{ "repository", "optional", VALUE_FLAG, false, OF_REPOSITORY(optional), NULL },
	{ "repository", "root_only", VALUE_FLAG, false, OF_REPOSITORY(root_only), NULL },
};

static bool is_repository(const char *section)
{
	return strncmp(section, REPOSITORY_PREFIX, strlen(REPOSITORY_PREFIX)) == 0;
}

static const char *kind_of(const char *section)
{
	return is_repository(section) ? "repository" : section;
}

static const struct key *key_find(const char *section, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].section, kind_of(section)) == 0 &&
			strcmp(keys[i].name, name) == 0)
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

/* ---- a file's keys as texts, before and after what it inherits */

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
	char *inherit; /* the file that has what this one lacks, or NULL */
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

/* Sets a key, which may be there; takes @value over. */
static void entry_set(
	struct entries *entries, const char *section, const struct key *key, char *value)
{
	struct entry *entry = entry_find(entries, section, key);

	if (!entry) {
		entries->items =
			xreallocarray(entries->items, entries->count + 1, sizeof(*entries->items));
		entry = &entries->items[entries->count++];
		*entry = (struct entry){ .section = xstrdup(section), .key = key };
	}
	free(entry->value);
	entry->value = value;
}

/* ini_file_key */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct entries *entries = user;
	const struct key *key = key_find(section, name);
	const struct entry *there = key ? entry_find(entries, section, key) : NULL;

	if (strcmp(section, "os") == 0 && strcmp(name, "inherit") == 0) {
		if (entries->inherit)
			return -EINVAL;
		entries->inherit = xstrdup(value);
		return 0;
	}
	if (!key || (key->kind == VALUE_WORD_OF && word_index(key, value) < 0) ||
		(key->kind == VALUE_FLAG && strcmp(value, "yes") != 0 &&
			strcmp(value, "no") != 0) ||
		(there && key->kind != VALUE_WORDS))
		return -EINVAL;
	entry_set(entries, section, key,
		there ? xasprintf("%s %s", there->value, value) : xstrdup(value));
	return 0;
}

/*
 * Reads a file after what it inherits, and over that: @name.ini, or @name.inc, which is no
 * distribution but what several have alike. @files gets the names of all, its own first.
 */
static int read_file(const char *folder, const char *name, struct entries *entries,
	struct strv *files, struct error *error)
{
	_cleanup_(entries_free) struct entries own = { 0 };
	_cleanup_free_ char *path = xasprintf("%s/%s.ini", folder, name);
	int r;

	if (files->count && !fs_exists(AT_FDCWD, path)) {
		free(path);
		path = xasprintf("%s/%s.inc", folder, name);
	}
	if (!fs_exists(AT_FDCWD, path))
		return -ENOENT;
	xstrv_push(files, strrchr(path, '/') + 1);
	r = ini_file_read(path, on_key, &own, error);
	if (r < 0)
		return r;
	if (own.inherit) {
		if (strchr(own.inherit, '/') || files->count == INHERIT_DEPTH)
			return error_set(error, -EINVAL, "%s: inherit = %s: %s", path, own.inherit,
				files->count == INHERIT_DEPTH ? "too deep, or a circle"
							      : "not a name");
		r = read_file(folder, own.inherit, entries, files, error);
		if (r == -ENOENT)
			return error_set(error, -EINVAL, "%s: inherit = %s: there is no such file",
				path, own.inherit);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < own.count; i++)
		entry_set(entries, own.items[i].section, own.items[i].key,
			TAKE_PTR(own.items[i].value));
	return 0;
}

/* ---- from texts to values */

/* {os} and three keys of [os] stand for themselves in any value. */
static char *substitute(const struct entries *entries, const char *os, const char *value)
{
	static const char *const words[] = { "{id}", "{version_id}", "{codename}", "{os}" };
	static const char *const names[] = { "id", "version_id", "codename" };
	const char *values[ARRAY_SIZE(words)] = { [ARRAY_SIZE(names)] = os };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct entry *entry = entry_find(entries, "os", key_find("os", names[i]));

		values[i] = entry ? entry->value : NULL;
	}
	return replace_words(value, words, values, ARRAY_SIZE(words));
}

static int check_templates(const char *path, const char *section, const struct key *key,
	const char *value, struct error *error)
{
	for (const char *word = strchr(value, '{'); word; word = strchr(word + 1, '{')) {
		size_t length = strcspn(word, "} \t\n|");
		size_t count = 0;

		while (key->words[count])
			count++;
		if (word_at(word, key->words, count) == count)
			return error_set(error, -EINVAL,
				"%s: [%s] %s: %.*s is not one of the allowed words "
				"(slipway-catalogue(5))",
				path, section, key->name, (int) (length + (word[length] == '}')),
				word);
	}
	return 0;
}

/*
 * Fills the keys of one section of @base; a [repository NAME] has those of [repository] where it
 * has none of its own.
 */
static int fill_section(const struct entries *entries, const char *path, const char *os,
	const char *section, void *base, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct key *key = &keys[i];
		const struct entry *entry = entry_find(entries, section, key);
		void *slot = (char *) base + key->offset;
		_cleanup_free_ char *value = NULL;
		int r;

		if (strcmp(key->section, kind_of(section)) != 0)
			continue;
		if (!entry)
			entry = entry_find(entries, kind_of(section), key);
		value = substitute(entries, os, entry ? entry->value : "");
		if (key->required && !value[strspn(value, " \t\n")])
			return error_set(
				error, -EINVAL, "%s: [%s] has no %s", path, section, key->name);
		r = key->words && key->kind != VALUE_WORD_OF
			    ? check_templates(path, section, key, value, error)
			    : 0;
		if (r < 0)
			return r;
		if (key->kind == VALUE_TEXT)
			*(char **) slot = TAKE_PTR(value);
		else if (key->kind == VALUE_WORDS)
			xstrv_split(slot, value, " \t\n");
		else if (key->kind == VALUE_FLAG)
			*(bool *) slot = strcmp(value, "yes") == 0;
		else if (entry)
			*(int *) slot = word_index(key, value);
	}
	return 0;
}

char *catalogue_accepted_key(const char *key)
{
	_cleanup_free_ char *name = xasprintf("keyrings/%s.gpg", key);

	return ini_file_user_path(name);
}

/* Last of its keyrings: the one that the user has accepted. */
static void add_accepted_key(struct repository *repository)
{
	_cleanup_free_ char *path =
		*repository->key ? catalogue_accepted_key(repository->key) : NULL;

	if (path)
		xstrv_push(&repository->keyrings, path);
}

static int fill(struct catalogue *catalogue, const struct entries *entries, const char *path,
	struct error *error)
{
	static const char *const sections[] = { "os", "kernel", "root", "image", "tags" };

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		int r = fill_section(entries, path, catalogue->os, sections[i], catalogue, error);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < entries->count; i++) {
		const char *section = entries->items[i].section;
		const char *name = section + strlen(REPOSITORY_PREFIX);
		struct repository *repository;
		size_t j = 0;
		int r;

		if (!is_repository(section))
			continue;
		while (j < catalogue->repository_count &&
			strcmp(catalogue->repositories[j].name, name) != 0)
			j++;
		if (j < catalogue->repository_count)
			continue;
		catalogue->repositories = xreallocarray(
			catalogue->repositories, j + 1, sizeof(*catalogue->repositories));
		repository = &catalogue->repositories[catalogue->repository_count++];
		*repository = (struct repository){ .name = xstrdup(name) };
		r = fill_section(entries, path, catalogue->os, section, repository, error);
		if (r < 0)
			return r;
		if (strchr(repository->key, '/'))
			return error_set(error, -EINVAL, "%s: [%s] key = %s: not a name", path,
				section, repository->key);
		add_accepted_key(repository);
	}
	if (catalogue->repository_count == 0)
		return error_set(error, -EINVAL, "%s: no [repository NAME] section", path);
	return 0;
}

/* ---- the files */

int catalogue_names(const char *folder, struct strv *names, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	int r = fs_list(AT_FDCWD, folder, &files);

	if (r < 0)
		return error_set_errno(error, r, "%s: catalogue of distributions", folder);
	for (size_t i = 0; i < files.count; i++) {
		char *suffix = strrchr(files.items[i], '.');

		if (!suffix || strcmp(suffix, ".ini") != 0)
			continue;
		*suffix = '\0';
		xstrv_push(names, files.items[i]);
	}
	return 0;
}

static int open_file(const char *folder, const char *os, struct catalogue *ret, struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { .os = xstrdup(os) };
	_cleanup_(entries_free) struct entries entries = { 0 };
	_cleanup_free_ char *path = xasprintf("%s/%s.ini", folder, os);
	int r;

	r = read_file(folder, os, &entries, &catalogue.files, error);
	if (r == 0)
		r = fill(&catalogue, &entries, path, error);
	if (r < 0)
		return r;
	if (!*catalogue.root.runtime) {
		free(catalogue.root.runtime);
		catalogue.root.runtime = xstrdup(DEFAULT_RUNTIME);
	}
	*ret = catalogue;
	catalogue = (struct catalogue){ 0 };
	return 0;
}

/* "bookworm" of "Debian 12 (bookworm)": VERSION_CODENAME in os-release, which people know too. */
static bool has_codename(const struct catalogue *catalogue, const char *codename)
{
	const char *start = strrchr(catalogue->name, '(');
	size_t length = strlen(codename);

	return start && strncasecmp(start + 1, codename, length) == 0 &&
	       strcmp(start + 1 + length, ")") == 0;
}

/* --os names none of @names: those that it may mean, and all. */
static int unknown_os(
	const char *folder, const struct strv *names, const char *os, struct error *error)
{
	_cleanup_strv_ struct strv others = { 0 };
	_cleanup_strv_ struct strv begun = { 0 };
	_cleanup_free_ char *known = xstrv_join(names, ", ");
	_cleanup_free_ char *choice = NULL;
	const char *near = nearest_word(names, os);
	int r = catalogue_others(folder, NULL, &others, error);

	if (r < 0)
		return r;
	/* Several releases of "debian": none of them is nearer. */
	for (size_t i = 0; *os && i < names->count; i++)
		if (strncmp(names->items[i], os, strlen(os)) == 0)
			xstrv_push(&begun, names->items[i]);
	choice = xstrv_join(&begun, ", ");
	if (strv_contains(&others, os))
		r = error_set(error, -ENODATA,
			"--os %s: not supported: Slipway only knows how its kernels are named", os);
	else if (begun.count > 1)
		r = error_set(
			error, -ENODATA, "--os %s: unknown; did you mean one of %s?", os, choice);
	else
		r = error_set(error, -ENODATA, "--os %s: unknown%s%s%s", os,
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return error_line(error, r, "known are: %s", known);
}

int catalogue_open(const char *folder, const char *os, struct catalogue *ret, struct error *error)
{
	bool is_name = *os && *os != '.' && !strchr(os, '/');
	_cleanup_strv_ struct strv names = { 0 };
	int r = is_name ? open_file(folder, os, ret, error) : -ENOENT;

	if (r != -ENOENT)
		return r;
	r = catalogue_names(folder, &names, error);
	if (r < 0)
		return r;
	for (size_t i = 0; is_name && i < names.count; i++) {
		_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };

		r = open_file(folder, names.items[i], &catalogue, error);
		if (r < 0)
			return r;
		if (has_codename(&catalogue, os)) {
			*ret = catalogue;
			catalogue = (struct catalogue){ 0 };
			return 0;
		}
	}
	return unknown_os(folder, &names, os, error);
}

static void free_section(const char *kind, void *base)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		void *slot = (char *) base + keys[i].offset;

		if (strcmp(kind, keys[i].section) != 0)
			continue;
		if (keys[i].kind == VALUE_TEXT)
			free(*(char **) slot);
		else if (keys[i].kind == VALUE_WORDS)
			strv_free(slot);
	}
}

void catalogue_free(struct catalogue *catalogue)
{
	static const char *const sections[] = { "os", "kernel", "root", "image", "tags" };

	free(catalogue->os);
	strv_free(&catalogue->files);
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		free_section(sections[i], catalogue);
	for (size_t i = 0; i < catalogue->repository_count; i++) {
		free_section("repository", &catalogue->repositories[i]);
		free(catalogue->repositories[i].name);
	}
	free(catalogue->repositories);
	*catalogue = (struct catalogue){ 0 };
}

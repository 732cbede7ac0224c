/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/catalogue.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "kernels/ini_file.h"

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

#define OF_OS(member)         offsetof(struct catalogue, member)
#define OF_REPOSITORY(member) offsetof(struct repository, member)

static const struct key keys[] = {
	{ "os", "name", VALUE_TEXT, true, OF_OS(name), NULL },
	{ "os", "id", VALUE_TEXT, true, OF_OS(id), NULL },
	{ "os", "version_id", VALUE_TEXT, false, OF_OS(version_id), NULL },
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

static int take_word(const struct key *key, const char *value, int *slot)
{
	for (int i = 0; key->words[i]; i++)
		if (strcmp(key->words[i], value) == 0) {
			*slot = i;
			return 0;
		}
	return -EINVAL;
}

static int take_flag(const char *value, bool *slot)
{
	*slot = strcmp(value, "yes") == 0;
	return *slot || strcmp(value, "no") == 0 ? 0 : -EINVAL;
}

static int take_text(const char *value, char **slot)
{
	if (*slot)
		return -EINVAL;
	*slot = strdup(value);
	return *slot ? 0 : -ENOMEM;
}

static int take(const struct key *key, const char *value, void *slot)
{
	switch (key->kind) {
	case VALUE_TEXT:
		return take_text(value, slot);
	case VALUE_WORDS:
		return strv_split(slot, value, " \t\n");
	case VALUE_FLAG:
		return take_flag(value, slot);
	case VALUE_WORD_OF:
		return take_word(key, value, slot);
	}
	return -EINVAL;
}

/* "[repository backports]" is section "repository" with the name "backports". */
static struct repository *repository_named(struct catalogue *catalogue, const char *name)
{
	struct repository *grown;

	for (size_t i = 0; i < catalogue->repository_count; i++)
		if (strcmp(catalogue->repositories[i].name, name) == 0)
			return &catalogue->repositories[i];
	grown = reallocarray(
		catalogue->repositories, catalogue->repository_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	catalogue->repositories = grown;
	grown = &grown[catalogue->repository_count];
	*grown = (struct repository){ .name = strdup(name) };
	if (!grown->name)
		return NULL;
	catalogue->repository_count++;
	return grown;
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
	static const char prefix[] = "repository ";
	struct catalogue *catalogue = user;
	struct repository *repository = NULL;
	const char *kind = section;

	if (strncmp(section, prefix, sizeof(prefix) - 1) == 0) {
		repository = repository_named(catalogue, section + sizeof(prefix) - 1);
		if (!repository)
			return -ENOMEM;
		kind = "repository";
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].section, kind) != 0 || strcmp(keys[i].name, name) != 0 ||
			(strcmp(kind, "repository") == 0 && !repository))
			continue;
		return take(&keys[i], value, slot_of(&keys[i], catalogue, repository));
	}
	return -EINVAL;
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
		if (keys[i].kind == VALUE_TEXT && !*(char **) slot && take_text("", slot) < 0)
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
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/%s.ini", folder, os) < 0)
		return error_set_errno(error, -ENOMEM, "%s", os);
	if (!fs_exists(AT_FDCWD, path))
		return -ENOENT;
	r = ini_file_read(path, on_key, catalogue, error);
	if (r == 0)
		r = complete(catalogue, path, error);
	if (r < 0)
		return r;
	catalogue->os = strdup(os);
	return catalogue->os ? 0 : error_set_errno(error, -ENOMEM, "%s", os);
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
